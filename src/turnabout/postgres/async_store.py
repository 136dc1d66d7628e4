"""The PostgreSQL store for asyncio: the same calls as `store`, awaited on one event loop.

Nothing is opened until the first call, so that it may be made outside a running loop.
"""

from __future__ import annotations

import asyncio
import contextlib
import select
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import psycopg

from turnabout.postgres import install
from turnabout.postgres.call import Call, Looks
from turnabout.postgres.calls import rung, steps
from turnabout.postgres.errors import meaning, translate
from turnabout.postgres.joined import AsyncPostgresJoined, PostgresConnections
from turnabout.postgres.store import CHECK_SCHEMA
from turnabout.postgres.url import Options, parse
from turnabout.postgres.wakeups import NOTIFY, Bell
from turnabout.store import AsyncStore
from turnabout.words.errors import Busy, Disconnected, TurnaboutError, UsageError
from turnabout.words.verbs import Verb

A = TypeVar("A")


class AsyncPostgresStore(AsyncStore):
    """See `turnabout.store.AsyncStore`."""

    def __init__(self, url: str, *, clock: Callable[[], int] | None = None) -> None:
        self._options: Options = parse(url)
        self._clock = clock
        self._known: set[str] = set()
        self._looks = Looks()
        self._pool = _Pool(self._options)
        self._bell = Bell()
        self._news = asyncio.Event()
        self._ear: asyncio.Task[None] | None = None
        self._late: set[asyncio.Task[None]] = set()
        self._listening = asyncio.Event()

    async def run(self, verb: Verb[A]) -> A:
        """Carry out a verb by one call of its function."""
        talk = steps(verb)
        try:
            call, part = next(talk)
            while True:
                call, part = talk.send(await self._call(call, part))
        except StopIteration as end:
            return end.value

    async def _call(self, call: Call, verb: Any) -> Any:
        now = self._now()
        parameters = call.parameters(verb, now)
        try:
            sql = self._looks.statement(call, verb, now)
            return await self._execute(call, sql, parameters, verb)
        except Disconnected:
            # A server that was restarted leaves dead connections behind: once more, on a new one.
            await self._pool.forget()
            return await self._execute(call, call.sql, parameters, verb)
        except Busy as error:
            if call.impatient is None or not isinstance(error.__cause__, psycopg.Error):
                raise  # or no connection was free: that was waited for already
            return await self._execute(call, call.impatient, parameters, verb)

    def _now(self) -> int | None:
        return None if self._clock is None else self._clock()

    async def _execute(self, call: Call, sql: bytes, parameters: Any, verb: Any) -> Any:
        connection = await self._pool.take()
        try:
            rows = await connection.run(sql, parameters)
            for queue in rung(call, verb, rows):
                await self._tell(connection, queue)
        except psycopg.Error as error:
            raise meaning(error, self._options.url, verb) from error
        except asyncio.CancelledError:
            # The call may be on its way: the connection is in an unknown state, so it goes.
            await connection.raw.close()
            raise
        finally:
            await self._pool.put(connection)
        return rows

    async def run_together(self, verbs: Sequence[Verb[Any]]) -> list[Any]:
        """Carry out some verbs in one transaction."""
        if not verbs:
            return []
        connection = await self._begin()
        news: set[str] = set()
        committing = False
        try:
            answers = [await self._inside(connection, verb, news) for verb in verbs]
            committing = True
            await connection.run(b"commit", ())
            for queue in sorted(news):
                await self._tell(connection, queue)
        except psycopg.Error as error:
            await connection.undo()
            raise translate(error, self._options.url, sent=committing) from error
        except TurnaboutError:
            await connection.undo()
            raise
        except BaseException:
            await connection.raw.close()
            raise
        finally:
            await self._pool.put(connection)
        return answers

    async def _begin(self) -> _Connection:
        """A connection with a transaction open."""
        for last in (False, True):
            connection = await self._pool.take()
            try:
                await connection.run(b"begin", ())
            except psycopg.Error as error:
                await self._pool.put(connection)
                if last:
                    raise translate(error, self._options.url) from error
                await self._pool.forget()
            except BaseException:
                await connection.raw.close()
                await self._pool.put(connection)
                raise
            else:
                return connection
        raise AssertionError("the second round ends")

    async def _inside(self, connection: _Connection, verb: Verb[Any], news: set[str]) -> Any:
        """A verb in the transaction of that connection. Nothing in it waits for rows."""
        talk = steps(verb)
        try:
            call, part = next(talk)
            while True:
                parameters = call.parameters(part, self._now())
                try:
                    rows = await connection.run(call.impatient or call.sql, parameters)
                except psycopg.Error as error:
                    if (error.sqlstate or "").startswith("PQ"):
                        raise meaning(error, self._options.url, part) from error
                    raise
                news.update(rung(call, part, rows))
                call, part = talk.send(rows)
        except StopIteration as end:
            return end.value

    async def _tell(self, connection: _Connection, queue: str) -> None:
        """News of a queue, here and to other processes; the verb is done, so this may fail."""
        ring = self._bell.ring(queue, self._ring_later)
        self._news.set()
        if ring:
            with contextlib.suppress(psycopg.Error):  # a hint only: receivers poll
                await connection.run(NOTIFY, (queue,))

    def _ring_later(self, queue: str, seconds: float) -> None:
        """The last of many quick sends must be heard too: notify at the end of the pause."""

        async def ring() -> None:
            await asyncio.sleep(seconds)
            self._bell.rang(queue)
            with contextlib.suppress(psycopg.Error, TurnaboutError):  # a hint only: receivers poll
                connection = await self._pool.take()
                try:
                    await connection.run(NOTIFY, (queue,))
                finally:
                    await self._pool.put(connection)

        task = asyncio.ensure_future(ring())
        self._late.add(task)
        task.add_done_callback(self._late.discard)

    async def signal(self, queue: str) -> int:
        """A number that changes when something may have been sent to the queue."""
        if self._ear is None and self._options.listen:
            self._ear = asyncio.ensure_future(self._hear())
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._listening.wait(), 1.0)
        return self._bell.heard(queue)

    async def wait(self, queue: str, seen: int, seconds: float) -> None:
        """Return on news of the queue, or after `seconds`, at most the polling interval."""
        ends_at = asyncio.get_running_loop().time() + min(seconds, self._options.poll_seconds)
        while self._bell.heard(queue) == seen:
            left = ends_at - asyncio.get_running_loop().time()
            if left <= 0:
                return
            self._news.clear()
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._news.wait(), left)

    async def _hear(self) -> None:
        """Hold one connection that listens; if it breaks, polling goes on and it tries again."""
        while True:
            try:
                connection = await psycopg.AsyncConnection.connect(
                    self._options.conninfo, autocommit=True
                )
                async with connection:
                    await connection.execute("listen turnabout")
                    self._listening.set()
                    self._bell.ring_all()
                    self._news.set()
                    async for note in connection.notifies():
                        self._bell.hear(note.payload)
                        self._news.set()
            except psycopg.Error:
                self._listening.set()
                await asyncio.sleep(1.0)

    def within(self, connection: object) -> AsyncPostgresJoined:
        """A store on a connection of the caller's, in his transaction."""
        return AsyncPostgresJoined(connection, self.run, self._wake, self._clock, self._known)

    def connections(self) -> PostgresConnections:
        """Connections for handlers that work in a transaction."""
        return PostgresConnections(self._options, self._clock, self._wake)

    def measures(self) -> dict[str, float]:
        """What this process knows of its connections."""
        return self._pool.measures()

    async def _wake(self, queue: str) -> None:
        connection = await self._pool.take()
        try:
            await self._tell(connection, queue)
        finally:
            await self._pool.put(connection)

    async def close(self) -> None:
        """Close the connections; waiting calls return."""
        tasks = [*self._late, *([self._ear] if self._ear else [])]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self._bell.ring_all()
        self._news.set()
        await self._pool.close()


