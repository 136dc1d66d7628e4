"""More staged interleavings, in plain SQL on both sides, each session with an alarm of two seconds.

`races/test_staged.py` stages the library against an open transaction; here both sides are
somebody's own transactions that call the SQL functions among other work, as producers and workers
do that keep their data in the same database.
"""

import itertools
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import psycopg
import pytest

from tests.support.doors import START
from tests.support.postgres import one_migrated_url

pytestmark = pytest.mark.slow  # a database for each

Connection = psycopg.Connection[Any]
Receipt = tuple[int, int, int]

numbers = itertools.count(1)
KINDS = {
    "plain": "{}",
    "fifo": '{"fifo": true}',
    "max_concurrency": '{"max_concurrency": 50}',
    "rate": '{"rate_count": 1000, "rate_period_ms": 1000, "rate_burst": 100,'
    ' "rate_interval_us": 1000}',
    "max_size": '{"max_size": 50}',
}


url = one_migrated_url


class Session:
    """A connection with a transaction that ends when the test says so, and what it may ask for."""

    def __init__(self, url: str, queue: str) -> None:
        self.connection: Connection = psycopg.connect(url)
        self.connection.execute("set statement_timeout = '8s'")
        self.connection.commit()
        self.queue = queue
        self.commit, self.rollback = self.connection.commit, self.connection.rollback

    def ask(self, sql: str, *parameters: Any) -> list[tuple[Any, ...]]:
        return self.connection.execute(sql, parameters).fetchall()

    def send(self, *texts: str, channel: str = "") -> list[int] | None:
        """The ids; None if the channel is full."""
        ((ids,),) = self.ask(
            "select ids from turnabout.send(%s, %s::bytea[], channels => %s, now_ms => %s)",
            self.queue,
            [t.encode() for t in texts],
            [channel] * len(texts),
            START,
        )
        return ids

    def receive(self, most: int = 10, now: int | None = START) -> dict[str, Receipt]:
        """Receipts by payload. Without `now` by the server's clock."""
        rows = self.ask(
            "select payload, id, attempt, lease from turnabout.receive(%s, %s, now_ms => %s)"
            " where id is not null",
            self.queue,
            most,
            now,
        )
        return {payload.decode(): tuple(receipt) for payload, *receipt in rows}

    def retry_after(self, now: int = START) -> int | None:
        ((number, at),) = self.ask(
            "select id, at from turnabout.receive(%s, 1, now_ms => %s)", self.queue, now
        )
        assert number is None
        return at

    def settle(self, verb: str, receipts: list[Receipt]) -> list[str | None]:
        """Per receipt None if it was settled, else what the message is now."""
        ids, attempts, leases = ([r[i] for r in receipts] for i in range(3))
        n = len(receipts)
        given = (self.queue, ids, attempts, START, leases)
        if verb == "ack":
            ((lost,),) = self.ask("select turnabout.ack(%s, %s, %s, %s, leases => %s)", *given)
            return [None] * n if lost is None else lost
        if verb == "release":
            of = "turnabout.release(%s, %s, %s, %s, leases => %s)"
            told = dict(self.ask(f"select nr, now from {of}", *given))
            return [told.get(number + 1) for number in range(n)]
        more = {
            "defer": ("delays => %s, states => %s", [[0] * n, [b"s"] * n]),
            "fail": ("errors => %s, retries => %s, delays => %s", [["e"] * n, [True] * n, [0] * n]),
            "refuse": (
                "errors => %s, retries => %s, delays => %s",
                [["e"] * n, [False] * n, [0] * n],
            ),
            "extend": ("lease_ms => %s", [60_000]),
        }[verb]
        name = "fail" if verb == "refuse" else verb
        now = "case when outcome = 'lost' then what end" if name == "fail" else "now"
        rows = self.ask(
            f"select {now} from turnabout.{name}(%s, %s, %s, {more[0]}, now_ms => %s,"
            " leases => %s) order by nr",
            self.queue,
            ids,
            attempts,
            *more[1],
            START,
            leases,
        )
        return [now for (now,) in rows]

    def counts(self) -> tuple[Any, ...]:
        """Everything that stats tells, and what is in the tables behind it."""
        (stats,) = self.ask("select * from turnabout.stats(%s, %s)", self.queue, START)
        (behind,) = self.ask(
            "select (select count(*) from turnabout.history),"
            " (select count(*) from turnabout.wake),"
            " (select md5(string_agg(m::text, '|' order by m.id)) from turnabout.message m),"
            " (select md5(string_agg(p, '|' order by p)) from ("
            "select r::text from turnabout.ready r"
            " union all select s::text from turnabout.scheduled s"
            " union all select l::text from turnabout.lease l"
            " union all select t::text from turnabout.slot t) p (p))"
        )
        self.rollback()
        return (*stats, *behind)


