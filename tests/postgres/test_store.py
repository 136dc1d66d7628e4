"""The store on PostgreSQL when things go wrong around it: threads, connections, servers, forks."""

import asyncio
import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

import psycopg
import pytest

import turnabout
import turnabout.aio
from tests.postgres.asking import ask, eventually
from tests.postgres.test_url import and_also
from tests.support.doors import blocking, migrate
from tests.support.postgres import GIVEN, VERSIONS, one_migrated_url, own_server
from turnabout import Acked, Busy, LeaseLost, Sent, TurnaboutError, Uncertain, UsageError, message

pytestmark = pytest.mark.slow  # a database for each


url = one_migrated_url


@contextmanager
def opened(url: str, colour: str = "sync") -> Iterator[Any]:
    """The blocking face, or the asyncio one worn as if it were."""
    if colour == "sync":
        with turnabout.connect(url) as mq:
            yield mq
        return
    with asyncio.Runner() as runner:
        mq = blocking(runner, turnabout.aio.connect(url))
        try:
            yield mq
        finally:
            mq.close()


colours = pytest.mark.parametrize("colour", ["sync", "async"])


OTHERS = "from pg_stat_activity where datname = current_database() and pid <> pg_backend_pid()"
BACKENDS = "backend_type = 'client backend'"


def terminate_all(url: str) -> int:
    """End all other sessions of the database, and wait until they are gone."""
    found = ask(url, f"select pid, pg_terminate_backend(pid) {OTHERS} and {BACKENDS}")
    pids = [pid for pid, _ in found]  # of them one may just have ended by itself
    left = "select from pg_stat_activity where pid = any(%s)"
    eventually(url, f"select true where not exists ({left})", pids)
    return len(pids)


class Beside:
    """A call in a thread; its answer or its error, once it has ended."""

    def __init__(self, call: Callable[[], Any]) -> None:
        self._answer: Any = None
        self.took = 0.0

        def run() -> None:
            began = time.monotonic()
            try:
                self._answer = call()
            except Exception as error:  # noqa: BLE001 (for the test to look at)
                self._answer = error
            self.took = time.monotonic() - began

        self._thread = threading.Thread(target=run, daemon=True)
        self._thread.start()

    @property
    def ended(self) -> bool:
        return not self._thread.is_alive()

    def answer(self, seconds: float = 40) -> Any:
        self._thread.join(seconds)
        assert not self._thread.is_alive(), "still waiting"
        return self._answer


@contextmanager
def locked(url: str) -> Iterator[psycopg.Connection[Any]]:
    """All calls wait while this is open: somebody alters the table of queues."""
    with psycopg.connect(url) as connection:
        connection.execute("lock table turnabout.queue in access exclusive mode")
        yield connection
        connection.rollback()


@contextmanager
def asleep(url: str) -> Iterator[None]:
    """Whoever writes messages sleeps while this is open. An ack waits for no lock so long."""
    ask(
        url,
        "create function public.sleep() returns trigger language plpgsql as"
        " $$ begin perform pg_sleep(60); return null; end $$;"
        "create trigger sleep before insert or update or delete on turnabout.message"
        " execute function public.sleep()",
    )
    try:
        yield
    finally:
        ask(url, "drop trigger sleep on turnabout.message; drop function public.sleep()")


def waiting(url: str) -> int:
    """The process of a call that waits for the lock."""
    (pid,) = eventually(url, f"select pid {OTHERS} and wait_event_type = 'Lock'")
    return pid


# --- the pool ------------------------------------------------------------------------------------


def test_sixteen_threads_open_no_more_than_allowed(url, name):
    with turnabout.connect(and_also(url, "max_connections=4&application_name=four")) as mq:
        queue = mq.queue(name)
        queue.create()
        threads = [Beside(lambda: [queue.send("x") for _ in range(20)]) for _ in range(16)]
        seen = 0
        while not all(isinstance(t._answer, list) for t in threads):
            seen = max(seen, len(ask(url, f"select 1 {OTHERS} and application_name = 'four'")))
            assert not any(isinstance(t._answer, Exception) for t in threads)
        assert seen <= 4
        assert queue.stats().sent == 320


