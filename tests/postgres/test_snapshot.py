"""An old snapshot is held open (a backup, a forgotten transaction) while many messages pass.

Receives stay as cheap as before, and nothing that comes back behind a head mark is lost: see
sql/place/set_head_marks.sql.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import psycopg
import pytest

import turnabout
from tests.postgres.probe import Connection, Touched, answered, touched
from tests.support.doors import START
from tests.support.postgres import migrated_url, only_newest

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300), only_newest]

PASSED = 10_000
LEASES = 600  # so many dead ones that the bound of timers moves


url = migrated_url


@contextmanager
def snapshot(url: str) -> Iterator[Connection]:
    """A transaction that sees the database as it is now, so that vacuum may remove nothing."""
    with psycopg.connect(url) as connection:
        connection.execute("set transaction isolation level repeatable read")
        connection.execute("select count(*) from turnabout.message")
        yield connection
        connection.rollback()


Look = Callable[..., Touched]
"""`touched`, or `answered` where nobody asks what it was: to look takes longer than to receive."""


class Passing:
    """A session that sends and works off, and notes what its receives touch."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.connection: Connection = psycopg.connect(url, autocommit=True)
        self.now = START
        self.turn: str | None = None

    def ask(self, sql: str, *parameters: Any) -> Any:
        """The first value of the first row."""
        row = self.connection.execute(sql, parameters).fetchone()
        assert row is not None
        return row[0]

    def send(self, count: int, channels: int = 1, **more: Any) -> list[int]:
        ids: list[int] = []
        for start in range(0, count, 1000):
            numbers = range(start, min(start + 1000, count))
            ids += self.ask(
                "select ids from turnabout.send('q', %s::bytea[], channels => %s,"
                " priorities => %s::smallint[], delays => %s, now_ms => %s)",
                [b"%d" % n for n in numbers],
                [f"c{n % channels:03}" for n in numbers],
                [more.get("priority", 0)] * len(numbers),
                [more["delay"]] * len(numbers) if "delay" in more else None,
                self.now,
            )
        return ids

    def receive(self, most: int = 100, lease_ms: int = 30_000, look: Look = touched) -> Touched:
        seen = look(
            self.connection,
            "select id, attempt, channel, lease from turnabout.receive('q', %s, %s, turn => %s,"
            " now_ms => %s) where id is not null",
            [most, lease_ms, self.turn, self.now],
        )
        if seen.rows:
            self.turn = max(row[2] for row in seen.rows)
        return seen

    def ack(self, seen: Touched) -> None:
        ids, attempts, leases = receipts(seen)
        lost = self.ask(
            "select turnabout.ack('q', %s, %s, %s, leases => %s)", ids, attempts, self.now, leases
        )
        assert lost is None

    def work_off(self, count: int, most: int = 100, look: Look = touched) -> list[Touched]:
        """Receive and ack that many; what each receive touched."""
        noted = []
        while count > 0:
            seen = self.receive(min(most, count), look=look)
            assert seen.rows, f"stranded: {count} are still there"
            self.ack(seen)
            count -= len(seen.rows)
            noted.append(seen)
        return noted

    def drained(self) -> list[int]:
        """The ids of all that is handed out now, and acked."""
        ids: list[int] = []
        while (seen := self.receive(look=answered)).rows:
            self.ack(seen)
            ids += [row[0] for row in seen.rows]
        return ids

    def maintain(self) -> None:
        self.connection.execute("select turnabout.maintain('q', %s)", [self.now])

    def timers_since(self) -> int:
        return self.ask("select timers_since from turnabout.queue where name = 'q'")

    def head_marks(self) -> int:
        return self.ask("select count(*) from turnabout.ready where id < 0")


@pytest.fixture
def passing(url) -> Iterator[Passing]:
    passing = Passing(url)
    passing.ask("select turnabout.queue_create('q', '{\"backoff_jitter_percent\": 0}')")
    yield passing
    passing.connection.close()


@pytest.fixture
def other(url) -> Iterator[Passing]:
    """One more session."""
    other = Passing(url)
    yield other
    other.connection.close()


@pytest.fixture
def old(url, passing) -> Iterator[Connection]:
    """The snapshot, taken before anything passes."""
    with snapshot(url) as connection:
        yield connection


def receipts(seen: Touched) -> tuple[list[int], list[int], list[int]]:
    """Ids, attempts and leases of what was received."""
    return [r[0] for r in seen.rows], [r[1] for r in seen.rows], [r[3] for r in seen.rows]