Open = Callable[[], Session]


@pytest.fixture
def open_session(url) -> Iterator[Open]:
    """Sessions over one queue of this test."""
    queue = f"meeting{next(numbers)}"
    with ExitStack() as stack:

        def make() -> Session:
            session = Session(url, queue)
            stack.callback(session.connection.close)
            return session

        yield make


@pytest.fixture
def plain(open_session) -> Open:
    create(open_session(), "{}")
    return open_session


@pytest.fixture(params=KINDS)
def of_each_kind(request, open_session) -> Open:
    create(open_session(), KINDS[request.param])
    return open_session


def create(session: Session, settings: str) -> None:
    session.ask("select turnabout.queue_create(%s, %s::jsonb, %s)", session.queue, settings, START)
    session.commit()


@contextmanager
def beside(action: Callable[[], Any]) -> Iterator[list[Any]]:
    """The action in a thread; at the end it has ended, and its answer or error is in the list."""
    answers: list[Any] = []

    def run() -> None:
        try:
            answers.append(action())
        except Exception as error:  # noqa: BLE001 (for the test to look at)
            answers.append(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    yield answers
    thread.join(15)
    assert answers, "still waiting"


# --- an open producer ----------------------------------------------------------------------------


# --- beside others that receive ------------------------------------------------------------------


def test_a_bucket_s_clock_is_read_while_the_channel_is_held(open_session):
    """Who waits on the way there must not reckon with the time at which the call began."""
    holder, late = open_session(), open_session()
    create(holder, KINDS["rate"])
    holder.send("x", channel="a")
    holder.commit()
    holder.connection.execute("lock table turnabout.channel")
    with beside(lambda: (late.receive(now=None), late.commit())[0]) as got:
        waits = "select 1 from pg_locks where not granted and pid = %s"
        while not holder.ask(waits, late.connection.info.backend_pid):
            assert not got, got
        ((now,),) = holder.ask("select turnabout.clock_ms() from pg_sleep(0.002)")
        holder.commit()
    lease = got[0]["x"][2]
    begun = holder.ask("select leased_at >= %s from turnabout.lease where id = %s", now, lease)
    assert begun == [(True,)]


def test_weights_hold_beside_an_open_receive(plain):
    """A weight alone locks nobody out of its channel."""
    first, one, two = plain(), plain(), plain()
    first.ask("select turnabout.policy_set(%s, 'a', '{\"weight\": 3}')", first.queue)
    for channel in "ab":
        first.send(*(f"{channel}{n}" for n in range(20)), channel=channel)
    for session in (first, one, two):
        assert sorted(text[0] for text in session.receive(8)) == list("aaaaaabb")
        first.commit()


# --- in opposite orders --------------------------------------------------------------------------

VERBS = ("ack", "release", "defer", "fail", "refuse", "extend")


@pytest.mark.parametrize("verb", VERBS)
def test_two_settle_the_same_batch_in_opposite_orders_at_once(plain, verb):
    """One statement each, over and over: row locks inside it are taken in any order, too."""
    one, two = plain(), plain()
    settled = 0
    for _ in range(10):
        one.send(*(f"{n}" for n in range(40)))
        one.commit()
        receipts = sorted(one.receive(100).values())
        one.commit()
        go = threading.Barrier(2)

        def settle(session: Session, mine: list[Receipt], go: Any = go) -> list[str | None]:
            go.wait()
            answer = session.settle(verb, mine)
            session.commit()
            return answer

        with beside(lambda r=receipts, s=settle: s(one, r)) as ones:
            twos = settle(two, receipts[::-1])
        assert isinstance(ones[0], list), ones[0]
        assert len(ones[0]) == len(twos) == len(receipts)
        both = [a is None and b is None for a, b in zip(ones[0], reversed(twos), strict=True)]
        assert verb == "extend" or not any(both), "settled twice"
        settled += sum(a is None for a in [*ones[0], *twos])
    assert settled > 0


@pytest.mark.parametrize("verb", VERBS)
def test_many_that_have_not_written_settle_overlapping_batches(plain, verb):
    """In autocommit, where an ack may wait for a row: batches that overlap crosswise all end."""
    one = plain()
    one.send(*(f"{n}" for n in range(90)))
    one.commit()
    receipts = sorted(one.receive(100).values())
    one.commit()
    sessions = [plain() for _ in range(3)]
    parts = [receipts[:60], receipts[30:][::-1], receipts[60:] + receipts[:30]]
    with ExitStack() as stack:
        answers = [
            stack.enter_context(beside(lambda s=s, p=p: (s.settle(verb, p), s.commit())[0]))
            for s, p in zip(sessions, parts, strict=True)
        ]
    assert all(isinstance(a[0], list) for a in answers), answers
    if verb in ("ack", "refuse"):
        settled = sum(now is None for a in answers for now in a[0])
        assert settled <= 90
        assert one.counts()[5 if verb == "ack" else 6] == settled


# --- undone --------------------------------------------------------------------------------------


def test_send_and_settle_rolled_back_leave_everything_as_it_was(of_each_kind):
    session, other = of_each_kind(), of_each_kind()
    for channel in "abcdef":
        session.send(f"{channel}1", f"{channel}2", channel=channel)
    session.commit()
    got = {**session.receive(5), **session.receive(5), **session.receive(5)}
    session.commit()
    assert len(got) >= 5
    before = other.counts()
    receipts = list(got.values())
    for verb, receipt in zip(("ack", "defer", "fail", "refuse", "release"), receipts, strict=False):
        assert session.settle(verb, [receipt]) == [None]
    session.send("new", channel="a")
    session.ask("select turnabout.policy_set(%s, 'a', '{\"paused\": true}')", session.queue)
    session.receive()
    session.ask("select turnabout.purge(%s)", session.queue)
    session.ask("select turnabout.maintain(%s, %s)", session.queue, START)
    session.rollback()
    assert other.counts() == before
    assert other.settle("ack", receipts) == [None] * len(receipts)


# --- receivers -----------------------------------------------------------------------------------


@pytest.mark.parametrize("most", [1, 10])
def test_when_all_that_is_ready_is_held_the_answer_is_not_forever(of_each_kind, most):
    """It may come back at any moment, so `only a send can help` would be wrong."""
    holder, other = of_each_kind(), of_each_kind()
    holder.send("x", channel="a")
    holder.commit()
    assert list(holder.receive(most)) == ["x"]
    at = other.retry_after()
    other.commit()
    assert at is not None, "what the other gives back would be slept over"
    holder.rollback()
    assert list(other.receive(most)) == ["x"]


# --- a row that another has acked ----------------------------------------------------------------


# --- max_size ------------------------------------------------------------------------------------


def test_concurrent_senders_pass_max_size_by_what_they_have_open_and_no_more(open_session):
    create(open_session(), '{"max_size": 3}')
    one, two, three = open_session(), open_session(), open_session()
    assert one.send("1", "2", channel="a")
    assert two.send("3", "4", "5", channel="a"), "it does not wait, nor see what is not committed"
    assert one.send("6", "7", channel="a") is None, "its own are counted"
    one.commit()
    two.commit()
    assert three.send("8", channel="a") is None
    assert three.send("8", channel="b")
    ((size,),) = three.ask(
        "select size from turnabout.send(%s, '{x}', channels => '{a}')", three.queue
    )
    assert size == 3, "the count stops at the limit"
    three.commit()
    for _ in range(2):
        got = three.receive(5)
        three.settle("ack", [receipt for text, receipt in got.items() if text != "8"])
        three.commit()
    assert three.send("9", "10", "11", channel="a"), "all five were there, and are gone"
    assert three.send("12", channel="a") is None
