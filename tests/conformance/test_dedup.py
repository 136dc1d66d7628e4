"""dedup (P4): a second send with a key, in six modes and two scopes, and which message survives."""

import pytest

from tests.conformance.steps import (
    counts,
    do,
    is_empty,
    maintained,
    one,
    one_by_one,
    run,
    sent,
    texts,
)
from tests.support.each import each
from turnabout import ChannelFull, Dead, Policy, Sent, UsageError, message
from turnabout.words.administration import Repeats
from turnabout.words.outcomes import Cancelled, QueueFull
from turnabout.words.policy import DEDUP_MODES, DEDUP_SCOPES
from turnabout.words.verbs import Send

WINDOW = 300


def keyed(queue, text="again", key="k", **options):
    """Send one message with a key; its id, and what became of it."""
    outcome = queue.send_many([message(text, dedup_key=key, **options)])
    assert isinstance(outcome, Sent), outcome
    return outcome.id, what(outcome)


def what(outcome, place=0):
    """What became of the message at that place."""
    assert not set(outcome.duplicates) & set(outcome.replaced)
    if place in outcome.duplicates:
        return "duplicate"
    return "replaced" if place in outcome.replaced else "new"


def brought(queue, stage):
    """Bring the queue's one message to that stage."""
    match stage:
        case "waiting":
            return
        case "cancelled":
            assert queue.cancel((queue.peek()[0].id,)) == (Cancelled(),)
        case "purged":
            assert queue.purge().messages == 1
        case "leased":
            one(queue)
        case "back":
            one(queue).release()
        case "deferred":
            one(queue).defer(delay_seconds=10)
        case "retrying":
            one(queue).fail("no", delay_seconds=10)
        case "done":
            one(queue).ack()
        case "dead":
            assert isinstance(one(queue).fail("no", retry=False), Dead)


STAGES = {
    "waiting": "waiting",
    "leased": "leased",
    **dict.fromkeys(("back", "deferred", "retrying"), "back"),
    **dict.fromkeys(("done", "dead", "cancelled", "purged"), "ended"),
}
MEETS = {
    "window": {},
    "sliding": {},
    "until_started": {"leased": "new", "back": "new", "ended": "new"},
    "until_finished": {"ended": "new"},
    "latest": {"waiting": "replaced", "back": "replaced", "leased": "new", "ended": "new"},
    "rerun": {"leased": "new", "ended": "new"},
}


@pytest.mark.parametrize("mode", DEDUP_MODES)
@each("stage", STAGES)
@each("scope", DEDUP_SCOPES)
def test_what_a_second_send_meets(door, mode, stage, scope):
    queue = door.fresh(dedup_mode=mode, dedup_scope=scope)
    first, how = keyed(queue, "first", channel="c")
    assert how == "new"
    brought(queue, stage)
    expected = MEETS[mode].get(STAGES[stage], "duplicate")
    before = counts(queue).sent
    second, how = keyed(queue, "second", channel="c")
    assert how == expected
    assert (second == first) == (expected != "new")
    assert counts(queue).sent == before + (expected == "new")
    # The entry points at the one that survives: a third send meets that one, waiting.
    third, how = keyed(queue, "third", channel="c")
    assert third == second
    assert how == ("replaced" if mode == "latest" else "duplicate")


