"""The sink's verbs: messages are put aside, then sent together, once for each batch."""

import pytest

from tests.conformance.steps import counts, is_empty, maintained, one, one_by_one, sent, texts
from tests.pipeline.steps import many
from turnabout import ChannelFull, Policy, message
from turnabout.pipeline import verbs as p
from turnabout.words import verbs as v
from turnabout.words.outcomes import QueueFull


def stage(pipe, attempt, queue, *messages, **options):
    """Put messages for a queue aside."""
    name = queue if isinstance(queue, str) else queue.name
    made = [m if hasattr(m, "payload") else message(m, **options) for m in messages]
    assert pipe.run(p.Stage(attempt, (p.StagedMessages.of(name, made),))) is None


def publish(pipe, sink, batch, *attempts, messages):
    return pipe.run(p.Publish(sink, batch, attempts, messages))


def test_nobody_sees_a_staged_message_before_it_is_published(pipe):
    queue, attempt = pipe.queue(), pipe.name()
    stage(pipe, attempt, queue, "a", "b")
    maintained(queue)
    assert counts(queue).sent == 0
    assert is_empty(queue)
    assert not queue.peek(10)
    assert publish(pipe, pipe.name(), 0, attempt, messages=2) == p.Published(2)
    assert counts(queue).sent == 2
    assert texts(one_by_one(queue)) == ["a", "b"]


def test_attempts_are_sent_in_their_order_and_each_in_its_own(pipe):
    queue, sink = pipe.queue(), pipe.name()
    first, second = pipe.name("b"), pipe.name("a")
    stage(pipe, second, queue, "2a")
    stage(pipe, first, queue, "1a", "1b")
    stage(pipe, second, queue, "2b")
    stage(pipe, first, queue, *many("1c", 12))
    wanted = ["1a", "1b", *many("1c", 12), "2a", "2b"]
    assert publish(pipe, sink, 0, first, second, messages=16) == p.Published(16)
    assert texts(one_by_one(queue)) == wanted


def test_a_batch_is_published_once(pipe):
    queue, sink = pipe.queue(), pipe.name()
    for attempt in ("first", "again"):
        stage(pipe, f"{sink}-{attempt}", queue, "a", "b")
    assert publish(pipe, sink, 7, f"{sink}-first", messages=2) == p.Published(2)
    assert publish(pipe, sink, 7, f"{sink}-first", messages=2) == p.AlreadyPublished(2)
    assert publish(pipe, sink, 7, f"{sink}-again", messages=2) == p.AlreadyPublished(2)
    assert counts(queue).sent == 2
    assert pipe.run(p.Unstage((f"{sink}-again",))) == 0, "what was repeated is removed"


def test_batches_of_a_sink_come_in_order(pipe):
    """An older one than the last is of an older copy of the caller's notes: it may be another."""
    queue, sink = pipe.queue(), pipe.name()
    for batch in (0, 5):
        stage(pipe, f"{sink}-{batch}", queue, "x")
        assert publish(pipe, sink, batch, f"{sink}-{batch}", messages=1) == p.Published(1)
    stage(pipe, f"{sink}-old", queue, "y")
    for batch in (0, 4):
        answer = publish(pipe, sink, batch, f"{sink}-old", messages=1)
        assert answer == p.PublishedLater(5)
    assert counts(queue).sent == 2
    assert publish(pipe, sink, 6, f"{sink}-old", messages=1) == p.Published(1), "it is staged still"


def test_another_batch_and_another_sink_are_others(pipe):
    queue, sinks = pipe.queue(), [pipe.name("a"), f"acme/{pipe.name()}"]
    for sink in sinks:
        for batch in (0, 1):
            attempt = f"{sink}-{batch}"
            stage(pipe, attempt, queue, "x")
            assert publish(pipe, sink, batch, attempt, messages=1) == p.Published(1)
    assert counts(queue).sent == 4


def test_an_empty_batch_is_noted_too(pipe):
    sink = pipe.name()
    assert publish(pipe, sink, 0, messages=0) == p.Published(0)
    assert publish(pipe, sink, 0, messages=0) == p.AlreadyPublished(0)


def test_with_messages_missing_nothing_is_sent(pipe):
    queue, sink = pipe.queue(), pipe.name()
    there, gone = pipe.name(), pipe.name()
    stage(pipe, there, queue, "a", "b")
    assert publish(pipe, sink, 0, there, gone, messages=3) == p.StageIncomplete(3, 2)
    assert counts(queue).sent == 0
    stage(pipe, gone, queue, "c")
    assert publish(pipe, sink, 0, there, gone, messages=3) == p.Published(3), "nothing was noted"
    assert publish(pipe, sink, 1, there, gone, messages=3) == p.StageIncomplete(3, 0)


