"""max_concurrency (P10) and FIFO queues (P9): how many messages of a channel are out at once."""

from collections import Counter

import pytest

from tests.conformance.steps import counts, is_empty, one, sent, taken, texts
from turnabout import Acked, Dead, LeaseLost, Policy, UsageError, message
from turnabout.words.policy import NO_POLICY


def limited(queue, most, backlog=10, channel="a"):
    queue.channel(channel).set_policy(Policy(max_concurrency=most))
    queue.send_many([message(f"{channel}{n}", channel=channel) for n in range(backlog)])


@pytest.mark.parametrize("most", [1, 2, 5])
@pytest.mark.driving
def test_never_more_leases_than_slots(queue, most):
    limited(queue, most)
    assert len(queue.receive(10)) == most
    assert is_empty(queue)
    assert counts(queue).leased == most


@pytest.mark.parametrize("end", ["ack", "defer", "fail", "release", "refuse", "purge"])
def test_whatever_ends_a_lease_frees_its_slot_and_no_other(queue, end):
    limited(queue, 2)
    first, _ = queue.receive(10)
    match end:
        case "defer":
            first.defer(delay_seconds=60)
        case "refuse":
            first.fail(retry=False)
        case "purge":
            first.release()
            queue.channel("a").pause()
            queue.purge(channel="a", state="ready")
            queue.channel("a").resume()
            sent(queue, "new", "newer", channel="a")
        case _:
            getattr(first, end)()
    assert len(queue.receive(10)) == 1
    assert is_empty(queue)


def test_a_lease_that_runs_out_frees_its_slot(queue, clock):
    limited(queue, 1)
    got = one(queue, lease_seconds=5)
    clock.advance(ms=4_999)
    batch = queue.receive(10)
    assert not batch
    assert batch.retry_after_seconds == 0.001
    clock.advance(ms=1)
    again = one(queue)
    assert (again.id, again.attempt) == (got.id, 2)
    assert is_empty(queue)


def test_an_extended_lease_keeps_its_slot(queue, clock):
    limited(queue, 1)
    got = one(queue, lease_seconds=5)
    got.extend(lease_seconds=60)
    clock.advance(59)
    assert is_empty(queue)


def test_a_refused_verb_frees_nothing(queue, clock):
    limited(queue, 1)
    stale = one(queue, lease_seconds=1)
    clock.advance(1)
    one(queue)
    assert stale.ack() == LeaseLost("leased")
    assert stale.release() == LeaseLost("leased")
    assert stale.fail() == LeaseLost("leased")
    assert is_empty(queue)


def test_slots_are_each_channel_s_own(queue):
    limited(queue, 1, channel="a")
    limited(queue, 2, channel="b")
    sent(queue, "c0", "c1", "c2", "c3", channel="c")
    got = sorted(texts(queue.receive(20)))
    assert got == ["a0", "b0", "b1", "c0", "c1", "c2", "c3"]
    assert is_empty(queue)


def test_a_higher_limit_holds_at_once(queue):
    limited(queue, 2)
    queue.receive(10)
    queue.channel("a").change_policy(max_concurrency=5)
    assert len(queue.receive(10)) == 3
    assert is_empty(queue)


def test_a_lower_limit_holds_for_every_new_lease(queue):
    limited(queue, 4)
    out = list(queue.receive(10))
    queue.channel("a").change_policy(max_concurrency=2)
    assert is_empty(queue)
    for _ in range(2):
        out.pop().ack()
        assert is_empty(queue)
    out.pop().ack()
    assert len(queue.receive(10)) == 1
    assert is_empty(queue)


def test_leases_from_before_the_limit_count(queue):
    queue.send_many([message(str(n), channel="a") for n in range(10)])
    out = list(queue.receive(3))
    queue.channel("a").set_policy(Policy(max_concurrency=4))
    assert len(queue.receive(10)) == 1
    out[0].ack()
    assert len(queue.receive(10)) == 1
    assert is_empty(queue)


def test_a_limit_on_a_long_backlog_holds_from_the_first_lease(queue):
    queue.send_many([message(str(n), channel="a") for n in range(350)])
    queue.channel("a").set_policy(Policy(max_concurrency=3))
    assert texts(every(queue)) == ["0", "1", "2"]
    sent(queue, "late", channel="a", priority=-1)
    assert is_empty(queue)
    queue.channel("a").clear_policy()
    assert texts(every(queue)) == ["late", *(str(n) for n in range(3, 350))]


def every(queue):
    """Receive until three answers in a row are empty: a limit may take a few to sort out."""
    got, empty = [], 0
    while empty < 3:
        batch = queue.receive(50)
        empty = 0 if batch else empty + 1
        got.extend(batch)
    return got