@pytest.mark.needs("administration")
@pytest.mark.parametrize("mode", DEDUP_MODES)
@pytest.mark.driving
@pytest.mark.share(10)
@each("stage", STAGES)
@each("scope", DEDUP_SCOPES)
def test_a_repeat_is_known_beforehand(door, clock, mode, stage, scope):
    """Before a quota refuses it: whether a send would put nothing in, and nothing is changed."""
    queue = door.fresh(dedup_mode=mode, dedup_scope=scope)
    same, other = (message("x", dedup_key=key, channel="c") for key in ("k", "other"))
    assert not run(queue, Repeats("of-nobody", (same,)))
    assert not do(queue, Repeats, (same,))
    keyed(queue, "first", channel="c")
    brought(queue, stage)
    before = counts(queue)
    stands = MEETS[mode].get(STAGES[stage], "duplicate") == "duplicate"
    assert do(queue, Repeats, (same,)) == do(queue, Repeats, (same, same)) == stands
    assert not do(queue, Repeats, (same, other))
    assert not do(queue, Repeats, (same, message("x")))
    elsewhere = message("x", dedup_key="k", channel="d")
    assert do(queue, Repeats, (elsewhere,)) == (stands and scope == "queue")
    assert counts(queue) == before
    clock.advance(WINDOW)
    assert do(queue, Repeats, (same,)) == (stands and mode not in ("window", "sliding"))


@each("mode", DEDUP_MODES)
def test_a_key_counts_in_the_whole_queue_or_in_its_channel(door, mode):
    queue = door.fresh(dedup_mode=mode)
    wide, _ = keyed(queue, key="wide", channel="a")
    again, how = keyed(queue, key="wide", channel="b")
    assert (again, how != "new") == (wide, True)
    one_id, _ = keyed(queue, key="narrow", channel="a", dedup_scope="channel")
    other_id, how = keyed(queue, key="narrow", channel="b", dedup_scope="channel")
    assert (how, other_id != one_id) == ("new", True)
    for channel, there in (("a", one_id), ("b", other_id)):
        again, how = keyed(queue, key="narrow", channel=channel, dedup_scope="channel")
        assert (again, how != "new") == (there, True)


def test_the_scopes_are_key_spaces_of_their_own(queue):
    ids = {
        keyed(queue, channel=channel, dedup_scope=scope)[0]
        for channel in ("", "/", "c")
        for scope in DEDUP_SCOPES
    }
    assert len(ids) == 4, "one for the queue, and one for each channel"


def test_other_keys_and_other_queues_are_others(door):
    queue, other = door.fresh(), door.fresh()
    keyed(queue, key="k")
    for text, there in (("K", queue), ("k ", queue), ("ḱ", queue), ("k", other)):
        assert keyed(there, key=text)[1] == "new", text


def test_no_key_is_no_dedup(queue):
    assert len(set(sent(queue, *"aaa"))) == 3


# --- windows ---


@pytest.mark.parametrize("swept", [False, True])
@pytest.mark.parametrize("stage", ["waiting", "done"])
def test_a_window_ends_at_its_millisecond_swept_or_not(door, clock, swept, stage):
    queue = door.fresh(dedup_window_seconds=10)
    first, _ = keyed(queue)
    brought(queue, stage)
    clock.advance(ms=9_999)
    if swept:
        maintained(queue, 3)
    assert keyed(queue) == (first, "duplicate")
    clock.advance(ms=1)
    if swept:
        maintained(queue, 3)
    second, how = keyed(queue)
    assert (how, second > first) == ("new", True)
    clock.advance(ms=9_999)
    assert keyed(queue) == (second, "duplicate"), "it has opened a window of its own"


@pytest.mark.parametrize("swept", [False, True])
@pytest.mark.parametrize(
    ("mode", "how"),
    [
        *[("window", "new"), ("sliding", "new"), ("latest", "replaced")],
        *[("until_started", "duplicate"), ("until_finished", "duplicate"), ("rerun", "duplicate")],
    ],
)
def test_another_mode_asks_about_the_message_when_the_window_is_over(
    queue, clock, swept, mode, how
):
    first, _ = keyed(queue)
    clock.advance(WINDOW + 61)
    if swept:
        maintained(queue, 3)
    again = keyed(queue, dedup_mode=mode)
    assert (again[0] == first, again[1]) == (how != "new", how)


