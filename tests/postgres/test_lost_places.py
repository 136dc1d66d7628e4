"""The unlogged tables are lost, in each way that there is: everything gets its place again.

A crash, an immediate stop, a promoted replica, and backups by PostgreSQL's own programs, with and
without unlogged tables. Nothing is lost or charged, and receipts of before are refused.
"""

import contextlib
import json
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from importlib.util import find_spec
from typing import Any

import psycopg
import pytest
from click.testing import CliRunner

import turnabout
from tests.conformance.steps import is_empty, maintained, run, sent, texts
from tests.races.stage import soon
from tests.support.doors import migrate
from tests.support.postgres import GIVEN, own_server, program, programs_folder
from turnabout import Acked, Disconnected, LeaseLost, Policy
from turnabout.cli import main

pytestmark = [
    pytest.mark.slow,
    pytest.mark.real_time,
    pytest.mark.skipif(GIVEN is not None, reason="a given server is not ours to stop"),
]

SETTINGS = {"synchronous_commit": "on", "full_page_writes": "on", "max_prepared_transactions": "5"}


@pytest.fixture(scope="module")
def server() -> Iterator[Any]:
    with own_server(settings=SETTINGS) as server:
        server.create_database("empty")
        migrate(server.url("empty"))
        yield server


@pytest.fixture
def name(server, request) -> str:
    """A database of the test's own."""
    name = f"app{abs(hash(request.node.nodeid))}"
    server.create_database(name, "empty")
    return name


# --- ways to lose them ---


@contextlib.contextmanager
def killed(server: Any, name: str, after: Callable[[], None]) -> Iterator[str]:
    after()
    server.kill()
    server.start()
    yield server.url(name)


@contextlib.contextmanager
def stopped(server: Any, name: str, after: Callable[[], None]) -> Iterator[str]:
    after()
    server.restart("immediate")
    yield server.url(name)


@contextlib.contextmanager
def _copied(server: Any, *words: str) -> Iterator[Any]:
    """A server on a base backup, not started yet."""
    with programs_folder() as folder:
        data = folder / "data"
        program(server, "pg_basebackup", "-D", str(data), "-d", server.url(), "-c", "fast", *words)
        with own_server(data=data, settings=SETTINGS) as copy:
            yield copy


@contextlib.contextmanager
def promoted(server: Any, name: str, after: Callable[[], None]) -> Iterator[str]:
    with _copied(server, "-R") as replica:
        after()
        replica.psql("select pg_promote()")
        yield replica.url(name)


@contextlib.contextmanager
def backed_up(server: Any, name: str, after: Callable[[], None]) -> Iterator[str]:
    with _copied(server) as copy:
        after()
        yield copy.url(name)


def _restored(*words: str) -> Callable[..., AbstractContextManager[str]]:
    @contextlib.contextmanager
    def restored(server: Any, name: str, after: Callable[[], None]) -> Iterator[str]:
        with programs_folder() as folder:
            dump = str(folder / "dump")
            program(server, "pg_dump", "-Fc", "-f", dump, *words, "-d", server.url(name))
            after()
            server.create_database(f"{name}-restored")
            program(server, "pg_restore", "-d", server.url(f"{name}-restored"), dump)
        yield server.url(f"{name}-restored")

    return restored


WAYS = {
    "killed": killed,
    "stopped": stopped,
    "promoted": promoted,
    "base backup": backed_up,
    "dump": _restored(),
    "dump without unlogged": _restored("--no-unlogged-table-data"),
}


class Before:
    """Messages in all places, and receipts of those that are leased, kept from before."""

    def __init__(self, mq: Any, url: str) -> None:
        self.url = url
        queue = self.queue = mq.queue("app/q")
        queue.create(max_attempts=2)
        queue.channel("one").set_policy(Policy(max_concurrency=1))
        sent(queue, "leased", "unwanted", channel="a")
        self.held, unwanted = queue.receive(2)
        queue.cancel([unwanted.id])
        sent(queue, "in the slot", "behind it", channel="one")
        (self.in_slot,) = queue.receive(10)
        sent(queue, "ready", channel="b")
        sent(queue, "later", delay_seconds=3600)
        fifo = mq.queue("app/fifo")
        fifo.create(fifo=True)
        sent(fifo, "first", "second")
        (head,) = fifo.receive()
        head.defer(delay_seconds=3600)
        if find_spec("turnabout.pipeline") is not None:
            self.record(mq.queue("app/epochs"))

    def record(self, epochs: Any) -> None:
        """An epoch of a pipeline."""
        from turnabout.pipeline import verbs as p

        epochs.create()
        sent(epochs, "x", "y")
        self.lease = ("s", run(epochs, p.SubscriptionOpen("s", "me")).generation, (epochs.name,))
        assert run(epochs, p.EpochLease(*self.lease, 0, 10, 60_000)) == p.Leased(1, 2)

    def repeat(self, epochs: Any) -> None:
        """It has its messages, by their old receipts."""
        from turnabout.pipeline import verbs as p

        assert not epochs.receive(10)
        assert run(epochs, p.EpochLease(*self.lease, 0, 10, 60_000)) == p.Leased(1, 2)
        assert run(epochs, p.EpochLease(*self.lease, 1, 0, 60_000)).acked == 2

    def receive_more(self) -> None:
        """After the copy was made: leases that it doesn't know, more than a sequence logs ahead."""
        with psycopg.connect(self.url) as connection:
            connection.execute(
                "select nextval('turnabout.lease_number') from generate_series(1, 1000)"
            )
        (self.newer,) = self.queue.receive(10)
        assert self.newer.text() == "ready"


