"""What is not right in a request is refused, with its place."""

import json
from typing import Any

import pytest

from tests.support.each import each
from turnabout import wire
from turnabout.wire import content
from turnabout.words import verbs as v
from turnabout.words.entities import Delivery, Outgoing, Receipt
from turnabout.words.errors import Uncertain, UsageError
from turnabout.words.outcomes import Received
from turnabout.words.policy import Policy

DEEP = b"[" * 65 + b"]" * 65
DEEPEST = b"[" * 100_000 + b"]" * 100_000


def message(inner: bytes) -> bytes:
    return b'{"messages": [{"payload": {"text": "a"}}, {"payload": %s}]}' % inner


WRONG_BODIES: list[tuple[type[v.Verb[Any]], bytes, str]] = [
    (v.Send, b"", "$: object missing required field messages"),
    (v.Send, b"nonsense", "not valid JSON"),
    (v.Send, b"[]", "$: expected object, got array"),
    (v.Send, b'{"messages": []} {}', "not valid JSON"),
    (v.Send, b"\xef\xbb\xbf{}", "not valid JSON"),
    (v.Send, b'{"messages": [], "more": 1}', "$: object contains unknown field more"),
    (v.Fail, b'{"receipts": ["1.1"]}', "unknown field receipts: there is failures"),
    (v.Send, b'{"messages": [], "messages": []}', "$.messages: appears twice"),
    (v.Send, b'{"messages": [], "m\\u0065ssages": []}', "$.messages: appears twice"),
    (v.Send, message(b'{"json": 1, "text": "a"}'), "$.messages[1].payload: bytes are given as"),
    (v.Send, message(b"{}"), "$.messages[1].payload: bytes are given as"),
    (v.Send, message(b'"plain"'), "$.messages[1].payload: expected object, got str"),
    (v.Send, message(b'{"json": NaN}'), "not valid JSON"),
    (v.Send, message(b'{"json": 1e999}'), "$.messages[1].payload: the JSON is not valid"),
    (v.Send, message(b'{"json": "\\ud800"}'), "not valid JSON"),
    (v.Send, message(b'{"json": "\\udc00"}'), "not valid JSON"),
    (v.Send, message(b'{"json": "\xff"}'), "not valid JSON: 'utf-8' codec"),
    (v.Send, message(b'{"text": "\xff"}'), "not valid JSON"),
    (v.Send, message(b'{"json": %s}' % DEEP), "deeper than 64"),
    (v.Send, message(b'{"json": %s}' % DEEPEST), "deeper than 64"),
    (v.Send, message(b'{"base64": "YQ"}'), "$.messages[1].payload.base64: invalid base64"),
    (v.Send, b'{"messages": [{"payload": {"text": ""}, "delay_seconds": -1}]}',
     "$.messages[0].delay_seconds: expected float >= 0"),
    *((v.Send, b'{"messages": [{"payload": {"text": ""}, "priority": %s}]}' % wrong,
       "$.messages[0].priority: expected int") for wrong in (b"1.5", b"true")),
    (v.Send, b'{"messages": [{"payload": {"text": ""}, "priority": %s}]}' % (b"9" * 5_000),
     "$.messages[0].priority: integer value out of range"),
    (v.Send, b'{"messages": [{"payload": {"text": ""}, "channel": "a\\u0000"}]}',
     "$.messages[0]: a channel's name holds a NUL"),
    (v.Send, b'{"messages": [{"payload": {"text": ""}, "dedup_mode": "latest"}]}',
     "$.messages[0]: dedup_mode, dedup_window and dedup_scope need a dedup_key"),
    (v.Ack, b'{"receipts": ["1.1"], "results": [null, null]}', "one value for each receipt"),
    (v.Ack, b'{"receipts": ["1.1", "2.1"], "results": [null]}', "one value for each receipt"),
    (v.Receive, b'{"max_messages": 0}', "$.max_messages: expected int >= 1"),
    (v.Receive, b'{"max_messages": 1001}', "$.max_messages: expected int <= 1000"),
    (v.Receive, b'{"lease_seconds": 0}', "$.lease_seconds: expected float >= 0.001"),
    (v.Receive, b'{"wait_seconds": 3601}', "$.wait_seconds: expected float <= 3600"),
    (v.Ack, b'{"receipts": ["1.1", "x"]}', "$.receipts[1]: 'x' is not a receipt"),
    (v.Ack, b'{"receipts": ["1.0"]}', "$.receipts[0]: a receipt's attempt is"),
    (v.Ack, b'{"receipts": ["1.1.%s"]}' % (b"9" * 19), "$.receipts[0]: a receipt's lease is"),
    (v.Cancel, b'{"ids": [1, 0]}', "$.ids[1]: expected int >= 1"),
    (v.Cancel, b'{"ids": [%s]}' % b",".join([b"1"] * 10_001), "$.ids: expected array"),
    (v.Fail, b'{"failures": [{"receipt": "x"}]}', "$.failures[0].receipt: 'x' is not a receipt"),
    (v.Purge, b'{"channel": "\\u0000"}', "$.channel: text holds a NUL"),
    (v.QueueUpdate, b'{"lease_seconds": null}', "$.lease_seconds: expected float, got null"),
    (v.QueueUpdate, b'{"nope": 1}', "$: object contains unknown field nope"),
    (v.QueueUpdate, b'{"policy": {"rate": {"count": 0}}}', "$.policy.rate.count: expected int"),
]  # fmt: skip
"""Of verbs in JSON: refused here, and over HTTP by `tests/server/test_native.py`."""


