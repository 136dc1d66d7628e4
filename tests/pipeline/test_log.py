"""The log: history in the order of commits, in ranges that never change."""

import contextlib
import itertools

import psycopg
import pytest

import turnabout
from tests.conformance.steps import finished, grave_of, maintained, one, sent
from tests.pipeline.steps import PLACES, ended, many
from tests.support.each import each
from turnabout import Deleted, Failure, Receipt, UsageError, message
from turnabout.pipeline import verbs as p
from turnabout.words import verbs as v

only_postgres = pytest.mark.parametrize(
    "pipe",
    [name for name in PLACES if "postgres" in name],
    indirect=True,
)
"""SQLite has one writer: there, no earlier transaction can still come to light."""


def ids(rows):
    return [row["message_id"] for row in rows]


# --- ranges ---


def test_what_has_ended_is_read_in_the_order_of_commits(pipe):
    queue, began = pipe.queue(), pipe.end()
    sent(queue, "a", "b", "c")
    held = queue.receive(3)
    for place in (2, 0, 1):
        held[place].ack()
    assert ids(pipe.log(began)) == [held[2].id, held[0].id, held[1].id]
    assert pipe.next(pipe.end()).messages == 0


@pytest.mark.parametrize("limit", [1, 2, 3, 4, 7, 8, None])
def test_a_limit_cuts_and_says_that_there_is_more(pipe, limit):
    queue, began = pipe.queue(), pipe.end()
    numbers = ended(queue, *many("a", 4))
    sent(queue, *many("b", 3))
    held = queue.receive(3)
    queue.ack([m.receipt for m in held])  # three rows in one transaction
    numbers += [m.id for m in held]
    span = pipe.next(began, limit)
    assert (span.after, span.messages) == (began, min(limit or 7, 7))
    assert span.more == (span.messages < 7)
    assert ids(pipe.log(began, limit)) == numbers


def test_a_range_never_changes(pipe):
    queue, began = pipe.queue(), pipe.end()
    ended(queue, "a", "b")
    span = pipe.next(began)
    rows = pipe.rows(span)
    ended(queue, "c")
    ended(pipe.queue(), "d")
    assert pipe.rows(span) == rows
    assert ids(pipe.log(began)) == ids(rows) + ids(pipe.log(span.until))


@pytest.mark.parametrize("parts", [1, 2, 3, 5, 20])
@pytest.mark.parametrize("queues", [1, 3])
def test_a_cut_covers_a_range_exactly(pipe, parts, queues):
    began, wanted = pipe.end(), []
    for n in range(queues):
        queue = pipe.queue()
        queue.send_many([message("x") for _ in range(12 + n)])
        while batch := queue.receive(4):
            queue.ack([m.receipt for m in batch])
            wanted += [m.id for m in batch]
    span = pipe.next(began)
    cut = pipe.run(p.LogCut(span.after, span.until, parts))
    assert 1 <= len(cut) <= parts
    assert (cut[0].after, cut[-1].until) == (span.after, span.until)
    assert all(a.until == b.after for a, b in itertools.pairwise(cut))
    rows = [pipe.rows(part) for part in cut]
    assert [len(r) for r in rows] == [part.messages for part in cut]
    assert sorted(n for r in rows for n in ids(r)) == sorted(wanted)
    assert max(map(len, rows)) <= len(wanted) / parts + 1, "parts are about even"


def test_a_cut_of_nothing_has_nothing(pipe):
    end = pipe.end()
    assert sum(part.messages for part in pipe.run(p.LogCut(end, end, 3))) == 0


# --- what rows tell ---


def test_a_row_of_each_outcome(pipe, clock):
    queue, began = pipe.queue(max_attempts=1), pipe.end()
    done = sent(queue, "done")[0]
    one(queue).ack()
    dead = sent(queue, "dead")[0]
    one(queue).fail("why")
    cancelled = sent(queue, "cancelled")[0]
    pipe.run(v.Cancel(queue.name, (cancelled,)))
    expired = sent(queue, "expired", ttl_seconds=1)[0]
    clock.advance(1)
    maintained(queue)
    assert not queue.receive(1)
    rows = pipe.log(began)
    assert [(row["message_id"], row["outcome"]) for row in rows] == [
        (done, "done"),
        (dead, "dead"),
        (cancelled, "cancelled"),
        (expired, "expired"),
    ]
    assert [row["error"] for row in rows] == [None, "why", None, None]
    assert {row["queue"] for row in rows} == {queue.name}