class _Connection:
    """One connection in autocommit, with the cursor that all its calls use."""

    __slots__ = ("_cursor", "_poll", "raw")

    def __init__(self, raw: psycopg.AsyncConnection[Any]) -> None:
        self.raw = raw
        self._cursor = psycopg.AsyncRawCursor(raw)
        self._poll = select.poll()
        self._poll.register(raw.fileno(), select.POLLIN)

    @classmethod
    async def open(cls, options: Options) -> _Connection:
        return cls(
            await psycopg.AsyncConnection.connect(
                options.conninfo,
                autocommit=True,
                prepare_threshold=0 if options.prepare else None,
            )
        )

    def is_fresh(self) -> bool:
        """False if the server has hung up meanwhile: an idle connection has nothing to say."""
        return not self.raw.closed and not self._poll.poll(0)

    async def run(self, sql: bytes, parameters: Any) -> list[Any]:
        await self._cursor.execute(sql, parameters, binary=True)
        return await self._cursor.fetchall() if self._cursor.description else []

    async def undo(self) -> None:
        """Roll back, or hang up: that does it as well."""
        if not self.raw.closed:
            try:
                await self.run(b"rollback", ())
            except psycopg.Error:
                await self.raw.close()


class _Pool:
    """Idle connections, last in first out, so that few stay in use; a limit on all of them."""

    def __init__(self, options: Options) -> None:
        self._options = options
        self._idle: list[_Connection] = []
        self._free = asyncio.Semaphore(options.max_connections)
        self._used = 0
        self._waiting = 0
        self._checked = False
        self._closed = False

    async def take(self) -> _Connection:
        if self._closed:
            raise UsageError("this connection was closed: open another by turnabout.aio.connect")
        if self._free.locked():
            await self._wait()
        else:
            await self._free.acquire()  # at once: `wait_for` would make a task of it, for 17 µs
        self._used += 1
        try:
            while self._idle:
                connection = self._idle.pop()
                if connection.is_fresh():
                    return connection
                await connection.raw.close()
            return await self._open()
        except BaseException:
            self._release()
            raise

    async def _wait(self) -> None:
        """For one to get free. Raises: Busy."""
        self._waiting += 1
        try:
            await asyncio.wait_for(self._free.acquire(), self._options.busy_seconds)
        except TimeoutError as error:
            raise Busy(
                f"all {self._options.max_connections} connections were busy for "
                f"{self._options.busy_seconds:g} seconds: nothing happened, repeat the call"
            ) from error
        finally:
            self._waiting -= 1

    async def put(self, connection: _Connection) -> None:
        if self._closed:
            await connection.raw.close()
        elif not connection.raw.closed:
            self._idle.append(connection)
        self._release()

    def _release(self) -> None:
        self._used -= 1
        self._free.release()

    def measures(self) -> dict[str, float]:
        return {
            "connections_open": self._used + len(self._idle),
            "connections_idle": len(self._idle),
            "connections_max": self._options.max_connections,
            "calls_waiting": self._waiting,
        }

    async def forget(self) -> None:
        """Close what is idle: the server is another one now."""
        while self._idle:
            await self._idle.pop().raw.close()

    async def close(self) -> None:
        self._closed = True
        await self.forget()

    async def _open(self) -> _Connection:
        try:
            connection = await _Connection.open(self._options)
            if self._checked:
                return connection
            try:
                step, oldest, ours = (await connection.run(CHECK_SCHEMA, ()))[0]
                install.check_schema(step, oldest, ours, self._options.url)
            except BaseException:
                await connection.raw.close()
                raise
        except psycopg.Error as error:
            raise translate(error, self._options.url) from error
        self._checked = True
        return connection