def timers(seen: Touched) -> int:
    return seen.entries_of("scheduled_due") + seen.entries_of("lease_due")


def entries(noted: list[Touched]) -> int:
    return max(seen.entries_of("ready_line") for seen in noted)


# --- the cost ------------------------------------------------------------------------------------


@pytest.mark.share(2)
@pytest.mark.parametrize(
    ("channels", "most", "passed", "bound"),
    [
        (1, 100, PASSED, 4_000),
        (1, 10, 8_000, 1_500),
        (1, 1, 1_000, 400),
        (50, 100, 2 * PASSED, 8_000),
        pytest.param(50, 10, 2 * PASSED, 3_000, marks=pytest.mark.long),
    ],
)
def test_a_receive_reads_few_entries_however_many_have_passed(  # noqa: PLR0917  (parameters)
    passing, old, channels, most, passed, bound
):
    """The bound is far below what there is to read without head marks: all that has passed."""
    passing.send(passed + 500, channels)
    noted = passing.work_off(passed, most)
    assert passing.head_marks() > 0
    first, last = entries(noted[: len(noted) // 2]), entries(noted[len(noted) // 2 :])
    assert max(first, last) <= bound, f"{first} {last} {max(noted, key=lambda s: s.entries)}"
    assert last <= first * 1.5 + 200, f"it grows with what has passed: {first}, then {last}"


def test_many_senders_small_passes_and_an_empty_queue(passing, old):
    """A queue that is nearly always empty leaves dead entries, too, in front of nothing at all."""
    noted = []
    for _ in range(150):
        passing.send(20, 2)
        noted += passing.work_off(20, 10)
        assert passing.receive().rows == []
    assert entries(noted) <= 3_000
    empty = passing.receive()
    assert empty.rows == []
    assert empty.entries_of("ready_line") <= 20_000


@pytest.mark.parametrize(("channels", "most"), [(1, 1), (1, 10), (10, 10), (10, 100)])
def test_a_queue_that_is_drained_as_it_fills(passing, old, channels, most):
    """Each receive leaves nothing behind that a head mark could point at."""
    noted, empty = [], []
    for _ in range(3):
        for _ in range(10):
            passing.send(200, channels)
            passing.work_off(200, 200, look=answered)
        passing.send(most, channels)
        noted += passing.work_off(most, most)
        empty.append(passing.receive())
    assert entries(noted) <= 2_500, str(noted[-1])
    assert entries(empty) <= 8_000, str(empty[-1])


def test_idle_channels_keep_nobody_from_the_others(passing, old):
    """Each has its head mark, and its share of the batch goes to those that have something."""
    passing.send(15_000, 150)
    passing.work_off(15_000, look=answered)
    assert passing.head_marks() > 100
    sent = passing.send(10)
    with turnabout.connect(passing.url) as mq:
        got = mq.queue("q").receive(10)
    assert sorted(message.id for message in got) == sent


def test_head_marks_of_idle_channels_go(passing, old):
    passing.send(70_000, 1_000)
    passing.work_off(70_000, 1_000, look=answered)
    before = passing.head_marks()
    for _ in range(20):
        passing.maintain()
    assert passing.head_marks() < before / 2


def test_an_open_receive_holds_nobody_up(passing, other):
    """It is an old snapshot and, at the head of its channel, a live row that nobody can take."""
    passing.send(PASSED + 500)
    other.connection.execute("begin")
    assert len(other.receive(1).rows) == 1
    noted = passing.work_off(PASSED)
    assert entries(noted) <= 5_000, str(noted[-1])


@pytest.mark.share(1)
@pytest.mark.parametrize("when", ["due", "lease"])
def test_timers_that_have_passed_are_not_read_again(passing, old, when):
    """Leases and delays leave dead entries in the index of timers; `maintain` moves the bound."""
    passed = 2 * PASSED if when == "due" else 2_000
    if when == "lease":
        passing.send(passed)
        # Each had a lease that would have run out by now.
        passing.work_off(passed, 1, look=answered)
        passing.now += 60_000
    else:
        passing.send(passed, delay=1_000)
        passing.now += 2_000
        for _ in range(3):
            passing.maintain()  # it makes ten thousand ready
        passing.work_off(passed, look=answered)
        passing.now += 60_000
    passing.send(50)
    control = passing.receive(1)
    assert timers(control) > passed * 0.5, "the snapshot held nothing back"
    passing.ack(control)
    passing.maintain()
    assert passing.timers_since() > START
    passing.connection.execute("analyze turnabout.lease, turnabout.scheduled")  # plans anew
    seen = passing.receive(1)
    assert len(seen.rows) == 1
    assert timers(seen) <= 200, str(seen)


# --- what comes back -----------------------------------------------------------------------------


def beyond(passing: Passing, channels: int = 1, count: int = 3_000) -> None:
    """Let many pass, so that head marks lie far beyond the messages that the test has in hand."""
    passing.send(count + 200, channels)
    passing.work_off(count, look=answered)
    assert passing.head_marks() > 0


@pytest.mark.share(4)
@pytest.mark.parametrize("channels", [1, 50])
@pytest.mark.parametrize("how", ["release", "fail", "defer", "lease"])
def test_what_is_given_back_is_found_at_once(passing, old, channels, how):
    mine = passing.send(100, channels)
    held = passing.receive(100, lease_ms=10_000)
    ids, attempts, leases = receipts(held)
    assert set(ids) == set(mine)
    beyond(passing, channels)
    n = len(ids)
    more: dict[str, list[Any]] = {"fail": [["e"] * n, [True] * n, [0] * n]}
    more |= {"release": [], "defer": [[0] * n, [None] * n]}
    if how == "lease":
        passing.now += 10_000
    else:
        marks = ", ".join(["%s"] * (3 + len(more[how])))
        statement = f"select count(*) from turnabout.{how}('q', {marks}, leases => %s)"
        passing.ask(statement, ids, attempts, *more[how], passing.now, leases)
    got = passing.drained()
    assert set(ids) <= set(got), f"stranded: {len(set(ids) - set(got))} of {n}"
    assert passing.ask("select count(*) from turnabout.ready where id > 0") == 0


def test_what_is_given_back_one_by_one_in_falling_order_is_found(passing, old):
    """Each lower than the last: each time the newest mark hides it."""
    mine = passing.send(30)
    held = passing.receive(30)
    assert [row[0] for row in held.rows]
    beyond(passing)
    for number in reversed(mine):
        passing.ask(
            "select count(*) from turnabout.release('q', %s, %s, %s)", [number], [1], passing.now
        )
        (row,) = passing.receive(1).rows
        assert row[0] == number, "the first of the channel comes first"


@pytest.mark.share(3)
@pytest.mark.parametrize("priority", [-1, 0, 1])
@pytest.mark.parametrize("channels", [1, 50])
def test_a_producer_that_commits_late_is_heard(passing, other, old, channels, priority):
    late = other
    with late.connection.transaction():
        ids = late.send(60, channels, priority=priority)
        beyond(passing, channels)
    got = passing.drained()
    passing.maintain()
    got += passing.drained()
    assert set(ids) <= set(got)
    assert passing.ask("select count(*) from turnabout.message") == 0


@pytest.mark.parametrize("channels", [1, 10])
def test_a_late_commit_to_a_drained_queue_is_heard(passing, other, old, channels):
    """It lies below the head marks, and nobody is told again: receivers have to ask again."""
    with other.connection.transaction():
        late = other.send(10, channels)
        for _ in range(20):
            passing.send(200, channels)
            passing.work_off(200, 200, look=answered)
        assert passing.head_marks() >= channels
    again = "select at from turnabout.receive('q', 10, now_ms => %s) where id is null"
    assert passing.ask(again, passing.now) == 1_000
    passing.maintain()
    assert set(late) <= set(passing.drained())


def test_two_that_set_head_marks_hide_nothing_from_each_other(passing, other, old):
    """Each looks at the same head, which nobody leases, and holds nothing of it."""
    passing.send(100)
    taken = receipts(passing.receive())[0]
    sent = passing.send(3)
    lay = "select turnabout.set_head_marks(id, %s) from turnabout.queue where name = 'q'"
    with other.connection.transaction():
        other.ask(lay, taken)
        passing.ask(lay, taken)
        assert passing.head_marks() > 0
        assert [row[0] for row in passing.receive(3).rows] == sent


@pytest.mark.share(2)
@pytest.mark.parametrize("channels", [1, 50])
@pytest.mark.parametrize("how", ["rolled back", "killed"])
def test_what_an_open_receive_held_is_found_when_it_ends_badly(passing, other, old, channels, how):
    beyond(passing, channels)
    other.connection.execute("begin")
    ids = [row[0] for row in other.receive(100).rows]
    assert len(ids) == 100
    passing.send(3_000, channels)
    passing.work_off(3_000, look=answered)
    if how == "rolled back":
        other.connection.execute("rollback")
    else:
        passing.ask("select pg_terminate_backend(%s, 5000)", other.connection.info.backend_pid)
    got = passing.drained()
    for _ in range(3):
        passing.maintain()
        got += passing.drained()
    assert set(ids) <= set(got)


@pytest.mark.parametrize("late", ["delayed", "leased"])
def test_what_is_due_behind_the_timers_bound_is_found(passing, other, old, late):
    """It was committed, or given back its lease, after the bound had moved past its time."""
    passing.send(2_000)
    with other.connection.transaction():
        is_new = late == "delayed"
        ids = other.send(10, delay=500) if is_new else receipts(other.receive(10, 500))[0]
        passing.work_off(LEASES, 1, look=answered)
        passing.now += 60_000
        passing.maintain()
        assert passing.timers_since() > START + 500
    got = passing.drained()
    passing.maintain()
    got += passing.drained()
    assert set(ids) <= set(got)


def test_when_the_snapshot_ends_bound_and_head_marks_go(url, passing):
    with snapshot(url):
        passing.send(3_200 + LEASES, 3)
        passing.work_off(3_000, look=answered)
        passing.work_off(LEASES, 1, look=answered)
        passing.now += 60_000
        passing.maintain()
        passing.maintain()
        assert passing.timers_since() > START
        assert passing.head_marks() > 0
    for table in ("ready", "scheduled", "lease"):
        passing.connection.execute(f"vacuum turnabout.{table}")
    passing.maintain()
    assert passing.timers_since() == 0
    for _ in range(1_000):  # each time some of them
        if passing.head_marks() == 0:
            break
        passing.maintain()
    assert passing.head_marks() == 0
    assert len(passing.drained()) == 200


# --- who must not see them -----------------------------------------------------------------------


def test_nobody_counts_or_shows_a_head_mark(passing, old):
    beyond(passing, 4)
    passing.drained()
    assert passing.head_marks() > 0
    left = passing.send(8, 4, delay=5_000)
    stats = passing.connection.execute(
        "select scheduled, ready, leased, oldest_ready_ms from turnabout.stats('q', %s)",
        [passing.now],
    ).fetchone()
    assert stats == (8, 0, 0, None)
    shown = passing.connection.execute(
        "select id from turnabout.peek('q', 1000, after_id => -9999999)"
    )
    assert [number for (number,) in shown if number > 0] == left
    channels = passing.connection.execute(
        "select channel, scheduled, ready from turnabout.stats_of_channels('q', 100, %s)",
        [passing.now],
    ).fetchall()
    assert channels == [(f"c{n:03}", 2, 0) for n in range(4)]
    assert (
        passing.ask("select turnabout.purge('q', state => 'ready', now_ms => %s)", passing.now) == 0
    )
    assert passing.ask("select turnabout.purge('q', now_ms => %s)", passing.now) == 8
    assert passing.ask("select count(*) from turnabout.history where id < 0") == 0
    assert passing.head_marks() > 0
    passing.send(3, 1, delay=5_000)
    assert passing.ask("select turnabout.queue_delete('q')") == 3
    assert passing.ask("select count(*) from turnabout.message") == 0


def test_max_size_does_not_count_them(passing, old):
    beyond(passing)
    passing.drained()
    assert passing.head_marks() > 0
    passing.ask("select turnabout.policy_set('q', 'c000', '{\"max_size\": 2}')")
    assert len(passing.send(2)) == 2
    size = passing.ask("select size from turnabout.send('q', '{x}', channels => '{c000}')")
    assert size == 2


@pytest.mark.parametrize("how", ["policy", "default", "shard"])
def test_messages_behind_head_marks_are_found_by_every_way(passing, old, how):
    """Limits and shards go other ways through the same index."""
    beyond(passing, 3)
    if how == "shard":
        rows = passing.connection.execute(
            "select s, r.* from generate_series(0, 1) s,"
            " turnabout.receive('q', 300, shard => s, shards => 2, now_ms => %s) r",
            [passing.now],
        ).fetchall()
        assert sum(row[4] is not None and row[5] is not None for row in rows) == 200
        return
    if how == "policy":
        for n in range(3):
            passing.ask(
                "select turnabout.policy_set('q', %s, '{\"max_concurrency\": 500}')", f"c{n:03}"
            )
    else:
        passing.ask(
            "select count(*) from turnabout.queue_update('q', '{\"max_concurrency\": 500}')"
        )
    assert len(passing.drained()) == 200
    empty = passing.connection.execute(
        "select id, at from turnabout.receive('q', 10, now_ms => %s)", [passing.now]
    ).fetchall()
    assert empty == [(None, None)], "a head mark is nothing to wait for"
