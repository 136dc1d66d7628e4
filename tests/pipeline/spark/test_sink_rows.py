"""Rows as messages: what a send would refuse is refused, with the row and the reason."""

from decimal import Decimal
from typing import Any, NamedTuple

import pyarrow as pa

from tests.support.each import each
from turnabout.pipeline.spark.outgoing import Invalid, checked, dead_letter
from turnabout.pipeline.verbs import StagedMessages
from turnabout.words.entities import Outgoing
from turnabout.words.errors import UsageError
from turnabout.words.limits import queue_name

TYPES = {
    "value": pa.binary(),
    "queue": pa.string(),
    "channel": pa.string(),
    "content_type": pa.string(),
    "headers": pa.map_(pa.string(), pa.string()),
    "priority": pa.int32(),
    "delay_seconds": pa.float64(),
    "ttl_seconds": pa.float64(),
    "dedup_key": pa.string(),
}
BYTES = "application/octet-stream"


def batch(*rows: dict[str, Any], **types: pa.DataType) -> pa.RecordBatch:
    """Rows with the columns of the first."""
    kinds = TYPES | types
    columns = {name: [row.get(name) for row in rows] for name in rows[0]}
    return pa.record_batch({n: pa.array(cells, kinds[n]) for n, cells in columns.items()})


def named(queue: Any) -> str:
    """As a sink with the option `queue` does."""
    return queue_name("emails" if queue is None else queue)


class Made(NamedTuple):
    """A row that is a message, and its queue."""

    queue: str
    message: Outgoing


def staged(batch: pa.RecordBatch, stored: Any, *more: int) -> list[Made | Invalid]:
    """The rows in their order: messages, or why they are none."""
    rows = checked(batch, stored, *more)
    part = StagedMessages("all", rows.payloads, rows.content_type, dict(rows.columns))
    made = map(Made, rows.queues, part.messages())
    first = more[1] if len(more) > 1 else 1
    wrong = {one.at: one for one in rows.invalid}
    return [wrong.get(at) or next(made) for at in range(first, first + batch.num_rows)]


def only(letter: StagedMessages) -> Outgoing:
    (message,) = letter.messages()
    return message


def sent(*rows: dict[str, Any], **types: pa.DataType) -> list[Any]:
    return list(staged(batch(*rows, **types), named))


def one(**row: Any) -> Any:
    (made,) = sent({"value": b"x", **row})
    return made


def test_all_columns() -> None:
    made = one(
        queue="reports",
        channel="c",
        content_type="image/png",
        headers=[("a", "b")],
        priority=-3,
        delay_seconds=1.5,
        ttl_seconds=60.0,
        dedup_key="k",
    )
    message = Outgoing(
        b"x", "image/png", "c", -3, 1500, headers={"a": "b"}, ttl_ms=60_000, dedup_key="k"
    )
    assert made == Made("reports", message)


def test_nulls_are_what_a_send_leaves_away() -> None:
    names = [name for name in TYPES if name != "value"]
    assert one(**dict.fromkeys(names)) == Made("emails", Outgoing(b"x", BYTES)) == one()


def test_text_is_sent_as_text() -> None:
    for kind in (pa.string(), pa.large_string()):
        (made,) = sent({"value": "Grüße"}, value=kind)
        assert made.message == Outgoing("Grüße".encode(), "text/plain; charset=utf-8")
    (made,) = sent({"value": "{}", "content_type": "application/json"}, value=pa.string())
    assert made.message.content_type == "application/json"


def test_numbers_of_other_types() -> None:
    (made,) = sent(
        {"value": b"x", "priority": 7, "delay_seconds": Decimal("1.5"), "ttl_seconds": 2},
        priority=pa.int64(),
        delay_seconds=pa.decimal128(10, 3),
        ttl_seconds=pa.int64(),
    )
    assert (made.message.priority, made.message.delay_ms, made.message.ttl_ms) == (7, 1500, 2000)


def test_headers_as_json() -> None:
    (made,) = sent({"value": b"x", "headers": '{"a": "b"}'}, headers=pa.string())
    assert made.message.headers == {"a": "b"}