def test_a_window_is_not_extended_by_attempts(queue, clock):
    first, _ = keyed(queue)
    clock.advance(WINDOW - 1)
    assert keyed(queue) == (first, "duplicate")
    clock.advance(1)
    assert keyed(queue)[1] == "new"


@pytest.mark.parametrize("swept", [False, True])
def test_each_attempt_extends_a_sliding_window(door, clock, swept):
    queue = door.fresh(dedup_mode="sliding", dedup_window_seconds=10)
    first, _ = keyed(queue)
    for _ in range(4):
        clock.advance(ms=9_999)
        if swept:
            maintained(queue)
        assert keyed(queue) == (first, "duplicate")
    clock.advance(10)
    assert keyed(queue)[1] == "new"


def test_a_sliding_window_is_as_long_as_the_last_attempt_says(queue, clock):
    first, _ = keyed(queue, dedup_mode="sliding", dedup_window_seconds=100)
    clock.advance(10)
    assert keyed(queue, dedup_mode="sliding", dedup_window_seconds=5) == (first, "duplicate")
    clock.advance(5)
    assert keyed(queue, dedup_mode="sliding")[1] == "new"


@pytest.mark.driving
def test_the_call_says_mode_window_and_scope_before_the_queue_does(door, clock):
    queue = door.fresh(dedup_mode="until_finished", dedup_scope="channel", dedup_window_seconds=5)
    first, _ = keyed(queue, dedup_mode="window", dedup_window_seconds=60, dedup_scope="queue")
    clock.advance(59)
    again = keyed(queue, dedup_mode="window", dedup_scope="queue", channel="other")
    assert again == (first, "duplicate"), "the first call's 60 seconds, not the queue's 5"
    clock.advance(1)
    assert keyed(queue, dedup_mode="window", dedup_scope="queue")[1] == "new"


def test_changed_defaults_hold_for_the_next_send(queue, clock):
    keyed(queue)
    one(queue).ack()
    queue.update(dedup_mode="until_finished")
    second, how = keyed(queue)
    assert how == "new", "the mode is the call's at hand: the message has finished"
    clock.advance(2 * WINDOW)
    assert keyed(queue) == (second, "duplicate")


@each("mode", ["window", "sliding"])
@each("end", ["done", "dead", "cancelled", "purged"])
def test_the_entry_of_an_ended_message_still_suppresses(door, clock, mode, end):
    queue = door.fresh(dedup_mode=mode, dedup_window_seconds=10, history_seconds=0)
    first, _ = keyed(queue)
    brought(queue, end)
    clock.advance(9)
    maintained(queue, 3)
    assert keyed(queue) == (first, "duplicate")
    assert is_empty(queue)


# --- the message's life decides ---


@each("swept", [False, True])
@each("mode", ["until_started", "until_finished", "latest", "rerun"])
def test_a_message_whose_time_has_passed_stands_for_nobody(door, clock, mode, swept):
    queue = door.fresh(dedup_mode=mode, ttl_seconds=5)
    first, _ = keyed(queue, "first")
    clock.advance(5)
    if swept:
        maintained(queue, 3)
    second, how = keyed(queue, "second")
    assert (how, second > first) == ("new", True)
    assert texts(queue.receive(10)) == ["second"]
    assert counts(queue).expired == 1


def test_a_scheduled_message_is_waiting(door, clock):
    for mode in ("until_started", "rerun", "until_finished"):
        queue = door.fresh(dedup_mode=mode)
        first, _ = keyed(queue, delay_seconds=60)
        assert keyed(queue) == (first, "duplicate")
        assert is_empty(queue), "a suppressed send changes nothing"