@pytest.mark.parametrize("full", ["channel", "queue", "default"])
def test_a_full_place_refuses_all_of_it_and_it_can_be_repeated(pipe, full):
    other, sink, attempt = pipe.queue(), pipe.name(), pipe.name()
    queue = pipe.queue(
        max_messages=2 if full == "queue" else None,
        policy=Policy(max_size=2 if full == "default" else None),
    )
    if full == "channel":
        queue.channel("c").set_policy(Policy(max_size=2))
    sent(queue, "there", channel="c")
    stage(pipe, attempt, other, "o")
    stage(pipe, attempt, queue, "a", channel="c")  # which has room, and is not counted then
    stage(pipe, attempt, queue, "b", channel="c")
    wanted = QueueFull(2, 1) if full == "queue" else ChannelFull("c", 2, 1)
    assert publish(pipe, sink, 0, attempt, messages=3) == wanted
    assert (counts(queue).sent, counts(other).sent) == (1, 0)
    one(queue).ack()
    assert publish(pipe, sink, 0, attempt, messages=3) == p.Published(3)
    assert publish(pipe, sink, 0, attempt, messages=3) == p.AlreadyPublished(3)
    assert (counts(queue).sent, counts(other).sent) == (3, 1)


def test_a_default_limit_holds_from_the_first_message_on(pipe):
    queue, sink, attempt = pipe.queue(policy=Policy(max_size=2)), pipe.name(), pipe.name()
    stage(pipe, attempt, queue, "a", "b", "c", channel="c")
    assert publish(pipe, sink, 0, attempt, messages=3) == ChannelFull("c", 2, 0)


def test_a_message_comes_out_as_it_was_put_in(pipe, clock):
    queue, attempt = pipe.queue(), pipe.name()
    headers = {"h": "v", "ü": '"\\'}
    given = message(b"\x00\xff", content_type="x/y", channel="ü", priority=-3, headers=headers)
    stage(pipe, attempt, queue, given)
    clock.advance(5)
    publish(pipe, pipe.name(), 0, attempt, messages=1)
    got = one(queue)
    assert (got.payload, got.content_type, got.channel, got.priority) == (
        b"\x00\xff",
        "x/y",
        "ü",
        -3,
    )
    assert dict(got.headers) == headers
    assert got.sent_at == clock.now, "it is sent when it is published"


def test_priorities_delays_and_times_to_live_count_from_the_publishing(pipe, clock):
    queue, attempt = pipe.queue(), pipe.name()
    stage(pipe, attempt, queue, "low", priority=5)
    stage(pipe, attempt, queue, "high", priority=-5)
    stage(pipe, attempt, queue, "later", delay_seconds=10)
    stage(pipe, attempt, queue, "short", ttl_seconds=10, channel="never read")
    clock.advance(100)
    publish(pipe, pipe.name(), 0, attempt, messages=4)
    queue.channel("never read").set_policy(Policy(paused=True))
    assert texts(one_by_one(queue)) == ["high", "low"]
    clock.advance(9.999)
    assert is_empty(queue)
    clock.advance(ms=1)
    assert texts(one_by_one(queue)) == ["later"]
    maintained(queue)
    assert counts(queue).expired == 1


def test_a_queue_s_defaults_hold(pipe, clock):
    queue, attempt = pipe.queue(delay_seconds=3), pipe.name()
    stage(pipe, attempt, queue, "a")
    publish(pipe, pipe.name(), 0, attempt, messages=1)
    assert is_empty(queue)
    clock.advance(3)
    assert texts(one_by_one(queue)) == ["a"]


def test_dedup_keys_suppress(pipe):
    queue, sink = pipe.queue(), pipe.name()
    sent(queue, "a", dedup_key="k")
    for batch in (0, 1):
        stage(pipe, f"{sink}-{batch}", queue, "b", "c", dedup_key="k")
        stage(pipe, f"{sink}-{batch}", queue, "d")
        answer = publish(pipe, sink, batch, f"{sink}-{batch}", messages=3)
        assert answer == p.Published(3, duplicates=2)
    assert texts(one_by_one(queue)) == ["a", "d", "d"]


def test_a_key_twice_in_one_batch_is_one_message(pipe):
    queue, attempt = pipe.queue(), pipe.name()
    stage(pipe, attempt, queue, "a", dedup_key="k")
    stage(pipe, attempt, queue, "b", dedup_key="k")
    assert publish(pipe, pipe.name(), 0, attempt, messages=2) == p.Published(2, duplicates=1)
    assert texts(one_by_one(queue)) == ["a"]


