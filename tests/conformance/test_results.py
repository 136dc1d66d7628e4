"""Results and endings: what an ack leaves, and how each message ended."""

import pytest

from tests.conformance.steps import acked, do, ending, finished, grave_of, maintained, one, sent
from tests.support.each import each
from turnabout import Acked, Dead, LeaseLost, UsageError, message
from turnabout.words import limits
from turnabout.words.outcomes import Cancelled
from turnabout.words.prepare import result
from turnabout.words.records import Ending, Result
from turnabout.words.verbs import Ack

JSON = "application/json"


@pytest.mark.parametrize(
    ("value", "kept"),
    [
        (b"\x00\xff", Result(b"\x00\xff", "application/octet-stream")),
        (b"", Result(b"", "application/octet-stream")),
        ("tschüß", Result("tschüß".encode(), "text/plain; charset=utf-8")),
        ({"a": [1, None]}, Result(b'{"a":[1,null]}', JSON)),
        (False, Result(b"false", JSON)),
        (None, None),
    ],
    ids=repr,
)
def test_the_result_of_an_ack_is_kept_with_the_ending(queue, clock, value, kept):
    (number,) = sent(queue, "a")
    held = one(queue)
    clock.advance(3)
    acked(queue, held, value)
    assert ending(queue, number) == Ending(number, "done", clock.now, 1, 0, 0, None, kept)
    assert [entry.result for entry in finished(queue)] == [kept]


@pytest.mark.driving
def test_results_come_back_as_what_they_were(queue):
    numbers = sent(queue, "a", "b")
    for held, value in zip(queue.receive(2), ({"n": 1}, "text"), strict=True):
        acked(queue, held, value)
    first, second = queue.endings(tuple(numbers))
    assert first.result.json() == {"n": 1}
    assert second.result.text() == "text"


@pytest.mark.driving
def test_each_receipt_has_its_own_result(queue, clock):
    sent(queue, *"abc")
    (lost,) = queue.receive(lease_seconds=1)
    clock.advance(1)
    first, second, third = queue.receive(3)
    assert first.id == lost.id
    receipts = (second.receipt, lost.receipt, third.receipt)
    values = (result("of second"), result("lost"), None)
    outcomes = do(queue, Ack, receipts, values)
    assert outcomes == (Acked(), LeaseLost("leased"), Acked())
    acked(queue, first, "of first")
    by_id = {e.id: e.result and e.result.text() for e in finished(queue)}
    assert by_id == {first.id: "of first", second.id: "of second", third.id: None}


def test_a_second_ack_changes_no_result(queue):
    sent(queue, "a")
    held = one(queue)
    acked(queue, held, "first")
    assert do(queue, Ack, (held.receipt,), (result("second"),)) == (LeaseLost("gone"),)
    assert [entry.result.text() for entry in finished(queue)] == ["first"]


@each("size", [limits.RESULT_BYTES_MAX - 1, limits.RESULT_BYTES_MAX])
def test_results_up_to_the_limit_are_kept(queue, size):
    (number,) = sent(queue, "a")
    acked(queue, one(queue), b"x" * size)
    assert len(ending(queue, number).result.data) == size


def test_results_over_the_limit_are_refused():
    with pytest.raises(UsageError, match="over"):
        result(b"x" * (limits.RESULT_BYTES_MAX + 1))
    with pytest.raises(UsageError):
        Result("text", "text/plain")
    with pytest.raises(UsageError):
        Result(b"x", "")
    with pytest.raises(UsageError):
        result(object())


# --- endings ---


@pytest.mark.driving
def test_every_ending_is_told(door, clock):
    queue = door.fresh(max_attempts=2, backoff_seconds=0, lease_seconds=5)
    ids = dict(zip(("dead", "crashed", "refused", "cancelled"), sent(queue, *"abcd"), strict=True))
    assert queue.cancel((ids["cancelled"],)) == (Cancelled(),)
    ids["expired"] = queue.send_many([message("e", ttl_seconds=1, delay_seconds=2)]).id
    dead, _, refused = queue.receive(3)
    clock.advance(4)
    assert refused.fail("never", retry=False) == Dead(grave_of(queue).name)
    dead.fail("first")
    one(queue).fail("second")
    clock.advance(1)  # the lease of `crashed` runs out, and that of its second delivery
    one(queue)
    clock.advance(5)
    assert not queue.receive()
    told = {what: ending(queue, number) for what, number in ids.items()}
    outcomes = {what: end.outcome for what, end in told.items()}
    assert outcomes == {
        **dict.fromkeys(("dead", "crashed", "refused"), "dead"),
        "cancelled": "cancelled",
        "expired": "expired",
    }
    charges = {w: (e.attempt, e.failures, e.crashes, e.error) for w, e in told.items()}
    assert charges == {
        "dead": (2, 2, 0, "second"),
        "crashed": (2, 0, 2, None),
        "refused": (1, 1, 0, "never"),
        "cancelled": (0, 0, 0, None),
        "expired": (0, 0, 0, None),
    }


@pytest.mark.parametrize("stage", ["ready", "scheduled", "leased", "never sent", "elsewhere"])
def test_what_has_not_ended_here_has_no_ending(door, stage):
    queue, other = door.fresh(), door.fresh()
    (number,) = sent(queue, "a", delay_seconds=60 if stage == "scheduled" else None)
    if stage == "leased":
        one(queue)
    if stage == "never sent":
        number = 2**62
    if stage == "elsewhere":
        # Its id was given out, and the queue that is asked has no row: it cannot know more.
        assert ending(other, number).outcome == "unknown"
        return
    assert ending(queue, number) is None


def test_a_dead_message_has_ended_in_its_queue_and_not_in_the_other(door):
    queue = door.fresh(max_attempts=1)
    (number,) = sent(queue, "a")
    one(queue).fail("no")
    assert ending(queue, number).outcome == "dead"
    assert ending(grave_of(queue), number) is None
    acked(grave_of(queue), one(grave_of(queue)), "seen")
    assert ending(grave_of(queue), number).outcome == "done"
    assert ending(queue, number).error == "no"


@pytest.mark.parametrize("how", ["off", "swept", "cleared"])
def test_an_ending_without_history_is_unknown(door, clock, how):
    queue = door.fresh(history_seconds=0 if how == "off" else 60)
    (number,) = sent(queue, "a")
    acked(queue, one(queue), "x")
    if how == "swept":
        clock.advance(61)
        maintained(queue, 3)
    if how == "cleared":
        queue.clear("all")
    assert ending(queue, number) == Ending(number, "unknown")
    assert finished(queue) == []


@pytest.mark.driving
def test_endings_of_many_come_in_the_order_asked(queue):
    numbers = sent(queue, *map(str, range(20)))
    for held in queue.receive(10):
        acked(queue, held, held.text())
    asked = (*reversed(numbers), 2**62, numbers[0])
    answers = queue.endings(asked)
    assert len(answers) == 22
    for number, answer in zip(asked, answers, strict=True):
        if number in numbers[:10]:
            assert (answer.id, answer.outcome) == (number, "done")
            assert answer.result.text() == str(numbers.index(number))
        else:
            assert answer is None
    assert queue.endings(()) == ()