def test_a_dead_letter_ends_twice_once_in_each_queue(pipe):
    queue, began = pipe.queue(max_attempts=1), pipe.end()
    sent(queue, "a")
    one(queue).fail("why")
    one(grave_of(queue)).ack()
    assert [(row["queue"], row["outcome"]) for row in pipe.log(began)] == [
        (queue.name, "dead"),
        (grave_of(queue).name, "done"),
    ]


@pytest.mark.parametrize("limit", [1, 2, None])
def test_two_rows_of_one_message_in_one_transaction_stay_together(pipe, limit):
    queue, began = pipe.queue(), pipe.end()
    sent(queue, "a", "b")
    held = queue.receive(2)
    grave = grave_of(queue).name
    verbs = [v.Fail(queue.name, tuple(Failure(m.receipt, retry=False) for m in held))]
    verbs.append(v.Receive(grave, 10))
    verbs.append(v.Ack(grave, tuple(Receipt(m.id, m.attempt + 1) for m in held)))
    answers = pipe.door.mq.store.run_transaction(verbs)
    assert answers[2] == (turnabout.Acked(),) * 2, answers
    rows = pipe.log(began, limit)
    assert sorted((row["message_id"], row["outcome"]) for row in rows) == sorted(
        (m.id, outcome) for m in held for outcome in ("dead", "done")
    )


def test_what_leaves_no_row_is_not_in_the_log(pipe):
    queue, began = pipe.queue(history_seconds=0), pipe.end()
    ended(queue, "a")
    assert pipe.next(began) == p.LogRange(began, began, 0)


def test_history_with_its_payload(pipe):
    queue, began = pipe.queue(history_payload=True), pipe.end()
    sent(queue, b"\x00\xff", content_type="x/y", headers={"ü": "v"})
    queue.ack([one(queue).receipt], results=[{"n": 1}])
    (row,) = pipe.log(began)
    assert (bytes(row["value"]), row["content_type"]) == (b"\x00\xff", "x/y")
    assert row["headers"] in ('{"ü": "v"}', '{"ü":"v"}', '{"\\u00fc": "v"}')
    assert (bytes(row["result"]), row["result_type"]) == (b'{"n":1}', "application/json")


# --- times ---


def test_a_time_is_a_position(pipe, clock):
    queue, numbers, times = pipe.queue(), [], []
    for n in range(4):
        clock.advance(10)
        times.append(clock.now)
        numbers += ended(queue, str(n))
    for n, at in enumerate(times):
        assert ids(pipe.log(pipe.run(p.LogAt(at)))) == numbers[n:]
        assert ids(pipe.log(pipe.run(p.LogAt(at - 9_999)))) == numbers[n:]
        assert ids(pipe.log(pipe.run(p.LogAt(at + 1)))) == numbers[n + 1 :]
    assert ids(pipe.log(pipe.run(p.LogAt(0)))) == ids(pipe.log(p.START))
    assert pipe.next(pipe.run(p.LogAt(clock.now + 1))).messages == 0


# --- removal: the floor ---


def by_retention(pipe, queue, _):
    queue.update(history_seconds=1)
    pipe.clock.advance(2)
    maintained(queue, 3)


def by_clear(pipe, queue, _):
    pipe.run(v.Clear(queue.name, "all"))


def by_deleting_the_queue(_, queue, __):
    assert queue.delete() == Deleted(0)


def by_purge(pipe, _, until):
    assert pipe.run(p.LogPurge(until, pipe.clock.now + 1)) == 3


def by_purge_of_what_is_older(pipe, _, until):
    pipe.clock.advance(1)
    assert pipe.run(p.LogPurge(until, pipe.clock.now)) == 3


WAYS = [by_retention, by_clear, by_deleting_the_queue, by_purge, by_purge_of_what_is_older]