@pytest.mark.parametrize("way", WAYS)
def test_everything_has_its_place_again(server, name, way):
    with turnabout.connect(server.url(name)) as mq:
        before = Before(mq, server.url(name))
        with WAYS[way](server, name, before.receive_more) as url, turnabout.connect(url) as later:
            check(before, later, url)


def test_a_standby_says_what_it_is_and_its_connections_go(server, name):
    with turnabout.connect(server.url(name)) as mq:
        queue = mq.queue("app/q")
        queue.create()
        sent(queue, "x")
    with _copied(server, "-R") as replica, turnabout.connect(replica.url(name)) as mq:
        queue = mq.queue("app/q")
        for call in (queue.stats, queue.peek, queue.channels, mq.stats, lambda: queue.send("y")):
            with pytest.raises(Disconnected, match="as a standby is"):
                call()
            # A name that leads to the primary by now is asked anew.
            assert mq._store.measures()["connections_open"] == 0
        assert mq.queues()[0].name == "app/q"
        checks = json.loads(
            CliRunner().invoke(main, ["doctor", "--json", "--url", replica.url(name)]).stdout
        )["checks"]
        assert [c["name"] for c in checks if c["level"] == "fail"] == ["primary"]


def check(before: Before, later: Any, url: str) -> None:
    queue = later.queue("app/q")

    # What was leased or ready is ready, uncharged; the limit holds; who was to be cancelled is.
    got = queue.receive(10)
    assert sorted(texts(got)) == ["in the slot", "leased", "ready"]
    assert {(m.failures, m.crashes) for m in got} == {(0, 0)}
    assert min(m.receipt.lease for m in got) > before.newer.receipt.lease
    stats = queue.stats()
    assert (stats.scheduled, stats.ready, stats.leased, stats.cancelled) == (1, 1, 3, 1)

    # Receipts of before are refused, the very same message and attempt, too; new ones are good.
    for held in (before.held, before.in_slot, before.newer):
        receipts = [m.receipt for m in got if m.id == held.id]
        assert isinstance(queue.ack([held.receipt])[0], LeaseLost)
        assert isinstance(queue.ack([held.receipt._replace(lease=0)])[0], LeaseLost)
        assert isinstance(queue.fail([turnabout.Failure(held.receipt, "no")])[0], LeaseLost)
        assert isinstance(queue.extend([held.receipt])[0], LeaseLost)
        assert list(queue.ack(receipts)) == [Acked()]
    (behind,) = queue.receive(10)
    assert behind.text() == "behind it"

    # A deferred head still holds its channel.
    assert not later.queue("app/fifo").receive(10)
    assert later.queue("app/fifo").stats().scheduled == 1

    if find_spec("turnabout.pipeline") is not None:
        before.repeat(later.queue("app/epochs"))

    with psycopg.connect(url) as connection:
        places = connection.execute(
            "select count(*), count(distinct id) from ("
            " select id from turnabout.ready where id > 0"
            " union all select id from turnabout.scheduled) p"
        ).fetchone()
        assert places == (3, 3)


@pytest.mark.parametrize("end", ["committed", "rolled back"])
def test_what_was_prepared_before_a_crash_has_its_place_when_it_ends(server, name, end):
    """The rebuild does not see what it will add, and leaves out what it has changed."""
    url = server.url(name)
    with turnabout.connect(url) as mq:
        queue = mq.queue("q")
        queue.create()
        sent(queue, "deferred", "ready")
        (held,) = queue.receive()
        with contextlib.closing(psycopg.connect(url)) as open_one:
            open_one.tpc_begin(open_one.xid(1, name, ""))
            queue.within(open_one).send("new")
            queue.within(open_one).defer([turnabout.Deferral(held.receipt, 60_000)])
            open_one.tpc_prepare()
    server.kill()
    server.start()
    with turnabout.connect(url) as mq, psycopg.connect(url) as connection:
        queue = mq.queue("q")
        assert texts(queue.receive(10)) == ["ready"]
        assert (queue.stats().ready, queue.stats().leased) == (1, 1), "it waits for its end"
        maintained(queue)
        (prepared,) = connection.tpc_recover()
        if end == "committed":
            connection.tpc_commit(prepared)
        else:
            connection.tpc_rollback(prepared)
        assert is_empty(queue)
        maintained(queue)
        assert texts(queue.receive(10)) == (["new"] if end == "committed" else ["deferred"])
        assert queue.stats().scheduled == (end == "committed")