@pytest.mark.parametrize("fifo", [False, True])
def test_latest_puts_the_new_content_in_the_old_place(door, clock, fifo):
    queue = door.fresh(dedup_mode="latest", fifo=fifo, backoff_jitter=0.0)
    first, _ = keyed(queue, "old", channel="c", priority=5, headers={"a": "1"})
    one(queue).fail("no", delay_seconds=50)
    got = keyed(
        queue,
        b"new",
        channel="c",
        priority=-5,
        delay_seconds=7,
        headers={"b": "2"},
        content_type="text/new",
        ttl_seconds=100,
    )
    assert got == (first, "replaced")
    (there,) = queue.peek()
    assert (there.id, there.attempt, there.failures) == (first, 1, 1)
    assert (there.payload, there.content_type) == (b"new", "text/new")
    assert (dict(there.headers), there.priority) == ({"b": "2"}, -5)
    assert (there.due_at, there.expires_at) == (clock.now + 7_000, clock.now + 100_000)
    assert keyed(queue, "newest", channel="c") == (first, "replaced")
    (there,) = queue.peek()
    assert (dict(there.headers), there.priority, there.expires_at) == ({}, 0, None)
    assert texts([one(queue)]) == ["newest"], "it is due at once now"


def test_latest_brings_a_ready_message_to_a_later_time(door, clock):
    queue = door.fresh(dedup_mode="latest")
    keyed(queue, "a")
    keyed(queue, "b", delay_seconds=5)
    assert is_empty(queue)
    assert counts(queue).scheduled == 1
    clock.advance(5)
    assert texts(queue.receive(10)) == ["b"]


def test_a_burst_with_latest_is_delivered_once_with_the_last_content(door):
    queue = door.fresh(dedup_mode="latest")
    for n in range(10):
        keyed(queue, str(n))
    keyed(queue, "other", key="other")
    assert sorted(texts(one_by_one(queue))) == ["9", "other"]
    assert counts(queue).sent == 2


def test_rerun_keeps_exactly_one_more_while_one_runs(door):
    queue = door.fresh(dedup_mode="rerun")
    first, _ = keyed(queue, "1")
    assert keyed(queue, "2") == (first, "duplicate")
    running = one(queue)
    second, how = keyed(queue, "3")
    assert how == "new"
    assert keyed(queue, "4") == (second, "duplicate")
    running.ack()
    assert texts(one_by_one(queue)) == ["3"]


# --- many in one call ---


@each("mode", DEDUP_MODES)
def test_the_second_of_a_send_meets_the_entry_of_the_first(door, mode):
    queue = door.fresh(dedup_mode=mode)
    outcome = queue.send_many([message(text, dedup_key="k") for text in "abc"])
    assert len(set(outcome.ids)) == 1
    places = (outcome.duplicates, outcome.replaced)
    assert places == (((), (1, 2)) if mode == "latest" else ((1, 2), ()))
    assert texts(one_by_one(queue)) == ["c" if mode == "latest" else "a"]
    assert counts(queue).sent == 1


@pytest.mark.driving
def test_each_place_of_a_send_has_the_id_that_survives(queue):
    before, _ = keyed(queue, "there", key="old")
    keys = ["x", None, "old", "y", "x", None, "y", "old"]
    outcome = queue.send_many(
        [message(str(n), dedup_key=key, channel="ab"[n % 2]) for n, key in enumerate(keys)]
    )
    ids = outcome.ids
    assert outcome.duplicates == (2, 4, 6, 7)
    assert outcome.replaced == ()
    assert (ids[2], ids[7]) == (before, before)
    assert (ids[4], ids[6]) == (ids[0], ids[3])
    fresh = [ids[0], ids[1], ids[3], ids[5]]
    assert fresh == sorted(set(fresh))
    assert counts(queue).sent == 5
    assert {p.id: p.payload for p in queue.peek()} == {
        before: b"there",
        **dict(zip(fresh, (b"0", b"1", b"3", b"5"), strict=True)),
    }