@pytest.fixture(params=WAYS, ids=lambda way: way.__name__)
def removed(pipe, request):
    """Three rows that are gone: where a reader was before them, within, and after them."""
    pipe.run(p.LogPurge(pipe.end(), pipe.clock.now + 1, 1_000_000))
    queue, before = pipe.queue(), pipe.end()
    ended(queue, *many("a", 3))
    within = pipe.next(before, 2).until
    after = pipe.next(before).until
    request.param(pipe, queue, after)
    assert not pipe.log(p.START)
    return before, within, after


def test_who_has_not_read_what_is_gone_is_told(pipe, removed):
    before, within, after = removed
    floor = pipe.run(p.LogLook()).floor
    for position in (before, within):
        if position != p.START:
            assert pipe.next(position) == p.LogLost(floor)
            assert pipe.next(position, 1) == p.LogLost(floor)
    assert pipe.next(after).messages == 0


def test_who_has_not_read_what_is_gone_may_go_on(pipe, removed):
    queue = pipe.queue()
    numbers = ended(queue, "b", "c")
    for position in (*removed, p.START, pipe.run(p.LogLook()).floor, pipe.run(p.LogAt(0))):
        span = pipe.next(position, ignore_loss=True)
        assert ids(pipe.rows(span)) == numbers, position
        assert (span.messages, span.after) == (2, position)
        assert ids(pipe.log(span.until)) == []
    for position in (removed[2], p.START, pipe.run(p.LogLook()).floor, pipe.run(p.LogAt(0))):
        assert isinstance(pipe.next(position, 1), p.LogRange)


def test_with_rows_left_in_between_it_is_lost_as_well(pipe):
    queue, before = pipe.queue(max_attempts=1), pipe.end()
    sent(queue, "done", "dead", "done too")
    first, second, third = queue.receive(3)
    first.ack()
    second.fail("why")
    third.ack()
    position, end = pipe.next(before, 1).until, pipe.end()
    pipe.run(v.Clear(queue.name, "done"))
    answer = pipe.next(position)
    assert isinstance(answer, p.LogLost)
    assert ids(pipe.rows(pipe.next(position, ignore_loss=True))) == [second.id]
    assert pipe.next(end) == p.LogRange(end, end, 0)


@pytest.mark.parametrize("begin", ["start", "time", "ignored"])
def test_from_the_start_one_reads_past_what_is_gone(pipe, begin):
    """Failed rows are often kept for longer than done ones: those between are no loss to who begins
    now, at the first row or at any other.
    """
    pipe.run(p.LogPurge(pipe.end(), pipe.clock.now + 1, 1_000_000))
    queue, before = pipe.queue(max_attempts=1), pipe.end()
    sent(queue, *"abcdef")
    held = queue.receive(6)
    for n, m in enumerate(held):
        m.ack() if n % 2 else m.fail("why")
    lost = pipe.next(before, 1).until
    pipe.run(v.Clear(queue.name, "done"))
    numbers = ended(queue, "g")
    after = {"start": p.START, "time": pipe.run(p.LogAt(0)), "ignored": lost}[begin]
    wanted = [m.id for m in held[::2]] + numbers
    if begin == "ignored":
        assert isinstance(pipe.next(after, 1), p.LogLost)
        span = pipe.next(after, 1, ignore_loss=True)
        after, wanted = span.until, wanted[2:]
    assert ids(pipe.log(after, 1)) == wanted
    assert pipe.log(pipe.end()) == []
    pipe.run(v.Clear(queue.name, "done"))
    if begin != "start":
        assert isinstance(pipe.next(after, 1), p.LogLost), "what goes now is lost"


def test_a_queue_of_the_same_name_is_another_one(pipe):
    queue = pipe.queue()
    ended(queue, "a")
    end = pipe.end()
    queue.delete()
    queue.create()
    numbers = ended(queue, "b", "c")
    assert ids(pipe.log(end)) == numbers


# --- positions that cannot be ---


def test_a_position_beyond_the_end_is_of_another_database(pipe):
    ended(pipe.queue(), "a")
    end = pipe.end()
    if pipe.is_postgres:
        beyond = f"{int(end.partition('.')[0]) + 1_000_000}.1"
    else:
        pairs = end.split(",")
        queue, seq = pairs[-1].split("=")
        beyond = ",".join([*pairs[:-1], f"{queue}={int(seq) + 1}"])
        unknown = f"{end},{int(queue) + 1_000}=1"
        assert pipe.next(unknown) == p.LogAhead(end)
    assert pipe.next(beyond) == p.LogAhead(end)
    assert pipe.next(beyond, ignore_loss=True) == p.LogAhead(end)