@each(
    ("row", "reason"),
    [
        ({"value": None}, "value is null"),
        ({"value": b"x" * 101}, "over the limit of 100"),
        ({"queue": "no name!"}, "not a valid queue name"),
        ({"channel": "c" * 256}, "at most 255 bytes"),
        ({"channel": "a\0b"}, "NUL"),
        ({"content_type": ""}, "content type"),
        ({"priority": 40_000}, "priority is -32,768 to 32,767"),
        ({"delay_seconds": -1.0}, "delay_seconds is 0 to"),
        ({"delay_seconds": float("nan")}, "delay_seconds is 0 to"),
        ({"ttl_seconds": 0.0}, "ttl_seconds is 0.001 to"),
        ({"dedup_key": ""}, "1 to 255 bytes"),
        ({"headers": [("", "b")]}, "name is not empty"),
        ({"headers": [("a", None)]}, "a header's value is a str"),
    ],
)
def test_a_row_that_is_no_message(row: dict[str, Any], reason: str) -> None:
    good = {"value": b"x"}
    rows = [{**dict.fromkeys(row), **good}, {**good, **row}, {**dict.fromkeys(row), **good}]
    first, bad, last = staged(batch(*rows), named, 100, 11)
    assert isinstance(first, Made)
    assert isinstance(last, Made)
    assert isinstance(bad, Invalid)
    assert bad.at == 12
    assert reason in bad.reason


@each("text", ["{", "[1]", '{"a": 1}', "null", '{"": "x"}'])
def test_headers_that_are_no_json_of_texts(text: str) -> None:
    (bad,) = sent({"value": b"x", "headers": text}, headers=pa.string())
    assert isinstance(bad, Invalid)
    assert "header" in bad.reason


def broken(*cells: bytes) -> pa.Array:
    """Text that is no UTF-8, as a cast of bytes leaves it."""
    return pa.Array.from_buffers(pa.string(), len(cells), pa.array(cells, pa.binary()).buffers())


def test_text_that_is_no_utf8_spoils_its_own_row_only() -> None:
    for name in ("value", "channel", "dedup_key", "queue"):
        columns = {"value": pa.array([b"x", b"y"]), name: broken(b"good", b"\xff\xfe")}
        good, bad = staged(pa.record_batch(columns), named)
        assert isinstance(good, Made), name
        assert isinstance(bad, Invalid), name
        assert bad.at == 2
        stands = dead_letter(bad, "emails", "emails-dead", 100)
        assert only(stands).payload == (b"\xff\xfe" if name == "value" else b"y")


def test_what_goes_to_the_dead_letter_queue() -> None:
    (bad,) = sent({"value": b"x", "channel": "c", "headers": [("a", "b")], "priority": 99_999})
    made = dead_letter(bad, "emails", "emails-dead", 100)
    assert made.queue == "emails-dead"
    assert only(made) == Outgoing(
        b"x",
        BYTES,
        "c",
        headers={"a": "b", "invalid-reason": bad.reason, "invalid-queue": "emails"},
    )


def test_what_is_too_large_is_cut_for_the_dead_letter_queue_and_says_so() -> None:
    (bad,) = staged(batch({"value": b"x" * 101}), named, 100)
    assert isinstance(bad, Invalid)
    made = dead_letter(bad, "emails", "emails-dead", 100)
    assert len(only(made).payload) == 100
    assert only(made).headers["invalid-bytes"] == "101"


def test_a_dead_letter_leaves_out_what_is_invalid() -> None:
    many = [(f"h{n}", "") for n in range(64)]
    row = {"value": None, "channel": "c" * 256, "content_type": "", "headers": many}
    (bad,) = sent(row)
    made = only(dead_letter(bad, "emails", "emails-dead", 100))
    assert (made.payload, made.channel) == (b"", "")
    assert made.content_type == BYTES
    assert list(made.headers or ()) == ["invalid-reason", "invalid-queue"]


def test_the_queue_is_asked_for_once_a_name() -> None:
    asked = list[Any]()

    def stored(queue: Any) -> str:
        asked.append(queue)
        if queue == "b":
            raise UsageError("not that one")
        return "acme/" + queue

    rows = [{"value": b"x", "queue": q} for q in "abab"]
    made = list(staged(batch(*rows), stored))
    assert [type(m) for m in made] == [Made, Invalid] * 2
    assert asked == ["a", "b"]
