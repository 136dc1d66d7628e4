"""The pools of connections at the edges: a close, a cancellation, nothing free; no server."""

import asyncio
from collections import deque

import pytest

from turnabout import Busy
from turnabout.postgres._async import pool as async_pool
from turnabout.postgres._async.store import AsyncPostgresStore
from turnabout.postgres._sync.store import PostgresStore
from turnabout.words.verbs import Receive

NOWHERE = "postgresql://u@127.0.0.1:1/db?listen=off"
ONE = f"{NOWHERE}&max_connections=1&busy_seconds=0.01"


class Connection:
    """As much of a connection as a pool knows."""

    closed = False
    is_lost = False

    def is_fresh(self):
        return not self.closed

    def close(self):
        self.closed = True


class AsyncConnection(Connection):
    async def close(self):
        self.closed = True


def test_what_is_put_back_while_the_pool_closes_is_closed():
    pool = PostgresStore(NOWHERE)._pool
    connection = Connection()

    class Slow(deque):
        def append(self, one):
            pool.close()  # by another thread, which sees nothing to close yet
            super().append(one)

    pool._idle = Slow()
    pool.put(connection)
    assert connection.closed


def test_two_threads_may_forget_what_is_idle_at_once():
    """As all do that find the server restarted."""
    pool = PostgresStore(NOWHERE)._pool

    class Raced(deque):
        def pop(self):
            self.clear()  # by the other thread
            return super().pop()

    pool._idle = Raced([Connection()])
    pool.forget()
    assert not pool._idle


def test_a_first_call_that_is_cancelled_leaves_no_connection_open(monkeypatch):
    asked = asyncio.Event()
    opened = []

    class Silent(AsyncConnection):
        @classmethod
        async def open(cls, _options):
            opened.append(cls())
            return opened[-1]

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
        assert [one.closed for one in opened] == [True]
        assert pool.measures()["connections_open"] == 0

    monkeypatch.setattr(async_pool, "AsyncConnection", Silent)
    asyncio.run(main())


async def test_one_that_waits_has_what_is_put_back_also_if_another_gave_up() -> None:
    """The word that one is free goes to one of them; if that one is cancelled, to the other."""
    pool = AsyncPostgresStore(f"{NOWHERE}&max_connections=1")._pool
    pool._open = 1
    connection = AsyncConnection()
    first, second = (asyncio.create_task(pool.take()) for _ in range(2))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert pool.measures()["calls_waiting"] == 2
    await pool.put(connection)
    first.cancel()
    assert await asyncio.wait_for(second, 5) is connection
    assert (pool._waiting, pool._open) == (0, 1)


def test_a_receive_waits_once_for_a_connection(monkeypatch):
    """Not once more for the other statement that it has where rows are locked."""
    made = PostgresStore(ONE)
    made._pool._open = 1
    waits = []
    take = made._pool.take
    monkeypatch.setattr(made._pool, "take", lambda: (waits.append(1), take())[1])
    with pytest.raises(Busy, match="connections were busy"):
        made.run(Receive("q", 1))
    assert len(waits) == 1


async def test_a_receive_waits_once_for_a_connection_on_a_loop_too(monkeypatch) -> None:
    made = AsyncPostgresStore(ONE)
    made._pool._open = 1
    waits = []
    take = made._pool.take
    monkeypatch.setattr(made._pool, "take", lambda: (waits.append(1), take())[1])
    with pytest.raises(Busy, match="connections were busy"):
        await made.run(Receive("q", 1))
    assert len(waits) == 1