def test_a_transaction_that_has_written_recovers_without_a_person(server, name):
    """It can't rebuild; what it acks is lost, and calls of ours precede its own."""
    url = server.url(name)
    with turnabout.connect(url) as mq:
        queue = mq.queue("q")
        queue.create()
        queue.channel("narrow").set_policy(Policy(max_concurrency=1))
        sent(queue, "first", "second", channel="narrow")
        (held,) = queue.receive()
        server.kill()
        server.start()
        with psycopg.connect(url) as business:
            business.execute("create table work (id int)")
            joined = queue.within(business)
            joined.send("more", channel="narrow")
            assert isinstance(joined.ack([held.receipt])[0], LeaseLost)
            assert texts(joined.receive(10)) == ["first"]
        assert queue.stats().leased == 1


def test_an_open_transaction_never_holds_the_rebuild(server, name):
    """It is done beforehand, in a transaction of the library's own; plain SQL is refused."""
    url = server.url(name)
    with turnabout.connect(url) as mq:
        mq.queue("small").create(policy=Policy(max_size=10))
        sent(mq.queue("q"), "x")
        server.kill()
        server.start()
        with psycopg.connect(url) as plain, pytest.raises(psycopg.Error, match="not rebuilt yet"):
            plain.execute("select turnabout.send('small', 'x')")
        with psycopg.connect(url) as business:
            mq.queue("small").within(business).send("y")
            with turnabout.connect(url) as other:
                assert texts(soon(other.queue("q").receive)) == ["x"]
                assert soon(other.queue("q").stats).leased == 1


def test_who_waits_for_a_rebuild_has_all_of_his_lease_and_leaves_no_session(server, name):
    url = server.url(name)
    with turnabout.connect(url) as mq:
        sent(mq.queue("q"), "x")
    server.kill()
    server.start()
    lock = "select pg_advisory_xact_lock(hashtextextended('turnabout.rebuild', 0))"
    waiting = "select count(*) from pg_stat_activity where wait_event = 'advisory'"
    with psycopg.connect(url) as slow, turnabout.connect(url) as mq:
        slow.execute(lock)
        with turnabout.connect(url + "&busy_seconds=0.1") as hasty, pytest.raises(turnabout.Busy):
            hasty.queue("q").receive()
        assert slow.execute(waiting).fetchone() == (0,)
        threading.Timer(1.2, slow.commit).start()
        (message,) = mq.queue("q").receive(lease_seconds=1)
        assert isinstance(message.ack(), Acked)


@pytest.mark.skipif(find_spec("turnabout.server") is None, reason="no server")
def test_a_server_waits_for_a_database_that_recovers(server, name):
    from turnabout.server.serve import prepare

    server.kill()
    with ThreadPoolExecutor(1) as pool:
        ready = pool.submit(prepare, server.url(name), migrate=True)
        time.sleep(0.6)
        assert not ready.done()
        server.start()
        ready.result(20)


def test_whatever_isolation_a_role_has_it_rebuilds_once(server, name):
    """A snapshot from before another's rebuild does not show it; places must not be given twice."""
    url = f"{server.url(name)}&options=-cdefault_transaction_isolation%3Dserializable"
    with turnabout.connect(url) as mq:
        queue = mq.queue("q")
        sent(queue, *map(str, range(100)))
    server.kill()
    server.start()
    got: list[str] = []
    busy: list[turnabout.Busy] = []

    def receive() -> None:
        with turnabout.connect(url) as mq:
            while len(got) + len(busy) < 200:
                try:
                    batch = mq.queue("q").receive(10)
                except turnabout.Busy as error:
                    busy.append(error)
                    continue
                got.extend(texts(batch))
                if not batch:
                    return

    threads = [threading.Thread(target=receive) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert sorted(got, key=int) == [str(n) for n in range(100)]


@pytest.mark.parametrize("is_made_again", [False, True])
def test_what_was_just_sent_to_a_deleted_queue(server, name, is_made_again):
    """A crash comes before anybody has swept it: it has its place in the queue that is gone."""
    with turnabout.connect(server.url(name)) as mq, psycopg.connect(server.url(name)) as sender:
        mq.queue("other").create()
        queue = mq.queue("q")
        queue.create()
        assert queue.within(sender).send("x")
        queue.delete()
        sender.commit()
    with killed(server, name, lambda: None) as url, turnabout.connect(url) as mq:
        queue = mq.queue("q")
        if is_made_again:
            queue.create()
            assert texts(queue.receive(10, wait_seconds=1)) == ["x"]
        maintained(mq.queue("other"))
        with psycopg.connect(url) as db:
            left = db.execute("select count(*) from turnabout.message").fetchone()
        assert left == (int(is_made_again),)