def test_latest_replaces(pipe):
    queue, attempt = pipe.queue(dedup_mode="latest"), pipe.name()
    sent(queue, "old", dedup_key="k")
    stage(pipe, attempt, queue, "new", dedup_key="k")
    assert isinstance(publish(pipe, pipe.name(), 0, attempt, messages=1), p.Published)
    assert texts(one_by_one(queue)) == ["new"]


def test_queues_of_every_kind_in_one_batch(pipe):
    """Those that limit nothing may go another way; whichever, what they are told holds."""
    free, fifo, eager = pipe.queue(), pipe.queue(fifo=True), pipe.queue(events="all")
    limited, keyed = pipe.queue(policy=Policy(max_concurrency=1)), pipe.queue()
    attempts, before = (pipe.name(), pipe.name()), eager.events_cursor()
    sent(keyed, "there", dedup_key="k")
    queues = (free, fifo, eager, limited, keyed)
    for nr, attempt in enumerate(attempts):
        for queue in queues:
            key = "k" if queue is keyed and nr else None
            for n in range(60):
                stage(pipe, attempt, queue, f"{nr * 60 + n}", dedup_key=key, headers={"n": str(n)})
    answer = publish(pipe, pipe.name(), 0, *attempts, messages=600)
    assert answer == p.Published(600, duplicates=60)
    for queue in (free, eager):
        found = queue.receive(120)
        assert texts(found) == [str(n) for n in range(120)]
        assert [m.headers["n"] for m in found] == [str(n % 60) for n in range(120)]
    heard = pipe.run(v.Events(eager.name, before, 1000)).events
    assert [e.kind for e in heard][:120] == ["created"] * 120
    assert [len(queue.receive(9)) for queue in (fifo, limited)] == [1, 1]
    assert counts(keyed).sent == 61


def test_a_queue_is_made_by_its_first_message(pipe):
    name, attempt = pipe.name("q"), pipe.name()
    stage(pipe, attempt, name, "a")
    assert name not in [entry.name for entry in pipe.door.mq.queues()]
    publish(pipe, pipe.name(), 0, attempt, messages=1)
    assert texts(one_by_one(pipe.door.mq.queue(name))) == ["a"]


def test_a_tenant_s_queue_is_its_own(pipe):
    name, attempt = pipe.name("q"), pipe.name()
    stage(pipe, attempt, f"acme/{name}", "a")
    publish(pipe, pipe.name(), 0, attempt, messages=1)
    (there,) = pipe.run(v.Peek(f"acme/{name}"))
    assert there.text() == "a"
    assert name not in [entry.name for entry in pipe.door.mq.queues()]


# --- removal ---


def test_what_nobody_publishes_within_a_day_is_removed(pipe, clock):
    queue, old, young = pipe.queue(), pipe.name(), pipe.name()
    clock.advance(p.STAGE_SECONDS)
    pipe.run(p.Unstage(()))  # what other tests have left
    stage(pipe, old, queue, "a", "b")
    clock.advance(1)
    stage(pipe, young, queue, "c")
    clock.advance(ms=p.STAGE_SECONDS * 1000 - 1000)
    assert pipe.run(p.Unstage(())) == 0
    clock.advance(ms=1)
    assert pipe.run(p.Unstage(())) == 2
    assert publish(pipe, pipe.name(), 0, old, messages=2) == p.StageIncomplete(2, 0)
    assert publish(pipe, pipe.name(), 0, young, messages=1) == p.Published(1)


# --- sizes ---


def test_ten_thousand_in_one_call_and_more_in_several(pipe):
    queue, attempt = pipe.queue(), pipe.name()
    texts_sent = [str(n).encode() for n in range(10_000)]
    pipe.run(p.Stage(attempt, (p.StagedMessages(queue.name, texts_sent),)))
    pipe.run(p.Stage(attempt, (p.StagedMessages(queue.name, texts_sent[:2_000]),)))
    assert publish(pipe, pipe.name(), 0, attempt, messages=12_000) == p.Published(12_000)
    assert counts(queue).sent == 12_000
    got = queue.receive(1000)
    assert texts(got) == [str(n) for n in range(1000)]


def test_a_batch_of_many_attempts(pipe):
    queue, attempts = pipe.queue(), [pipe.name() for _ in range(200)]
    for n, attempt in enumerate(attempts):
        stage(pipe, attempt, queue, str(n))
    answer = publish(pipe, pipe.name(), 0, *attempts, messages=200)
    assert answer == p.Published(200)
    assert texts(queue.receive(200)) == [str(n) for n in range(200)]