@each(("kind", "body", "told"), WRONG_BODIES)
def test_a_body_that_is_wrong(kind: Any, body: bytes, told: str) -> None:
    with pytest.raises(UsageError) as caught:
        wire.load_verb(kind, body, queue="emails")
    if kind is v.Purge:
        told = told.replace("text", "a channel's name")
    assert told in str(caught.value)
    assert len(str(caught.value)) < 400


@each(
    ("kind", "given", "told"),
    [
        (v.Peek, {"queue": "ü"}, "queue: 'ü' is not a valid queue name"),
        (v.Peek, {"limit": "0"}, "limit: expected int >= 1"),
        (v.Peek, {"limit": "x"}, "limit: expected int, not 'x'"),
        (v.Peek, {"limit": "1.5"}, "limit: expected int, not '1.5'"),
        (v.Peek, {"limit": "9" * 30}, "limit: expected int <= "),
        (v.Events, {"wait_seconds": "1e99"}, "wait_seconds: expected float <= 3600"),
        (v.Events, {"wait_seconds": "nan"}, "wait_seconds: expected float >= 0"),
        (v.Events, {"wait_seconds": "1e400"}, "wait_seconds: number out of range"),
        (v.Peek, {"state": "lost"}, "state: invalid enum value 'lost'"),
        (v.Peek, {"colour": "red"}, "'colour' is not a field of the query: it has limit, state"),
        (v.Peek, {"namespace": "x"}, "'namespace' is not a field of the query"),
        (v.PolicyGet, {}, "channel: missing"),
        (v.PolicySet, {"channel": "a", "replace": "yes"}, "replace: expected bool"),
        (v.Events, {"wait_seconds": "-1"}, "wait_seconds: expected float >= 0"),
        (v.QueueGet, {"a": "b"}, "it has none here"),
        (v.QueueGet, {"kind": "b"}, "it has none here"),
        (v.QueueGet, {"body": "b"}, "it has none here"),
    ],
)
def test_a_query_that_is_wrong(kind: Any, given: dict[str, str], told: str) -> None:
    with pytest.raises(UsageError) as caught:
        wire.load_verb(kind, b"", **{"queue": "emails", **given})
    assert told in str(caught.value)


@each("query", [b"a=1&a=2", b"a=%ff"])
def test_a_query_that_cannot_be_read(query: bytes) -> None:
    with pytest.raises(UsageError):
        wire.load_query(query)


