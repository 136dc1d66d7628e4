"""The pools of connections at the edges: a close, a cancellation, nothing free; no server."""

import asyncio
from collections import deque
from types import SimpleNamespace

import pytest

from turnabout import Busy
from turnabout.postgres import async_store, store
from turnabout.postgres.async_store import AsyncPostgresStore
from turnabout.postgres.store import PostgresStore
from turnabout.words.verbs import Receive

NOWHERE = "postgresql://u@127.0.0.1:1/db?listen=off"


class Raw:
    """As much of a connection as a pool knows."""

    closed = False

    def close(self) -> None:
        self.closed = True


class AsyncRaw(Raw):
    async def close(self) -> None:
        self.closed = True


def test_what_is_put_back_while_the_pool_closes_is_closed():
    pool = PostgresStore(NOWHERE)._pool
    connection = SimpleNamespace(raw=Raw())

    class Slow(deque):
        def append(self, one):
            pool.close()  # by another thread, which sees nothing to close yet
            super().append(one)

    pool._idle = Slow()
    pool.put(connection)
    assert connection.raw.closed


def test_two_threads_may_forget_what_is_idle_at_once():
    """As all do that find the server restarted."""
    pool = PostgresStore(NOWHERE)._pool

    class Raced(deque):
        def pop(self):
            self.clear()  # by the other thread
            return super().pop()

    pool._idle = Raced([SimpleNamespace(raw=Raw())])
    pool.forget()
    assert not pool._idle


def test_a_first_call_that_is_cancelled_leaves_no_connection_open(monkeypatch):
    raw, asked = AsyncRaw(), asyncio.Event()

    class Silent:
        def __init__(self):
            self.raw = raw

        @classmethod
        async def open(cls, _options):
            return cls()

        async def run(self, sql, parameters):
            asked.set()
            await asyncio.Event().wait()

    async def main() -> None:
        pool = AsyncPostgresStore(NOWHERE)._pool
        taking = asyncio.create_task(pool.take())
        await asked.wait()
        taking.cancel()
        with pytest.raises(asyncio.CancelledError):
            await taking
        assert raw.closed
        assert pool.measures()["connections_open"] == 0

    monkeypatch.setattr(async_store, "_Connection", Silent)
    asyncio.run(main())


def test_a_receive_waits_once_for_a_connection(monkeypatch):
    """Not once more for the other statement that it has where rows are locked."""
    made = PostgresStore(f"{NOWHERE}&max_connections=1&busy_seconds=0.01")
    made._pool._open = 1
    waits = []
    may_open = store._Pool._may_open
    monkeypatch.setattr(store._Pool, "_may_open", lambda pool: (waits.append(1), may_open(pool))[1])
    with pytest.raises(Busy, match="connections were busy"):
        made.run(Receive("q", 1))
    assert len(waits) == 1


def test_a_receive_waits_once_for_a_connection_on_a_loop_too():
    async def main() -> None:
        made = AsyncPostgresStore(f"{NOWHERE}&max_connections=1&busy_seconds=0.01")
        await made._pool._free.acquire()
        waits = []
        take = made._pool.take
        made._pool.take = lambda: (waits.append(1), take())[1]
        with pytest.raises(Busy, match="connections were busy"):
            await made.run(Receive("q", 1))
        assert len(waits) == 1

    asyncio.run(main())
