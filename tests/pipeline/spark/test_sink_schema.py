"""Columns and options of the sink, refused before any task runs."""

from typing import Any

import pytest
from pyspark.sql.types import StructType

from tests.support.each import each
from turnabout.pipeline.spark.sink import batch_writer, stream_writer
from turnabout.words.errors import UsageError

URL = "postgresql://nobody@127.0.0.1:1/nowhere"


def columns(ddl: str) -> StructType:
    """Without a JVM, which `StructType.fromDDL` needs."""
    fields = []
    for column in ddl.split(", "):
        name, _, kind = column.partition(" ")
        fields.append({"name": name, "type": TYPES.get(kind, kind), "nullable": True})
    for field in fields:
        field["metadata"] = {}
    return StructType.fromJson({"type": "struct", "fields": fields})


TYPES: dict[str, Any] = {
    "bigint": "long",
    "int": "integer",
    "map": {
        "type": "map", "keyType": "string", "valueType": "string", "valueContainsNull": True
    },
    "map<int>": {
        "type": "map", "keyType": "string", "valueType": "integer", "valueContainsNull": True
    },
    "struct": {"type": "struct", "fields": []},
}  # fmt: skip


def refused(ddl: str, **options: str) -> str:
    given = {"url": URL, **options}
    with pytest.raises(UsageError) as batch:
        batch_writer(given, columns(ddl), overwrite=False)
    with pytest.raises(UsageError) as stream:
        stream_writer(given, columns(ddl), overwrite=False)
    assert str(batch.value) == str(stream.value)
    return str(batch.value)


@each(
    ("ddl", "text"),
    [
        ("channel string, queue string", "needs the column value"),
        ("value string", 'which queue? Give .option("queue"'),
        ("value string, queue string, chanel string", "did you mean channel?"),
        ("value string, queue string, key string", "did you mean channel?"),
        ("value string, topic string", "did you mean queue?"),
        ("value string, queue string, zzz string", "select from value, queue"),
        ("value struct, queue string", "to_json(struct(…))"),
        ("value void, queue string", "not void"),
        ("value string, queue string, priority string", "priority is of type int, not string"),
        ("value string, queue string, delay_seconds timestamp", "double, not timestamp"),
        ("value string, queue string, headers map<int>", "headers is a map<string,string>"),
        ("value string, queue string, value string", "value is there 2 times"),
        ("value string, queue string, Value string", "value is there 2 times"),
    ],
)
def test_columns_that_are_refused(ddl: str, text: str) -> None:
    assert text in refused(ddl)


def test_columns_that_are_taken() -> None:
    for ddl in (
        "value binary, queue string",
        "VALUE binary, Queue string, Delay_Seconds double",
        "value string, queue string, headers map, priority bigint, delay_seconds decimal(2,1)",
        "value string, queue string, headers string, ttl_seconds bigint, dedup_key void",
        "value string, queue string, channel string, content_type string, priority short",
    ):
        batch_writer({"url": URL}, columns(ddl), overwrite=False)
        stream_writer({"url": URL, "sinkId": "s"}, columns(ddl), overwrite=False)
    batch_writer({"url": URL, "queue": "emails"}, columns("value string"), overwrite=False)


@each(
    ("options", "text"),
    [
        ({"queue": "no name!"}, "not a valid queue name"),
        ({"quue": "emails"}, "did you mean queue?"),
        ({"mode": "lease"}, "mode is an option of"),
        ({"onInvalidRow": "drop"}, "onInvalidRow is one of fail, deadletter"),
        ({"maxPayloadBytes": "many"}, "maxPayloadBytes is a whole number"),
        ({"namespace": "acme", "queue": "other/emails"}, "names have no slash here"),
    ],
)
def test_options_that_are_refused(options: dict[str, str], text: str) -> None:
    assert text in refused("value string, queue string", **options)


def test_overwriting_and_names_of_the_other_kind_are_refused() -> None:
    schema = columns("value string, queue string")
    for make, options, overwrite, text in (
        (batch_writer, {}, True, '.mode("append")'),
        (stream_writer, {}, True, "outputMode"),
        (batch_writer, {"sinkId": "s"}, False, "runId"),
        (stream_writer, {"runId": "r"}, False, "checkpoint"),
        (batch_writer, {"runId": "a b"}, False, "not a valid runId"),
        (batch_writer, {"runId": "r" * 51}, False, "up to 50"),
        (stream_writer, {"sinkId": "s" * 51}, False, "up to 50"),
        (stream_writer, {"sinkId": "run.s"}, False, "does not begin with"),
    ):
        with pytest.raises(UsageError, match=text.replace("(", r"\(").replace(")", r"\)")):
            make({"url": URL, **options}, schema, overwrite=overwrite)
    batch_writer({"url": URL, "runId": "r" * 50}, schema, overwrite=False)
    stream_writer({"url": URL, "sinkId": "s" * 50}, schema, overwrite=False)