def test_the_queue_s_default_limits_every_channel(door):
    queue = door.fresh(policy=Policy(max_concurrency=2))
    for channel in "abc":
        sent(queue, "1", "2", "3", channel=channel)
    assert len(queue.receive(20)) == 6
    assert is_empty(queue)


def test_a_channel_s_own_limit_goes_over_the_default(door):
    queue = door.fresh(policy=Policy(max_concurrency=1))
    queue.channel("a").set_policy(Policy(max_concurrency=3))
    for channel in "ab":
        sent(queue, "1", "2", "3", "4", channel=channel)
    assert sorted(m.channel for m in queue.receive(20)) == ["a", "a", "a", "b"]
    queue.channel("a").clear_policy()
    assert is_empty(queue)


def test_the_default_changes_on_a_live_queue_with_a_backlog(queue):
    for channel in "abc":
        sent(queue, *"12345", channel=channel)
    queue.update(policy=Policy(max_concurrency=1))
    assert sorted(m.channel for m in every(queue)) == list("abc")
    queue.update(policy=Policy(max_concurrency=2))
    assert sorted(m.channel for m in every(queue)) == list("abc")
    sent(queue, "x", channel="d")
    assert [m.channel for m in every(queue)] == ["d"]
    queue.update(policy=NO_POLICY)
    assert sorted(m.channel for m in every(queue)) == list("aaabbbccc")


def test_priority_holds_inside_a_limited_channel(queue):
    queue.channel("a").set_policy(Policy(max_concurrency=1))
    sent(queue, "second", channel="a")
    one_got = taken(queue, "first", channel="a", priority=-1)
    assert one_got.text() == "first"
    one_got.ack()
    assert one(queue).text() == "second"


# --- FIFO ---


@pytest.fixture
def fifo(door):
    return door.fresh(fifo=True, backoff_jitter=0.0, max_attempts=2)


@pytest.mark.driving
def test_fifo_is_one_at_a_time_in_order(fifo):
    sent(fifo, "1", "2", "3", channel="a")
    for name in "123":
        got = one(fifo)
        assert got.text() == name
        assert is_empty(fifo)
        assert got.ack() == Acked()
    assert is_empty(fifo)


def test_fifo_channels_do_not_wait_for_each_other(fifo):
    for channel in "abc":
        sent(fifo, f"{channel}1", f"{channel}2", channel=channel)
    assert sorted(texts(fifo.receive(10))) == ["a1", "b1", "c1"]
    assert is_empty(fifo)


def test_a_retried_head_stays_the_head(fifo, clock):
    sent(fifo, "1", "2", channel="a")
    outcome = one(fifo).fail()
    assert outcome.due_at == clock.now + 1_000
    clock.advance(ms=999)
    batch = fifo.receive(10)
    assert not batch
    assert batch.retry_after_seconds == 0.001
    clock.advance(ms=1)
    got = one(fifo)
    assert (got.text(), got.attempt) == ("1", 2)


@pytest.mark.parametrize("back", ["defer", "release"])
def test_a_head_that_is_given_back_stays_the_head(fifo, clock, back):
    sent(fifo, "1", "2", channel="a")
    got = one(fifo)
    if back == "defer":
        got.defer(delay_seconds=5)
        assert is_empty(fifo)
        clock.advance(5)
    else:
        got.release()
    assert one(fifo).text() == "1"


def test_a_head_whose_lease_ran_out_stays_the_head(fifo, clock):
    sent(fifo, "1", "2", channel="a")
    one(fifo, lease_seconds=1)
    clock.advance(1)
    assert one(fifo).text() == "1"
    assert is_empty(fifo)


def test_a_dead_head_lets_the_next_one_through(fifo, clock):
    sent(fifo, "1", "2", channel="a")
    one(fifo).fail()
    clock.advance(1)
    assert isinstance(one(fifo).fail(), Dead)
    got = one(fifo)
    assert got.text() == "2"
    got.fail(retry=False)
    assert is_empty(fifo)
    assert counts(fifo).dead == 2


def test_a_head_that_died_of_lost_leases_lets_the_next_one_through(fifo, clock):
    sent(fifo, "1", "2", channel="a")
    for _ in range(2):
        one(fifo, lease_seconds=1)
        clock.advance(1)
    assert one(fifo).text() == "2"


def test_a_delayed_message_holds_its_channel(fifo, clock):
    sent(fifo, "1", channel="a", delay_seconds=10)
    sent(fifo, "2", channel="a")
    sent(fifo, "b", channel="b")
    assert texts(fifo.receive(10)) == ["b"]
    assert fifo.receive(10).retry_after_seconds == 10
    clock.advance(ms=9_999)
    assert is_empty(fifo)
    clock.advance(ms=1)
    assert texts(fifo.receive(10)) == ["1"]