def test_busy_when_no_connection_gets_free(url, name):
    with turnabout.connect(and_also(url, "max_connections=1&busy_seconds=0.3")) as mq:
        queue = mq.queue(name)
        queue.create()
        with locked(url):
            first = Beside(lambda: queue.send("first"))
            waiting(url)
            began = time.monotonic()
            with pytest.raises(Busy, match=r"all 1 connections.*0\.3 seconds.*nothing happened"):
                queue.send("second")
            assert 0.3 <= time.monotonic() - began < 4
        assert isinstance(first.answer(), Sent)
        assert isinstance(queue.send("third"), Sent)
        assert queue.stats().sent == 2


async def test_a_cancelled_call_does_not_poison_the_pool(url, name) -> None:
    """Cancelled while it waits for a lock, for a connection, or at any other point."""
    async with turnabout.aio.connect(and_also(url, "max_connections=2&busy_seconds=5")) as mq:
        queue = mq.queue(name)
        await queue.create()
        with locked(url):
            calls = [asyncio.ensure_future(queue.send("never")) for _ in range(4)]
            await asyncio.sleep(0.2)
            for call in calls:
                call.cancel()
            ended = await asyncio.gather(*calls, return_exceptions=True)
            assert all(isinstance(end, asyncio.CancelledError) for end in ended)
        before = (await queue.stats()).sent
        assert before == 0, "what was cancelled behind a lock did not happen"
        for n in range(100):
            call = asyncio.ensure_future(queue.send(f"{n}"))
            for _ in range(n % 12):
                await asyncio.sleep(0)
            call.cancel()
            with suppress(asyncio.CancelledError):
                await call
        both = await asyncio.gather(*(queue.receive(1) for _ in range(6)))
        assert len(both) == 6
        with locked(url):  # two connections can still be had at once
            calls = [asyncio.ensure_future(queue.stats()) for _ in range(2)]
            give_up = time.monotonic() + 30
            while len(ask(url, f"select 1 {OTHERS} and wait_event_type = 'Lock'")) < 2:
                assert time.monotonic() < give_up, "a place in the pool is lost"
                await asyncio.sleep(0.01)
        await asyncio.gather(*calls)


@colours
def test_a_closed_store_says_so(url, name, colour):
    with opened(url, colour) as mq:
        queue = mq.queue(name)
        queue.send("x")
        mq.close()
        for call in (lambda: queue.send("y"), queue.receive, queue.stats):
            with pytest.raises(UsageError, match="closed"):
                call()
        mq.close()


# --- connections that break ----------------------------------------------------------------------


@colours
@pytest.mark.parametrize("verb", ["send", "receive", "ack", "stats"])
def test_what_broke_while_idle_is_replaced(url, name, colour, verb):
    """Nothing was on its way, so nothing is uncertain: the call simply works."""
    with opened(url, colour) as mq:
        queue = mq.queue(name)
        queue.send("x")
        (m,) = queue.receive()
        calls = {
            "send": lambda: isinstance(queue.send("y"), Sent),
            "receive": lambda: len(queue.receive()) == 0,
            "ack": lambda: m.ack() == Acked(),
            "stats": lambda: queue.stats().leased == 1,
        }
        assert terminate_all(url) >= 1
        assert calls[verb]()


def test_many_that_broke_while_idle_are_replaced(url, name):
    with turnabout.connect(and_also(url, "application_name=many")) as mq:
        queue = mq.queue(name)
        queue.create()
        with locked(url):
            calls = [Beside(queue.stats) for _ in range(8)]
            while len(ask(url, f"select 1 {OTHERS} and wait_event_type = 'Lock'")) < 8:
                time.sleep(0.01)
        assert all(call.answer().sent == 0 for call in calls)
        assert terminate_all(url) >= 8
        for _ in range(10):
            assert isinstance(queue.send("x"), Sent)


@pytest.mark.parametrize("verb", ["send", "ack", "defer", "fail", "release", "purge"])
def test_what_breaks_during_a_call_is_uncertain(url, name, verb):
    with turnabout.connect(url) as mq:
        queue = mq.queue(name)
        queue.send_many([message("x"), message("to be purged")])
        (m,) = queue.receive()
        calls: dict[str, Callable[[], Any]] = {
            "send": lambda: queue.send("y"),
            "purge": queue.purge,
            **{v: getattr(m, v) for v in ("ack", "defer", "fail", "release")},
        }
        with asleep(url):
            call = Beside(calls[verb])
            (pid,) = eventually(url, f"select pid {OTHERS} and wait_event = 'PgSleep'")
            ask(url, "select pg_terminate_backend(%s)", pid)
            answer = call.answer()
        assert isinstance(answer, Uncertain), repr(answer)
        assert "may have happened" in str(answer)
        assert not answer.retryable
        assert m.ack() == Acked(), "it did not happen, and the store works on"


