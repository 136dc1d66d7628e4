"""send: what is taken comes out as it went in; what is over a limit is refused, all of it."""

import math
from datetime import UTC, datetime, timedelta

import pytest

from tests.conformance.steps import counts, is_empty, one, sent, taken, texts
from tests.support.each import each
from turnabout import ChannelFull, Policy, QueueNotFound, Sent, UsageError, message
from turnabout.words import limits

MIB = 1024 * 1024
DAY = 86_400


@each(
    ("payload", "kind", "data"),
    [
        (b"", "application/octet-stream", b""),
        (b"\x00\xff\n", "application/octet-stream", b"\x00\xff\n"),
        (bytearray(b"ab"), "application/octet-stream", b"ab"),
        ("", "text/plain; charset=utf-8", b""),
        ("žluť 🐎 \x00 '\"\\", "text/plain; charset=utf-8", "žluť 🐎 \x00 '\"\\".encode()),
        ({"to": "ada", "n": [1, 2.5, None, True]}, "application/json", None),
        (None, "application/json", b"null"),
        (-0.0, "application/json", b"-0.0"),
        (2**70, "application/json", str(2**70).encode()),
        ("1e5", "text/plain; charset=utf-8", b"1e5"),
    ],
)
@pytest.mark.driving
def test_payloads_come_out_as_they_went_in(queue, payload, kind, data):
    queue.send(payload)
    got = one(queue)
    assert got.content_type == kind
    if data is None:
        assert got.json() == payload
    else:
        assert got.payload == data


@pytest.mark.driving
def test_every_field_comes_out_as_it_went_in(queue, clock):
    headers = {"trace": "00-ab", "Ünï": "côde ' \" \\ %s $1 {}", "empty": ""}
    outcome = queue.send(
        "hello", channel="customer-42", priority=-7, headers=headers, content_type="text/x-greeting"
    )
    got = one(queue)
    assert (got.id, got.attempt, got.failures, got.crashes) == (outcome.id, 1, 0, 0)
    assert (got.channel, got.priority, got.state) == ("customer-42", -7, None)
    assert (got.text(), got.content_type, dict(got.headers)) == (
        "hello",
        "text/x-greeting",
        headers,
    )
    assert (got.sent_at, got.lease_until) == (clock.now, clock.now + 30_000)


def test_no_headers_are_an_empty_mapping(queue):
    sent(queue, "a")
    assert dict(one(queue).headers) == {}


@each("channel", ["", " ", "a/b", "'; drop table message; --", "ñ🐎", "%", "\\", "\n\t", "~" * 255])
def test_any_text_names_a_channel(queue, channel):
    assert taken(queue, "x", channel=channel).channel == channel


def test_ids_grow_through_single_and_many_sends(queue):
    first = queue.send("a").id
    many = queue.send_many([message("b"), message("c", priority=-1), message("d")])
    last = queue.send("e").id
    ids = (first, *many.ids, last)
    assert len(many.ids) == 3
    assert list(ids) == sorted(set(ids))


@pytest.mark.driving
def test_many_keep_their_order_and_their_fields(queue, clock):
    ids = queue.send_many(
        [message("a", channel="x"), message(b"b", priority=3), message({"c": 1}, delay_seconds=2)]
    ).ids
    peeked = queue.peek()
    assert [m.id for m in peeked] == list(ids)
    assert [m.channel for m in peeked] == ["x", "", ""]
    assert [m.priority for m in peeked] == [0, 3, 0]
    assert [m.state for m in peeked] == ["ready", "ready", "scheduled"]
    assert peeked[2].due_at == clock.now + 2000
    assert [m.payload for m in peeked] == [b"a", b"b", b'{"c":1}']


def test_none_at_all_is_a_send_of_nothing(queue):
    assert queue.send_many([]) == Sent(())
    assert counts(queue).sent == 0


def test_one_message_s_id_is_refused_where_several_were_sent(queue):
    with pytest.raises(UsageError):
        _ = queue.send_many([message("a"), message("b")]).id


def test_as_many_as_the_limit_at_once(queue):
    assert len(queue.send_many([message("x")] * 10_000).ids) == 10_000
    assert queue.stats().sent == 10_000


def test_a_send_makes_a_missing_queue_and_its_dead_letter_queue(door):
    queue = door.mq.queue(door.name_of_a_queue())
    with pytest.raises(QueueNotFound):
        queue.stats()
    sent(queue, "a")
    assert counts(queue).ready == 1
    names = [entry.name for entry in door.mq.queues()]
    assert queue.name in names
    assert f"{queue.name}-dead" in names
    assert queue.settings().max_attempts == 5


# --- limits: at and over ---


