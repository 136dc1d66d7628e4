"""The source end to end: Spark itself, on one store or the other; both are in `test_source_log` and
`test_source_lease`.
"""

import json
from collections import Counter
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import turnabout
from tests.pipeline.spark.places import finish, on_postgres, on_sqlite
from tests.pipeline.spark.test_source_log import token
from turnabout.pipeline import schema
from turnabout.pipeline import verbs as p
from turnabout.pipeline.spark import sessions

Spark = Any


@pytest.fixture
def stream(spark: Spark, place: str, tmp_path: Path) -> Any:
    """Runs a stream to its end; its rows by batch, kept by the driver."""
    batches: dict[int, list[Any]] = {}

    def run(mode: str, fails: Any = None, checkpoint: str = "check", **options: Any) -> Any:
        given = {"url": place, "mode": mode, **{k: str(v) for k, v in options.items()}}
        frame = spark.readStream.format("turnabout").options(**given).load()

        def sink(rows: Any, batch: int) -> None:
            found = rows.collect()
            if fails is not None and fails(found):
                raise RuntimeError("the sink failed")
            batches[batch] = found

        query = (
            frame.writeStream.foreachBatch(sink)
            .option("checkpointLocation", str(tmp_path / checkpoint))
            .trigger(availableNow=True)
            .start()
        )
        try:
            query.awaitTermination(120)
        finally:
            query.stop()
        return batches

    return run


def values(batches: dict[int, list[Any]]) -> list[str]:
    return [bytes(row["value"]).decode() for batch in sorted(batches) for row in batches[batch]]


def test_schemas_are_sparks(spark: Spark) -> None:
    from pyspark.sql.pandas.types import to_arrow_schema

    for columns in (schema.LEASE, schema.LOG, schema.DEAD, schema.SINK):
        parsed = spark.createDataFrame([], schema.ddl(columns, columns)).schema
        assert to_arrow_schema(parsed, timezone="UTC").equals(schema.arrow_schema(columns, columns))
        for field in parsed:
            assert field.dataType.simpleString() == columns[field.name][1]


@on_postgres
def test_a_lease_stream_and_its_crashes(
    place: str, mq: turnabout.Turnabout, stream: Any, tmp_path: Path
) -> None:
    queue = mq.queue("emails")
    sent = [f"m-{n}" for n in range(25)]
    for n, text in enumerate(sent):
        queue.send(text, channel=f"c{n % 4}", headers={"n": str(n)})
    options = {"subscribe": "emails", "subscription": "s", "maxOffsetsPerTrigger": 10}
    failed: list[list[Any]] = []

    def once(rows: list[Any]) -> bool:
        failed.append(rows)
        return len(failed) == 2

    with pytest.raises(Exception, match="the sink failed"):
        stream("lease", once, **options)
    assert queue.stats().done == 10
    batches = stream("lease", includeHeaders=True, **options)
    assert batches[1] != []
    assert [row["message_id"] for row in batches[1]] == [row["message_id"] for row in failed[1]]
    assert Counter(values(batches)) == Counter(sent)
    assert {row["headers"]["n"] for row in batches[2]} <= {str(n) for n in range(25)}
    stats = queue.stats()
    assert (stats.done, stats.leased, stats.ready) == (25, 0, 0)

    assert place not in "".join(
        file.read_text("utf-8", "replace")
        for file in (tmp_path / "check").rglob("*")
        if file.is_file()
    )


@on_sqlite
def test_a_log_stream_goes_on_where_it_was(mq: turnabout.Turnabout, stream: Any) -> None:
    ids = finish(mq, 12, "acme/emails")
    finish(mq, 3, "zeta/emails")
    options = {"token": token(mq, "acme", "history:*"), "maxOffsetsPerTrigger": 6}
    batches = stream("log", **options)
    more = finish(mq, 4, "acme/emails")
    batches = stream("log", **options)
    found = [row["message_id"] for batch in sorted(batches) for row in batches[batch]]
    assert found == ids + more


@on_postgres
def test_batches_filters_and_narrow_schemas(
    spark: Spark, place: str, mq: turnabout.Turnabout, capsys: pytest.CaptureFixture[str]
) -> None:
    ids = finish(mq, 4, channel="ann") + finish(mq, 4, channel="bob")
    history = spark.read.format("turnabout").option("url", place).option("mode", "history")
    assert history.load().count() == 8

    narrow = history.schema("channel string, message_id long, finished_at timestamp").load()
    wanted = narrow.where("channel = 'bob' and finished_at > '2020-01-01' and message_id % 2 = 0")
    wanted.explain()
    plan = capsys.readouterr().out
    (filtered,) = [line for line in plan.splitlines() if "Filter" in line and "Scan" not in line]
    assert "% 2" in filtered  # this is left to Spark, and only this
    assert "bob" not in plan
    assert place not in plan
    assert {row["message_id"] for row in wanted.collect()} == {i for i in ids[4:] if i % 2 == 0}

    log = spark.read.format("turnabout").option("url", place)
    assert log.load().select("message_id").count() == 8
    end = json.dumps({"position": mq.store.run(p.LogLook()).end})
    assert log.option("startingOffsets", end).load().count() == 0


@on_sqlite
def test_the_dead_and_what_is_wrong(spark: Spark, place: str, mq: turnabout.Turnabout) -> None:
    queue = mq.queue("emails")
    queue.create(max_attempts=1)
    queue.send("bad")
    (message,) = queue.receive()
    message.fail("no such address")
    source = spark.read.format("turnabout").option("url", place)
    (row,) = source.option("mode", "dead").load().collect()
    assert (row["queue"], row["last_error"]) == ("emails-dead", "no such address")

    for options, said in [
        ({"mode": "lease"}, "mode=lease is for spark.readStream"),
        ({"mode": "history", "subscibe": "x"}, "did you mean subscribe"),
        ({"url": "http://localhost:1"}, "works on the database itself"),
    ]:
        with pytest.raises(Exception, match=said):
            spark.read.format("turnabout").option("url", place).options(**options).load().count()


@on_sqlite
def test_without_pushdown_it_reads_as_well(
    spark: Spark, place: str, mq: turnabout.Turnabout
) -> None:
    finish(mq, 4)
    other = spark.newSession()
    other.conf.set("spark.sql.python.filterPushdown.enabled", "false")
    from turnabout.pipeline import register

    register(other)
    history = other.read.format("turnabout").option("url", place).option("mode", "history").load()
    assert history.where("message_id > 0").count() == 4


@on_sqlite
def test_a_batch_has_as_many_tasks_as_run_at_once(spark: Spark, mq: Any, place: str) -> None:
    finish(mq, 60)
    three = SimpleNamespace(defaultParallelism=3)  # of a cluster; here it is the usual 2
    sessions._add_format(SimpleNamespace(dataSource=spark.dataSource, sparkContext=three))
    try:
        read = spark.read.format("turnabout").option("url", place)
        assert read.option("mode", "history").load().rdd.getNumPartitions() == 3
        dead = read.option("mode", "dead").option("numPartitions", 5).load()
        assert dead.rdd.getNumPartitions() == 5
        assert dead.count() == 0
    finally:
        sessions._add_format(spark)