NOT_POSITIONS = ["x", "1", "1.", ".1", "1=", "=1", "-1.1", "1=-1", "1.1.1", "1=1,", "1=1,1=2", " "]
NOT_POSITIONS += ["1.1;", "' or 1=1", "9" * 30 + ".1", "1=" + "9" * 30, "1.1 ", "٣.1", "3=٣"]


@each("text", NOT_POSITIONS)
def test_other_text_is_no_position(pipe, text):
    good = pipe.end() or "1.1"
    for verb in (
        p.LogNext(text),
        p.LogCut(text, good, 1),
        p.LogCut(p.START, text, 1),
        p.LogPurge(text, 1),
        p.WatermarkSet("nobody", text, 1),
    ):
        with pytest.raises(UsageError):
            pipe.run(verb)


def test_a_position_of_the_other_kind_of_store_is_refused(pipe):
    with pytest.raises(UsageError):
        pipe.run(p.LogNext("1=1" if pipe.is_postgres else "1.1"))


# --- an open transaction, on PostgreSQL ---


@pytest.fixture
def open_transaction(pipe):
    """Another session, whose transaction ends when the test says so, and our verbs on it."""
    with contextlib.ExitStack() as stack:
        connection = stack.enter_context(psycopg.connect(pipe.door.url))
        mq = stack.enter_context(turnabout.connect(pipe.door.url, clock=pipe.clock))

        def within(queue):
            return mq.queue(queue.name).within(connection)

        yield connection, within


@only_postgres
@pytest.mark.parametrize("end", ["commit", "rollback"])
def test_an_open_transaction_is_never_passed(pipe, open_transaction, end):
    """The trap: it has taken its place in the log already, and its rows come to light later."""
    connection, within = open_transaction
    queue, began = pipe.queue(), pipe.end()
    sent(queue, "early", "late")
    early, late = queue.receive(2)
    within(queue).ack([early.receipt])
    late.ack()
    for limit in (None, 1):
        assert pipe.next(began, limit) == p.LogRange(began, began, 0)
    assert [row.id for row in finished(queue)] == [late.id], "history itself does not wait"
    look = pipe.run(p.LogLook())
    assert look.end == began
    assert look.waiting_ms is not None
    assert look.waiting_ms >= 0
    getattr(connection, end)()
    wanted = [early.id, late.id] if end == "commit" else [late.id]
    assert ids(pipe.log(began)) == wanted
    assert pipe.run(p.LogLook()).waiting_ms is None


@only_postgres
def test_a_transaction_that_ends_a_message_late_in_its_life_is_waited_for(pipe, open_transaction):
    connection, within = open_transaction
    queue, began = pipe.queue(), pipe.end()
    sent(queue, "a", "b", "c")
    first, second, third = queue.receive(3)
    connection.execute("create temporary table mine (n int)")  # it has its number now
    first.ack()
    within(queue).ack([second.receipt])
    third.ack()
    assert pipe.next(began).messages == 0
    connection.commit()
    assert sorted(ids(pipe.log(began, 1))) == sorted([first.id, second.id, third.id])


@only_postgres
def test_who_only_reads_holds_nothing_back(pipe, open_transaction):
    connection, _ = open_transaction
    connection.execute("select count(*) from turnabout.history")
    queue, began = pipe.queue(), pipe.end()
    numbers = ended(queue, "a")
    assert ids(pipe.log(began)) == numbers
    assert pipe.run(p.LogLook()).waiting_ms is None
    connection.rollback()


@only_postgres
def test_a_purge_removes_nothing_that_could_not_be_read(pipe, open_transaction):
    connection, within = open_transaction
    queue, began = pipe.queue(), pipe.end()
    sent(queue, "a", "b")
    first, second = queue.receive(2)
    within(queue).ack([first.receipt])
    second.ack()
    assert pipe.run(p.LogPurge(pipe.end(), pipe.clock.now + 1)) == 0 or began == pipe.end()
    connection.commit()
    assert ids(pipe.log(began)) == [first.id, second.id]
