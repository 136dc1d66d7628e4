"""A network that swallows everything, a read-only server, a pooler without any, several hosts.

Nothing here waits for a time to pass, but for the socket that gives up.
"""

import asyncio
from collections.abc import Iterator
from contextlib import suppress
from typing import Any
from urllib.parse import urlencode

import psycopg
import pytest

import turnabout
import turnabout.aio
from tests.postgres.test_url import and_also
from tests.support.network import NO_SERVER, READ_ONLY, Network, network_to, read_only
from tests.support.postgres import GIVEN, fresh_database, migrate, own_server
from tests.support.until import until
from turnabout import Disconnected, Sent, Uncertain
from turnabout.postgres._async.listener import AsyncListener
from turnabout.postgres._async.store import AsyncPostgresStore
from turnabout.postgres._sync.listener import Listener
from turnabout.postgres.errors import NoAnswer
from turnabout.postgres.notifier import ListeningNotifier
from turnabout.postgres.url import parse
from turnabout.words.verb import Change
from turnabout.worker import Worker

pytestmark = pytest.mark.slow

SOON = 0.02
"""How long a socket waits on which nothing can come."""
PATIENCE_SECONDS = 60.0


@pytest.fixture
def url(postgres_server) -> Iterator[str]:
    with fresh_database(postgres_server, fill=migrate) as url:
        with turnabout.connect(url) as mq:
            mq.queue("q").create()
        yield url


@pytest.fixture
def network(url) -> Iterator[Network]:
    with network_to(url) as network:
        yield network


def impatient(mq: Any) -> None:
    """Connections that are idle wait no longer."""
    for connection in mq.store._pool._idle:
        connection._socket.seconds = SOON


def listening(mq: Any) -> Any:
    """What listens for a store, when it does."""
    listener = mq.store._listener
    until(lambda: not mq.queue("q").receive(wait_seconds=0.05) and listener._is_listening)
    return listener


# --- a network that swallows everything ----------------------------------------------------------


@pytest.mark.parametrize("size", [1, 1 << 20], ids=["small", "larger than what a socket holds"])
def test_a_call_into_silence_ends(network, size):
    with turnabout.connect(network.url) as mq:
        queue = mq.queue("q")
        queue.send("x")
        network.fall_silent()
        impatient(mq)
        with pytest.raises(Uncertain, match="said nothing") as told:
            queue.send(b"x" * size)
        assert isinstance(told.value.__cause__, NoAnswer)
        network.speak_again()
        assert isinstance(queue.send("y"), Sent)


@pytest.mark.parametrize("size", [1, 1 << 20], ids=["small", "larger than what a socket holds"])
def test_a_call_into_silence_ends_on_a_loop_too(network, size):
    async def check() -> None:
        async with turnabout.aio.connect(network.url) as mq:
            queue = mq.queue("q")
            await queue.send("x")
            network.fall_silent()
            impatient(mq)
            with pytest.raises(Uncertain, match="said nothing"):
                await queue.send(b"x" * size)
            network.speak_again()
            assert isinstance(await queue.send("y"), Sent)

    asyncio.run(check())


def test_what_only_reads_and_gets_no_answer_may_be_repeated_and_no_other_idle_one_is_asked(network):
    with turnabout.connect(network.url) as mq:
        pool = mq.store._pool
        for connection in [pool.take() for _ in range(3)]:
            pool.put(connection)
        network.fall_silent()
        impatient(mq)
        with pytest.raises(Disconnected, match="said nothing"):
            mq.queue("q").stats()
        assert pool.measures()["connections_open"] == 0
        network.speak_again()
        assert mq.queue("q").stats().sent == 0


def test_nothing_answered_in_a_transaction_of_some_verbs_is_disconnected(network):
    with turnabout.connect(network.url) as mq:
        queue = mq.queue("q")
        queue.send("x")
        network.fall_silent()
        impatient(mq)
        with pytest.raises(Disconnected, match="said nothing"), mq.batch() as both:
            both.queue("q").send("y")
        network.speak_again()
        assert queue.stats().sent == 1


async def test_what_listens_is_opened_anew_where_a_poll_had_no_answer(monkeypatch) -> None:
    def silent(*_: Any) -> Any:
        raise NoAnswer("the server said nothing")

    monkeypatch.setattr(ListeningNotifier, "waited_for", lambda _: [("q", Change.READY)])
    options = parse("postgresql://u@127.0.0.1:1/db")
    with pytest.raises(NoAnswer):
        Listener(options, silent, silent)._poll()
    with pytest.raises(NoAnswer):
        await AsyncListener(options, silent, silent)._poll()


# --- a server that is read-only ------------------------------------------------------------------


def test_a_call_on_a_read_only_server_may_be_repeated_and_is_good_on_the_next(url):
    read_only(url, on=True)
    with turnabout.connect(url) as mq:
        queue = mq.queue("q")
        for call in (lambda: queue.send("x"), queue.receive, queue.purge):
            with pytest.raises(Disconnected, match="read-only") as told:
                call()
            assert told.value.retryable
        with pytest.raises(Disconnected, match="read-only"), mq.batch() as both:
            both.queue("q").send("x")
        assert queue.stats().sent == 0  # it may look
        read_only(url, on=False)
        assert isinstance(queue.send("x"), Sent)