@each(
    ("body", "told"),
    [
        (b'{"verbs": [{"verb": "dance"}]}', "$.verbs[0]: verb: one of send, "),
        (b'{"verbs": [{}]}', "$.verbs[0]: verb: one of send, "),
        (b'{"verbs": [{"verb": "peek"}]}', "$.verbs[0]: queue: missing"),
        (b'{"verbs": [{"verb": "peek", "queue": 5}]}', "$.verbs[0]: queue: expected str"),
        (
            b'{"verbs": [{"verb": "peek", "queue": "q", "limit": "5"}]}',
            "limit: expected int, got str",
        ),
        (b'{"verbs": [{"verb": "queue_update", "queue": "q", "paused": true}]}', "'paused' is not"),
        (b'{"verbs": [{"verb": "peek", "verb": "peek"}]}', "$.verbs[0].verb: appears twice"),
        (b'{"verbs": [%s]}' % b",".join([b"{}"] * 101), "$.verbs: expected array of length <= 100"),
    ],
)
def test_verbs_together_that_are_wrong(body: bytes, told: str) -> None:
    with pytest.raises(UsageError) as caught:
        wire.load_transaction(body)
    assert told in str(caught.value)


def test_a_tiny_wait_is_read() -> None:
    given = wire.load_query(b"cursor=1.0&wait_seconds=1e-05")
    assert wire.load_call(v.Events, b"", queue="q", **given).wait_seconds == 1e-05


@each("text", ["]" * 99, "[" * 99, '"[', "\\", "\\\\", '\\"[{', "é[\u2028{"])
def test_brackets_in_texts_are_no_depth(text: str) -> None:
    said = json.dumps(text).encode()
    for ends, levels, is_good in ((b"[]", 62, True), (b"[]", 63, False), (b"{}", 1, True)):
        before = b"[" * levels
        after = b"]" * levels
        data = b'[{"k":%s},%s%s,%s%s,[{}]]' % (said, before, said, ends, after)
        assert content.is_deep(data) is not is_good


def test_a_payload_is_kept_byte_for_byte() -> None:
    """What is in it is the sender's own matter: a field twice, too."""
    given = b'{"a" : 1.0,\t"a":2e0,\n "b\\u0041": "\xc3\xa4"}'
    verb = wire.load_verb(v.Send, b'{"messages":[{"payload":{"json":  %s  }}]}' % given, queue="q")
    assert verb == v.Send("q", (Outgoing(given, "application/json"),))


@each(("lease", "receipt"), [(0, b"4711.2"), (881, b"4711.2.881")])
def test_a_receipt_says_which_lease_it_is_of(lease: int, receipt: bytes) -> None:
    given = Delivery(4711, 2, "", 0, b"", "x", None, None, 0, 0, 0, None, 0, 1000, lease)
    body = wire.dump_answer(v.Receive, Received((given,)))
    assert b'"receipt":"%s"' % receipt in body
    assert b'"lease":' not in body
    (found,) = wire.load_answer(v.Receive, body).deliveries
    assert found.receipt == given.receipt == Receipt(4711, 2, lease)
    with pytest.raises(Uncertain, match="is not a receipt"):
        wire.load_answer(v.Receive, body.replace(receipt, b"4711"))


def test_what_a_request_leaves_out() -> None:
    call = wire.load_call(v.Receive, b"", queue="q")
    assert call == wire.VerbItem(v.Receive("q", 1), 0.0, frozenset({"turn"}))
    assert not wire.load_call(v.Receive, b'{"turn": {}}', queue="q").left_out


@each(
    "verb",
    [
        v.Stats(namespace="acme"),
        v.Peek("acme/emails"),
        v.Peek("q", channel="\ud800"),
        v.QueueUpdate("q", {"nope": 1}),
        v.QueueUpdate("q", {"pause_reason": b"x"}),
        v.QueueUpdate("q", {"backoff_jitter": float("nan")}),
        v.QueueUpdate("q", {"policy": "none"}),
        v.PolicySet("q", "c", {"weight": "5"}),
    ],
)
def test_what_no_request_can_carry(verb: v.Verb[Any]) -> None:
    with pytest.raises(UsageError):
        wire.request_of(verb)


def test_a_whole_policy_stays_whole() -> None:
    verb = v.QueueUpdate("q", {"policy": Policy(max_size=3), "on_exhausted": "block"})
    assert wire.load_verb(v.QueueUpdate, wire.dump_verb(verb), queue="q") == verb