@each(
    "options",
    [
        {"payload": b"x" * MIB},
        {"payload": "é" * (MIB // 2)},
        {"payload": "x", "channel": "é" * 127 + "a"},
        {"payload": "x", "priority": -32_768},
        {"payload": "x", "priority": 32_767},
        {"payload": "x", "delay_seconds": 0},
        {"payload": "x", "delay_seconds": 0.0},
        {"payload": "x", "headers": {str(n): "" for n in range(64)}},
        {"payload": "x", "headers": {"n": "v" * (16 * 1024 - 1)}},
        {"payload": "x", "content_type": "x" * 255},
        {"payload": eval("[" * 64 + "]" * 64)},
    ],
)
@pytest.mark.driving
def test_at_a_limit_is_taken(queue, options):
    assert isinstance(queue.send(**options), Sent)
    assert len(queue.receive(1)) == 1


def test_the_longest_delay_is_taken(queue, clock):
    sent(queue, "x", delay_seconds=366 * DAY)
    assert queue.peek()[0].due_at == clock.now + 366 * DAY * 1000


@each(
    "options",
    [
        {"payload": b"x" * (MIB + 1)},
        {"payload": "é" * (MIB // 2) + "a"},
        {"payload": math.nan},
        {"payload": [math.inf]},
        {"payload": "\ud800"},
        {"payload": {"a": "\udfff"}},
        {"payload": {1, 2}},
        {"payload": object()},
        {"payload": eval("[" * 65 + "]" * 65)},
        {"payload": "x", "channel": "é" * 128},
        {"payload": "x", "channel": "a\x00b"},
        {"payload": "x", "channel": "\ud800"},
        {"payload": "x", "channel": None},
        {"payload": "x", "channel": 42},
        {"payload": "x", "priority": 32_768},
        {"payload": "x", "priority": -32_769},
        {"payload": "x", "priority": True},
        {"payload": "x", "priority": 1.0},
        {"payload": "x", "priority": "1"},
        {"payload": "x", "delay_seconds": -0.001},
        {"payload": "x", "delay_seconds": 366 * DAY + 1},
        {"payload": "x", "delay_seconds": math.nan},
        {"payload": "x", "delay_seconds": math.inf},
        {"payload": "x", "delay_seconds": True},
        {"payload": "x", "delay_seconds": "5"},
        {"payload": "x", "delay_seconds": 0, "due_at": 0},
        {"payload": "x", "due_at": -1},
        {"payload": "x", "due_at": 1.5},
        {"payload": "x", "due_at": "2027-01-31T09:00"},
        {"payload": "x", "due_at": datetime(2027, 1, 31, 9, 0)},  # noqa: DTZ001
        {"payload": "x", "due_at": True},
        {"payload": "x", "headers": {str(n): "" for n in range(65)}},
        {"payload": "x", "headers": {"n": "v" * (16 * 1024)}},
        {"payload": "x", "headers": {"": "v"}},
        {"payload": "x", "headers": {"n": 1}},
        {"payload": "x", "headers": {"n": "a\x00"}},
        {"payload": "x", "headers": {"\ud800": "a"}},
        {"payload": "x", "headers": [("n", "v")]},
        {"payload": "x", "content_type": ""},
        {"payload": "x", "content_type": "x" * 256},
        {"payload": "x", "content_type": "a\nb"},
        {"payload": "x", "content_type": 1},
    ],
)
def test_over_a_limit_is_refused_and_leaves_nothing(queue, options):
    with pytest.raises(UsageError):
        queue.send(**options)
    with pytest.raises(UsageError):
        queue.send_many([message("fine"), message(**options)])
    assert counts(queue).sent == 0


def test_a_deep_structure_is_refused_without_a_crash(queue):
    deep: list = []
    for _ in range(100_000):
        deep = [deep]
    with pytest.raises(UsageError):
        queue.send(deep)


def test_too_many_at_once_are_refused(queue):
    with pytest.raises(UsageError):
        queue.send_many([message("x")] * 10_001)
    assert counts(queue).sent == 0


@each("wrong", ["text", {"payload": "x"}, None, 7])
def test_what_is_no_message_is_refused(queue, wrong):
    with pytest.raises(UsageError):
        queue.send_many([wrong])


# --- max_size ---


@pytest.mark.driving
def test_a_full_channel_refuses(queue):
    queue.channel("a").set_policy(Policy(max_size=2))
    sent(queue, "1", "2", channel="a")
    assert queue.send("3", channel="a") == ChannelFull("a", 2, 2)
    assert isinstance(queue.send("other", channel="b"), Sent)
    assert counts(queue).sent == 3


@pytest.mark.driving
def test_a_send_of_many_is_refused_whole(queue):
    queue.channel("a").set_policy(Policy(max_size=2))
    sent(queue, "1", channel="a")
    outcome = queue.send_many([message("x", channel="b"), *[message("y", channel="a")] * 2])
    assert outcome == ChannelFull("a", 2, 1)
    assert counts(queue).sent == 1
    assert isinstance(queue.send_many([message("x", channel="b"), message("y", channel="a")]), Sent)
    assert counts(queue).sent == 3


def test_scheduled_and_leased_messages_count_towards_the_size(queue, clock):
    queue.channel("a").set_policy(Policy(max_size=2))
    sent(queue, "1", channel="a", delay_seconds=60)
    got = taken(queue, "2", channel="a")
    assert isinstance(queue.send("3", channel="a"), ChannelFull)
    got.fail()
    assert isinstance(queue.send("3", channel="a"), ChannelFull)
    clock.advance(1)
    one(queue).ack()
    assert isinstance(queue.send("3", channel="a"), Sent)


def test_a_purge_makes_room(queue):
    queue.channel("a").set_policy(Policy(max_size=1))
    sent(queue, "1", channel="a")
    queue.purge(channel="a")
    assert isinstance(queue.send("2", channel="a"), Sent)


def test_the_queue_s_default_limits_the_size_of_every_channel(door):
    queue = door.fresh(policy=Policy(max_size=1))
    sent(queue, "1", channel="a")
    sent(queue, "1", channel="b")
    assert queue.send("2", channel="a") == ChannelFull("a", 1, 1)
    queue.channel("a").set_policy(Policy(max_size=3))
    sent(queue, "2", "3", channel="a")
    assert queue.send("4", channel="a") == ChannelFull("a", 3, 3)


def test_a_size_below_what_is_there_refuses_until_it_has_shrunk(queue):
    sent(queue, "1", "2", "3", channel="a")
    queue.channel("a").set_policy(Policy(max_size=1))
    outcome = queue.send("4", channel="a")
    assert (outcome.channel, outcome.max_size) == ("a", 1)
    assert outcome.size >= 1
    for got in [*queue.receive(10), *queue.receive(10)]:
        got.ack()
    assert isinstance(queue.send("4", channel="a"), Sent)


# --- delays ---


@pytest.mark.driving
def test_a_delay_is_kept_to_the_millisecond(queue, clock):
    sent(queue, "x", delay_seconds=1.5)
    assert counts(queue).scheduled == 1
    clock.advance(ms=1499)
    assert is_empty(queue)
    clock.advance(ms=1)
    assert texts(queue.receive()) == ["x"]


@pytest.mark.driving
def test_due_at_is_an_instant_of_the_database_s_clock(door, clock):
    queue = door.fresh(delay_seconds=10)
    moment = datetime.fromtimestamp(clock.now / 1000, UTC) + timedelta(microseconds=1_500_001)
    sent(queue, "later", due_at=moment)
    made = [message(name, due_at=clock.now + ms) for name, ms in (("x", -1), ("y", 0), ("z", 1))]
    assert isinstance(queue.send_many([*made, message("as the queue says")]), Sent)
    assert isinstance(queue.send("k", dedup_key="k", due_at=clock.now + 20_000), Sent)
    assert [p.due_at - clock.now for p in queue.peek()] == [1_501, 0, 0, 1, 10_000, 20_000]
    assert texts(queue.receive(10)) == ["x", "y"]
    for ms, due in ((1, ["z"]), (1_499, []), (1, ["later"]), (8_499, ["as the queue says"])):
        clock.advance(ms=ms)
        assert texts(queue.receive(10)) == due
    assert queue.send("l", dedup_key="k", dedup_mode="latest", due_at=0).replaced
    assert texts(queue.receive(10)) == ["l"]


@pytest.mark.driving
def test_due_at_is_at_most_366_days_ahead(queue, clock):
    latest = clock.now + 366 * DAY * 1000
    sent(queue, "x", due_at=latest)
    for messages in (
        [message("x", due_at=latest + 1)],
        [message("x"), message("y", due_at=limits.FOREVER_MS)],
        [message("x", due_at=latest + 1, dedup_key="k")],
    ):
        with pytest.raises(UsageError, match="due_at is at most 366 days ahead"):
            queue.send_many(messages)
    assert counts(queue).sent == 1


def test_a_fraction_of_a_millisecond_is_rounded_up(queue, clock):
    sent(queue, "x", delay_seconds=0.0001)
    assert is_empty(queue)
    clock.advance(ms=1)
    assert texts(queue.receive()) == ["x"]


def test_the_queue_s_delay_holds_for_messages_that_name_none(door, clock):
    queue = door.fresh(delay_seconds=10)
    sent(queue, "later")
    sent(queue, "now", delay_seconds=0)
    sent(queue, "soon", delay_seconds=1)
    assert texts(queue.receive(10)) == ["now"]
    clock.advance(1)
    assert texts(queue.receive(10)) == ["soon"]
    clock.advance(ms=8999)
    assert is_empty(queue)
    clock.advance(ms=1)
    assert texts(queue.receive(10)) == ["later"]