def test_the_same_on_a_loop(url):
    async def check() -> None:
        async with turnabout.aio.connect(url) as mq:
            queue = mq.queue("q")
            with pytest.raises(Disconnected, match="read-only"):
                await queue.send("x")
            assert (await queue.stats()).sent == 0
            read_only(url, on=False)
            assert isinstance(await queue.send("x"), Sent)

    read_only(url, on=True)
    asyncio.run(check())


@pytest.mark.parametrize("in_transaction", [False, True])
def test_a_worker_waits_for_the_primary(url, in_transaction, caplog):
    async def check() -> None:
        worker = Worker(and_also(url, "poll_seconds=0.05"))
        began = asyncio.Event()

        @worker.handler("q", transaction=in_transaction)
        async def handle(*_: Any) -> None:
            if began.is_set():
                worker.stop()
            began.set()

        writable = and_also(url, f"options=-c{READ_ONLY}%3Doff")
        async with turnabout.aio.connect(writable) as mq:
            await mq.queue("q").send("x")
            working = asyncio.create_task(worker.run_async())
            await began.wait()
            read_only(url, on=True)
            with psycopg.connect(url) as db:
                db.execute(
                    "select pg_terminate_backend(pid) from pg_stat_activity"
                    " where datname = current_database() and pid <> pg_backend_pid()"
                )
            with suppress(Disconnected, Uncertain):  # its connection was ended, too
                await mq.queue("q").stats()
            await mq.queue("q").send("y")
            await asyncio.to_thread(until, lambda: "disconnected" in caplog.text or working.done())
            assert not working.done()
            read_only(url, on=False)
            assert (await working).handled

    asyncio.run(asyncio.wait_for(check(), PATIENCE_SECONDS))


# --- a pooler that has no server -----------------------------------------------------------------


@pytest.mark.parametrize(
    ("said", "meant"),
    [
        (NO_SERVER, Disconnected),
        (b"server login failed: FATAL the database system is starting up", Disconnected),
        (b"query_wait_timeout", Disconnected),
        (b"server conn crashed?", Uncertain),
        (b"query_timeout", Uncertain),
    ],
)
def test_what_a_pooler_says_instead_of_an_answer(network, said, meant):
    with turnabout.connect(network.url) as mq:
        queue = mq.queue("q")
        queue.send("x")
        network.refuse(said)
        with pytest.raises(meant):
            queue.send("y")
        network.refuse(None)
        assert isinstance(queue.send("y"), Sent)


# --- several addresses, and names ----------------------------------------------------------------


@pytest.mark.skipif(GIVEN is not None, reason="psycopg goes from one server of ours to another")
@pytest.mark.parametrize("both", [turnabout.connect, turnabout.aio.connect], ids=["", "a loop"])
def test_of_several_hosts_the_one_that_takes_writes_is_used(url, both):
    given = psycopg.conninfo.conninfo_to_dict(url)
    with own_server() as standby:
        other = psycopg.conninfo.conninfo_to_dict(standby.url())
        hosts = {name: f"{other[name]},{given[name]}" for name in ("host", "port")}
        standby.create_database(given["dbname"])
        read_only(standby.url(given["dbname"]), on=True)
        more = urlencode({**hosts, "target_session_attrs": "read-write"})
        several = f"postgresql://{given['user']}@/{given['dbname']}?{more}"
        if both is turnabout.connect:
            with turnabout.connect(several) as mq:
                assert isinstance(mq.queue("q").send("x"), Sent)
            return

        async def check() -> None:
            async with turnabout.aio.connect(several) as mq:
                assert isinstance(await mq.queue("q").send("x"), Sent)

        asyncio.run(check())


def test_each_connection_says_what_it_is_for(url):
    with turnabout.connect(url) as mq, psycopg.connect(url, application_name="somebody else") as db:
        listening(mq)
        with AsyncPostgresStore(url).connections().open():
            names = db.execute(
                "select distinct application_name from pg_stat_activity"
                " where datname = current_database()"
            ).fetchall()
    assert {name for (name,) in names} == {
        "somebody else",
        "turnabout",
        "turnabout listen",
        "turnabout worker",
    }


def test_a_handler_s_connection_is_kept_until_the_server_hangs_up(url):
    connections = AsyncPostgresStore(url).connections()
    first = connections.open()
    connections.put_back(first, keep=True)
    assert connections.open() is first
    connections.put_back(first, keep=True)
    with psycopg.connect(url) as db:
        db.execute("select pg_terminate_backend(%s, 10000)", (first.info.backend_pid,))
    second = connections.open()
    assert second is not first
    assert first.closed
    connections.put_back(second, keep=True)
    connections.close()
    assert second.closed