def test_priority_goes_before_order_in_fifo_too(fifo):
    sent(fifo, "2", channel="a")
    sent(fifo, "1", channel="a", priority=-1)
    assert texts(fifo.receive(10)) == ["1"]


def test_a_message_that_overtakes_waits_for_who_is_out(fifo):
    got = taken(fifo, "out", channel="a")
    sent(fifo, "urgent", channel="a", priority=-5)
    assert is_empty(fifo)
    got.ack()
    assert one(fifo).text() == "urgent"


@pytest.fixture
def runs(door):
    return door.fresh(fifo=True, fifo_run=3, backoff_jitter=0.0)


def test_a_run_of_a_fifo_channel_is_taken_at_once_and_waited_for(runs):
    sent(runs, "1", "2", "3", "4", "5", channel="a")
    first = runs.receive(10)
    assert texts(first) == ["1", "2", "3"]
    for got in first[::-1]:
        assert is_empty(runs)
        got.ack()
    assert texts(runs.receive(10)) == ["4", "5"]


def test_channels_share_a_batch_that_runs_fill(runs):
    for channel in "abcd":
        sent(runs, *(f"{channel}{n}" for n in "123"), channel=channel)
    assert sorted(texts(runs.receive(4))) == ["a1", "b1", "c1", "d1"]
    assert is_empty(runs)


def test_a_batch_of_runs_is_filled_and_who_has_more_of_it_changes(runs):
    for channel in "abc":
        sent(runs, *(f"{channel}{n}" for n in range(10)), channel=channel)
    had: Counter[str] = Counter()
    for _ in range(3):
        batch = runs.receive(7)
        shares = Counter(message.channel for message in batch)
        assert sorted(shares.values()) == [2, 2, 3]
        had += shares
        for got in batch:
            got.ack()
    assert set(had.values()) == {7}


def test_what_comes_back_of_a_run_comes_first(runs, clock):
    sent(runs, "1", "2", "3", "4", channel="a")
    first, second, third = runs.receive(10)
    second.fail()
    third.ack()
    assert is_empty(runs)
    first.release()
    assert texts(runs.receive(10)) == ["1"]
    clock.advance(10)
    assert is_empty(runs), "1 is out"


def test_runs_go_on_where_others_have_less_than_their_share(runs):
    sent(runs, "a1", channel="a")
    (out,) = runs.receive(1)
    sent(runs, "a2", "a3", channel="a")
    for channel in "bc":
        sent(runs, *(f"{channel}{n}" for n in "123"), channel=channel)
    sent(runs, "d1", channel="d")
    assert sorted(texts(runs.receive(7))) == ["b1", "b2", "b3", "c1", "c2", "c3", "d1"]
    out.ack()
    assert texts(runs.receive(7)) == ["a2", "a3"]


def test_a_run_of_a_fifo_channel_ends_before_what_is_not_due(runs, clock):
    sent(runs, "1", channel="a")
    sent(runs, "2", channel="a", delay_seconds=10)
    sent(runs, "3", channel="a")
    (got,) = runs.receive(10)
    assert got.text() == "1"
    got.ack()
    assert is_empty(runs)
    clock.advance(10)
    assert texts(runs.receive(10)) == ["2", "3"]


def test_a_lost_lease_of_a_run_opens_the_channel_with_the_last_one(runs, clock):
    sent(runs, "1", "2", channel="a")
    first, _ = runs.receive(10, lease_seconds=5)
    first.extend(lease_seconds=60)
    clock.advance(6)
    assert is_empty(runs)
    first.ack()
    assert texts(runs.receive(10)) == ["2"]


def test_limits_hold_in_a_run(door, runs):
    runs.channel("a").set_policy(Policy(max_concurrency=2))
    sent(runs, "1", "2", "3", channel="a")
    assert texts(runs.receive(10)) == ["1", "2"]
    with pytest.raises(UsageError, match="fifo"):
        door.fresh().update(fifo_run=2)


def test_a_purged_head_lets_the_next_one_through(fifo):
    sent(fifo, "1", channel="a", delay_seconds=60)
    fifo.purge(channel="a")
    assert taken(fifo, "2", channel="a").text() == "2"


def test_a_higher_max_concurrency_does_not_break_fifo(fifo):
    fifo.channel("a").set_policy(Policy(max_concurrency=5))
    sent(fifo, "1", "2", channel="a")
    assert texts(fifo.receive(10)) == ["1"]
    assert is_empty(fifo)