@pytest.mark.parametrize("verb", ["receive", "extend", "stats", "peek"])
def test_what_may_be_repeated_is_repeated(url, name, verb):
    with turnabout.connect(url) as mq:
        queue = mq.queue(name)
        queue.send_many([message("x"), message("y")])
        (m,) = queue.receive()
        calls: dict[str, Callable[[], Any]] = {
            "receive": queue.receive,
            "extend": m.extend,
            "stats": queue.stats,
            "peek": queue.peek,
        }
        with locked(url):
            call = Beside(calls[verb])
            ask(url, "select pg_terminate_backend(%s)", waiting(url))
            time.sleep(0.1)  # it waits again, on a new connection
        answer = call.answer()
        assert not isinstance(answer, Exception), repr(answer)
        assert m.ack() == Acked()


@pytest.fixture(scope="module", params=VERSIONS, ids=lambda v: f"own-pg{v}")
def own(request) -> Iterator[Any]:
    if GIVEN is not None:
        pytest.skip("a given server is not ours to restart")
    settings = {"synchronous_commit": "on", "full_page_writes": "on"}
    with own_server(request.param, settings=settings) as server:
        server.create_database("app")
        migrate(server.url("app"))
        yield server


@colours
@pytest.mark.parametrize("mode", ["fast", "immediate"])
def test_a_restart_between_calls_is_not_felt(own, name, colour, mode):
    with opened(own.url("app"), colour) as mq:
        queue = mq.queue(name)
        for n in range(3):
            assert isinstance(queue.send(f"{n}"), Sent)
            own.restart(mode)
        (m,) = queue.receive()
        own.restart(mode)
        assert m.ack() in (Acked(), LeaseLost("ready"))


# --- fork ----------------------------------------------------------------------------------------

forks = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::ResourceWarning")


def in_a_child(act: Callable[[], bool]) -> int:
    """The exit code of a forked child: 0 if `act` says that all is well."""
    child = os.fork()
    if child == 0:
        code = 3
        try:
            code = 0 if act() else 1
        finally:
            os._exit(code)
    give_up = time.monotonic() + 60
    while True:
        pid, status = os.waitpid(child, os.WNOHANG)
        if pid:
            return os.waitstatus_to_exitcode(status)
        if time.monotonic() > give_up:
            os.kill(child, 9)
            os.waitpid(child, 0)
            pytest.fail("the child hangs")
        time.sleep(0.01)


@forks
def test_a_forked_child_opens_connections_of_its_own(url, name):
    with turnabout.connect(and_also(url, "application_name=fork")) as mq:
        queue = mq.queue(name)
        queue.send("parent")
        sessions = f"select pid {OTHERS} and application_name = 'fork'"
        ours = ask(url, sessions)

        def act() -> bool:
            queue.send("child")
            theirs = set(ask(url, sessions)) - set(ours)
            return len(theirs) == 1 and queue.stats().sent == 2

        assert in_a_child(act) == 0
        assert isinstance(queue.send("parent again"), Sent)
        # The child's own may end a moment after it.
        (pid,) = eventually(url, f"{sessions} and 1 = (select count(*) from ({sessions}))")
        assert [(pid,)] == ours, "the parent's own connection was broken by its child"
        assert sorted(m.text() for m in queue.receive(5)) == ["child", "parent", "parent again"]


@forks
def test_a_forked_child_hears_news(url, name):
    """The parent's listener does not come along."""
    with turnabout.connect(and_also(url, "poll_seconds=30")) as mq, turnabout.connect(url) as other:
        queue = mq.queue(name)
        queue.create()
        assert not queue.receive(wait_seconds=0.1)
        later = threading.Timer(1.0, lambda: other.queue(name).send("x"))
        later.start()
        began = time.monotonic()
        code = in_a_child(lambda: len(queue.receive(wait_seconds=25)) == 1)
        later.join()
        assert code == 0
        assert time.monotonic() - began < 20


# --- what must not leak --------------------------------------------------------------------------


def test_an_error_in_a_call_leaves_its_connection_usable(url, name):
    with turnabout.connect(and_also(url, "max_connections=1")) as mq:
        for _ in range(3):
            with pytest.raises(TurnaboutError):
                mq.queue(f"{name}-none").stats()
            assert isinstance(mq.queue(name).send("x"), Sent)
        rows = ask(url, f"select state {OTHERS} and state like 'idle in%%'")
        assert rows == [], "a transaction was left open"