@pytest.mark.driving
def test_modes_mix_in_one_send(queue):
    outcome = queue.send_many(
        [
            message("a", dedup_key="k", dedup_mode="window"),
            message("b", dedup_key="k", dedup_mode="latest"),
            message("c", dedup_key="k", dedup_mode="until_started"),
            message("d", dedup_key="k", dedup_mode="latest", dedup_scope="channel"),
        ]
    )
    assert (outcome.duplicates, outcome.replaced) == ((2,), (1,))
    assert outcome.ids[:3] == (outcome.ids[0],) * 3
    assert sorted(texts(one_by_one(queue))) == ["b", "d"]


def test_many_keys_in_one_send_and_again(queue):
    batch = [message(str(n), dedup_key=f"key {n}") for n in range(500)]
    first = queue.send_many(batch)
    again = queue.send_many(batch[::-1])
    assert again.ids == first.ids[::-1]
    assert again.duplicates == tuple(range(500))
    assert counts(queue).sent == 500


def test_two_sends_in_one_transaction(queue):
    verb = Send(queue.name, (message("a", dedup_key="k"),))
    first, second = queue._store.run_transaction([verb, verb])
    assert (second.ids, second.duplicates) == (first.ids, (0,))


# --- with limits ---


def test_suppressed_and_replaced_messages_do_not_count_for_limits(queue):
    queue.channel("c").set_policy(Policy(max_size=2))
    queue.update(max_messages=2)
    first, _ = keyed(queue, channel="c")
    sent(queue, "b", channel="c")
    assert keyed(queue, channel="c") == (first, "duplicate")
    assert keyed(queue, channel="c", dedup_mode="latest") == (first, "replaced")
    full = queue.send_many([message("x", channel="c", dedup_key="other")])
    assert isinstance(full, (ChannelFull, QueueFull))
    assert counts(queue).sent == 2


def test_only_what_is_put_in_counts_inside_one_send(queue):
    queue.channel("c").set_policy(Policy(max_size=2))
    batch = [message("x", channel="c", dedup_key=key) for key in "aabbab"]
    assert what(queue.send_many(batch), 5) == "duplicate"
    assert counts(queue).sent == 2


def test_a_refused_send_leaves_no_entry(queue):
    queue.channel("c").set_policy(Policy(max_size=1))
    full = queue.send_many([message(key, channel="c", dedup_key=key) for key in "ab"])
    assert full == ChannelFull("c", 1, 0)
    assert keyed(queue, key="b", channel="c")[1] == "new"
    one(queue).ack()
    assert keyed(queue, key="a", channel="c")[1] == "new"


def test_a_queue_that_was_made_again_knows_no_old_keys(queue):
    first, _ = keyed(queue)
    queue.delete()
    second, how = keyed(queue)
    assert (how, second > first) == ("new", True)


# --- keys ---


@each("key", ["k", "ä" * 127, "x" * 255, "a b\n", "'; drop"])
def test_keys_at_their_limits_are_taken(queue, key):
    first, how = keyed(queue, key=key)
    assert how == "new"
    assert keyed(queue, key=key) == (first, "duplicate")


@each("key", ["", "x" * 256, "ä" * 128, "a\x00", "\ud800", 5, b"k"])
def test_wrong_keys_are_refused(key):
    with pytest.raises(UsageError):
        message("x", dedup_key=key)


@each(
    "options",
    [
        {"dedup_mode": "always"},
        {"dedup_mode": 1},
        {"dedup_scope": "world"},
        {"dedup_window_seconds": 0},
        {"dedup_window_seconds": -1},
        {"dedup_window_seconds": 366 * 86_400 + 1},
        {"dedup_window_seconds": "5"},
    ],
)
def test_wrong_options_are_refused(queue, options):
    with pytest.raises(UsageError):
        message("x", dedup_key="k", **options)
    with pytest.raises(UsageError):
        queue.update(**options)


@each("options", [{"dedup_mode": "window"}, {"dedup_scope": "queue"}, {"dedup_window_seconds": 5}])
def test_options_without_a_key_are_refused(options):
    with pytest.raises(UsageError, match="dedup_key"):
        message("x", **options)
