"""The unlogged tables are lost, in each way that there is: everything gets its place again.

A crash, an immediate stop, a promoted replica, and backups by PostgreSQL's own programs, with and
without unlogged tables. Nothing is lost or charged, and receipts of before are refused.
"""

import contextlib
import tempfile
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import psycopg
import pytest

import turnabout
from tests.conformance.steps import run, sent, texts
from tests.support.doors import migrate
from tests.support.postgres import GIVEN
from turnabout import Acked, LeaseLost, Policy
from turnabout.dev.pgserver import PostgresServer
from turnabout.dev.pgserver._programs import runner
from turnabout.pipeline import verbs as p

pytestmark = [
    pytest.mark.slow,
    pytest.mark.real_time,
    pytest.mark.skipif(GIVEN is not None, reason="a given server is not ours to stop"),
]

SETTINGS = {"synchronous_commit": "on", "full_page_writes": "on", "max_prepared_transactions": "5"}


@pytest.fixture(scope="module")
def server() -> Iterator[PostgresServer]:
    with PostgresServer(18, settings=SETTINGS) as server:
        server.create_database("empty")
        migrate(server.url("empty"))
        yield server


@pytest.fixture
def name(server, request) -> str:
    """A database of the test's own."""
    name = f"app{abs(hash(request.node.nodeid))}"
    server.create_database(name, "empty")
    return name


def program(server: PostgresServer, name: str, *words: str) -> None:
    """Run one of PostgreSQL's programs, of the server's version, as the server's user."""
    done = runner().run(server.binaries / name, *words)
    assert done.returncode == 0, done.stderr


# --- ways to lose them ---


@contextlib.contextmanager
def killed(server: PostgresServer, name: str, after: Callable[[], None]) -> Iterator[str]:
    after()
    server.kill()
    server.start()
    yield server.url(name)


@contextlib.contextmanager
def stopped(server: PostgresServer, name: str, after: Callable[[], None]) -> Iterator[str]:
    after()
    server.restart("immediate")
    yield server.url(name)


@contextlib.contextmanager
def _copied(server: PostgresServer, *words: str) -> Iterator[PostgresServer]:
    """A server on a base backup, not started yet."""
    with tempfile.TemporaryDirectory(prefix="turnabout-copy-") as folder:
        runner().own(Path(folder))
        data = Path(folder) / "data"
        program(server, "pg_basebackup", "-D", str(data), "-d", server.url(), "-c", "fast", *words)
        with PostgresServer(18, data=data, settings=SETTINGS) as copy:
            yield copy


@contextlib.contextmanager
def promoted(server: PostgresServer, name: str, after: Callable[[], None]) -> Iterator[str]:
    with _copied(server, "-R") as replica:
        after()
        replica.psql("select pg_promote()")
        yield replica.url(name)


@contextlib.contextmanager
def backed_up(server: PostgresServer, name: str, after: Callable[[], None]) -> Iterator[str]:
    with _copied(server) as copy:
        after()
        yield copy.url(name)


def _restored(*words: str) -> Callable[..., AbstractContextManager[str]]:
    @contextlib.contextmanager
    def restored(server: PostgresServer, name: str, after: Callable[[], None]) -> Iterator[str]:
        with tempfile.TemporaryDirectory(prefix="turnabout-dump-") as folder:
            runner().own(Path(folder))
            dump = str(Path(folder) / "dump")
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

    def __init__(self, mq: Any) -> None:
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
        epochs = mq.queue("app/epochs")
        epochs.create()
        sent(epochs, "x", "y")
        self.lease = ("s", run(epochs, p.SubscriptionOpen("s", "me")).generation, ("app/epochs",))
        assert run(epochs, p.EpochLease(*self.lease, 0, 10, 60_000)) == p.Leased(1, 2)

    def receive_more(self) -> None:
        """After the copy was made: a lease that it doesn't know."""
        (self.newer,) = self.queue.receive(10)
        assert self.newer.text() == "ready"


@pytest.mark.parametrize("way", WAYS)
def test_everything_has_its_place_again(server, name, way):
    with turnabout.connect(server.url(name)) as mq:
        before = Before(mq)
        with (
            WAYS[way](server, name, before.receive_more) as url,
            turnabout.connect(url) as later,
        ):
            check(before, later, url)


def check(before: Before, later: Any, url: str) -> None:
    queue, epochs = later.queue("app/q"), later.queue("app/epochs")

    # What was leased or ready is ready, uncharged; the limit holds; who was to be cancelled is.
    got = queue.receive(10)
    assert sorted(texts(got)) == ["in the slot", "leased", "ready"]
    assert {(m.failures, m.crashes) for m in got} == {(0, 0)}
    stats = queue.stats()
    assert (stats.scheduled, stats.ready, stats.leased, stats.cancelled) == (1, 1, 3, 1)

    # Receipts of before are refused, the very same message and attempt, too; new ones are good.
    for held in (before.held, before.in_slot, before.newer):
        receipts = [m.receipt for m in got if m.id == held.id]
        assert isinstance(queue.ack([held.receipt])[0], LeaseLost)
        assert isinstance(queue.fail([turnabout.Failure(held.receipt, "no")])[0], LeaseLost)
        assert isinstance(queue.extend([held.receipt])[0], LeaseLost)
        assert list(queue.ack(receipts)) == [Acked()]
    (behind,) = queue.receive(10)
    assert behind.text() == "behind it"

    # A deferred head still holds its channel.
    assert not later.queue("app/fifo").receive(10)
    assert later.queue("app/fifo").stats().scheduled == 1

    # The recorded epoch has its messages, by their old receipts.
    assert not epochs.receive(10)
    assert run(epochs, p.EpochLease(*before.lease, 0, 10, 60_000)) == p.Leased(1, 2)
    assert run(epochs, p.EpochLease(*before.lease, 1, 0, 60_000)).acked == 2

    with psycopg.connect(url) as connection:
        places = connection.execute(
            "select count(*), count(distinct id) from ("
            " select id from turnabout.ready where id > 0"
            " union all select id from turnabout.scheduled) p"
        ).fetchone()
        assert places == (3, 3)
