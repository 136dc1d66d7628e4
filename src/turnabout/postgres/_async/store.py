"""The PostgreSQL store: a verb is carried out by a call or a few of its functions.

A call takes an idle connection, or opens one, runs a statement or two in autocommit (see
`everyday`) and puts it back. No session state is used where a transaction pooler stands in between;
one that forgets prepared statements needs `?prepare=off`. Waiting holds no connection but the one
that listens, shared by all who wait. Nothing is opened until the first call.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, TypeVar

import psycopg

from turnabout import store
from turnabout.postgres._async.joined import AsyncPostgresJoined
from turnabout.postgres._async.libpq import AsyncConnection
from turnabout.postgres._async.listener import AsyncListener
from turnabout.postgres._async.pool import AsyncPool
from turnabout.postgres.call import SETTLE, Call
from turnabout.postgres.calls import exchange_of, notified
from turnabout.postgres.errors import (
    LEFT_TO_FUNCTION,
    LOCKED,
    NOT_ALLOWED,
    NoAnswer,
    NotRebuilt,
    meaning,
    translate,
)
from turnabout.postgres.everyday import WAITERS, BoundStatement, Shortcuts
from turnabout.postgres.notices import NOTIFY_WAITERS, REBUILD, Notice, Notices
from turnabout.postgres.url import PostgresOptions, parse
from turnabout.words.errors import Busy, Disconnected, TurnaboutError, WrongVersion
from turnabout.words.outcomes import must_hold
from turnabout.words.verb import Change
from turnabout.words.verbs import Extend, Verb

A = TypeVar("A")


class AsyncPostgresStore(store.AsyncStore):
    """See `turnabout.store.AsyncStore`."""

    def __init__(self, url: str, *, clock: Callable[[], int] | None = None) -> None:
        self._options: PostgresOptions = parse(url)
        self._clock = clock
        self._known: set[str] = set()
        self._shortcuts = Shortcuts()
        self._pool = AsyncPool(self._options)
        self._listener = AsyncListener(self._options, self._run_alone, self._tell_late)

    async def run(self, verb: Verb[A]) -> A:
        """Carry out a verb by one call of its function."""
        exchange = exchange_of(verb)
        try:
            call, part = next(exchange)
            while True:
                call, part = exchange.send(await self._call(call, part))
        except StopIteration as end:
            return end.value

    async def _call(self, call: Call, verb: Any) -> Any:
        now = self._now()
        looks = call.without_timers is not None and self._shortcuts.is_time_to_look(verb.queue, now)
        sql = call.sql if looks else call.without_timers or call.sql
        simple = self._shortcuts.everyday(call.everyday, verb, now, looks=looks)
        try:
            return await self._execute(call, sql, verb, now, simple)
        except Disconnected as error:
            if isinstance(error.__cause__, NoAnswer):
                raise  # it was waited for long enough
            # A server that was restarted leaves dead connections behind: once more, on a new one.
            await self._pool.forget()
            try:
                return await self._execute(call, call.sql, verb, now)
            except NotRebuilt:
                await self._rebuild()
        except NotRebuilt:
            await self._rebuild()
        except WrongVersion:
            await self._pool.check_again()  # tells what has become of our functions, if that is it
            raise
        except Busy as error:
            if call.nowait is None or not isinstance(error.__cause__, psycopg.Error):
                raise  # or no connection was free: that was waited for already
            return await self._execute(call, call.nowait, verb, now)
        return await self._execute(call, call.sql, verb, self._now())

    async def _rebuild(self) -> None:
        """A crash of the server has emptied where messages stand: rebuild it, or wait until another
        process has.

        Raises: Busy, if that takes longer than `busy_seconds`.
        """
        give_up = time.monotonic() + self._options.busy_seconds
        while True:
            connection = await self._pool.take()
            try:
                await connection.run(REBUILD, ())
                await connection.find_out()  # everyday statements may be used from now on
            except psycopg.Error as error:
                await self._pool.put(connection)
                if error.sqlstate != LOCKED or time.monotonic() > give_up:
                    raise translate(error, self._options.url) from error
            except BaseException:
                await self._drop(connection)
                raise
            else:
                await self._pool.put(connection)
                return

    def _now(self) -> int | None:
        return None if self._clock is None else self._clock()

    async def _execute(
        self,
        call: Call,
        sql: bytes,
        verb: Any,
        now: int | None,
        simple: Sequence[BoundStatement] = (),
    ) -> Any:
        connection = await self._pool.take()
        try:
            rows: Sequence[Any] = ()
            if simple and connection.is_direct:
                rows = await self._everyday(connection, verb, simple)
            if not rows:
                rows = await connection.run(sql, call.parameters(verb, now))
            if call.settles:
                with suppress(psycopg.Error):  # the verb is done; maintenance settles it, too
                    await connection.run(SETTLE, (verb.queue, now))
        except psycopg.Error as error:
            await self._pool.put(connection)
            raise meaning(error, self._options.url, verb) from error
        except BaseException:
            await self._drop(connection)
            raise
        if type(verb) is Extend and verb.exact:
            self._shortcuts.look_next(verb.queue)
        await self._notify(connection, notified(call, verb, rows))
        return rows

    async def _everyday(
        self, connection: AsyncConnection, verb: Any, simple: Sequence[BoundStatement]
    ) -> Sequence[Any]:
        """The rows of the last of these; none if one of them did nothing, or failed in a way
        that its function handles better.
        """
        rows: Sequence[Any] = ()
        for statement, parameters in simple:
            try:
                rows = await connection.run(statement.sql, parameters)
            except psycopg.Error as error:
                if error.sqlstate not in LEFT_TO_FUNCTION:
                    raise
                connection.is_direct = error.sqlstate != NOT_ALLOWED
                rows = ()
            if not rows:
                if statement is simple[-1][0]:
                    self._shortcuts.was_special(statement, verb)
                break
        else:
            self._shortcuts.answered(simple[-1][0], verb, rows)
        return rows

    async def _drop(self, connection: AsyncConnection) -> None:
        """Ctrl-C, or a cancellation, in the middle of a call: its state is unknown, so it goes."""
        await connection.close()
        await self._pool.put(connection)

    async def run_transaction(
        self, verbs: Sequence[Verb[Any]], *, all_or_none: bool = False
    ) -> list[Any]:
        """Carry out some verbs in one transaction."""
        if not verbs:
            return []
        connection = await self._begin()
        changed: list[Notice] = []
        committing = False
        try:
            answers: list[Any] = []
            for verb in verbs:
                answers.append(await self._inside(connection, verb, changed))
                if all_or_none:
                    must_hold(answers)
            committing = True
            await connection.run(b"commit", ())
        except psycopg.Error as error:
            await self._undo(connection)
            raise translate(error, self._options.url, sent=committing) from error
        except NotRebuilt:
            await self._undo(connection)
            await self._rebuild()
            return await self.run_transaction(verbs, all_or_none=all_or_none)
        except TurnaboutError:
            await self._undo(connection)
            raise
        except BaseException:
            await self._drop(connection)
            raise
        await self._notify(connection, changed)
        return answers

    async def _begin(self) -> AsyncConnection:
        """A connection with a transaction open."""
        for last in (False, True):
            connection = await self._pool.take()
            try:
                await connection.run(b"begin isolation level read committed", ())
            except psycopg.Error as error:
                await self._pool.put(connection)
                if last or isinstance(error, NoAnswer):
                    raise translate(error, self._options.url) from error
                await self._pool.forget()
            except BaseException:
                await self._drop(connection)
                raise
            else:
                return connection
        raise AssertionError("the second round ends")

    async def _inside(
        self, connection: AsyncConnection, verb: Verb[Any], changed: list[Notice]
    ) -> Any:
        """A verb in the transaction of that connection. Nothing in it waits for rows."""
        exchange = exchange_of(verb)
        try:
            call, part = next(exchange)
            while True:
                parameters = call.parameters(part, self._now())
                try:
                    rows = await connection.run(call.nowait or call.sql, parameters)
                except psycopg.Error as error:
                    if (error.sqlstate or "").startswith("PQ"):
                        raise meaning(error, self._options.url, part) from error
                    raise
                changed.extend(notified(call, part, rows))
                call, part = exchange.send(rows)
        except StopIteration as end:
            return end.value

    async def _undo(self, connection: AsyncConnection) -> None:
        """Roll back; if that fails, close the connection, which has the same effect."""
        if not connection.closed:
            try:
                await connection.run(b"rollback", ())
            except psycopg.Error:
                await connection.close()
        await self._pool.put(connection)

    # --- waiting ---------------------------------------------------------------------------------

    async def _notify(self, connection: AsyncConnection, notices: Sequence[Notice]) -> None:
        """Notify waiters of changes, here and elsewhere; then the connection goes back."""
        try:
            pending = self._listener.notices
            if notices:
                self._listener.changed(notices)
            if pending.due_at < math.inf:
                await self._send_notices(connection, pending)
        finally:
            await self._pool.put(connection)

    async def _send_notices(self, connection: AsyncConnection, notices: Notices) -> None:
        """Notify other processes of what is due; what is not gets its time later.

        The verb is done, and a notification is a hint only (receivers poll): so it may fail.
        """
        due = notices.take(time.monotonic())
        if due is None:
            self._listener.send_later()
            return
        try:
            if connection.is_direct:
                waiters = bool(await connection.run(WAITERS, due[:1]))
                notices.found(waiters=waiters)
                if not waiters:
                    return
            for (queue,) in await connection.run(NOTIFY_WAITERS, due):
                self._listener.has_room(queue)
        except psycopg.Error:
            pass
        except BaseException:
            await connection.close()
            raise

    async def _tell_late(self) -> None:
        """Tell what was put off, on a connection that nobody uses: none is opened for that. If all
        are used, the first to put one back does it.
        """
        connection = self._pool.borrow()
        if connection is not None:
            try:
                await self._send_notices(connection, self._listener.notices)
            finally:
                await self._pool.put(connection, borrowed=True)
        elif not self._pool.has_any:
            self._listener.notices.forget()

    async def _run_alone(self, sql: bytes, parameters: Sequence[Any]) -> Sequence[Any]:
        """A statement of the listener's. Raises: psycopg.Error, and as the pool."""
        connection = await self._pool.take()
        try:
            return await connection.run(sql, parameters)
        except psycopg.Error:
            raise
        except BaseException:
            await connection.close()
            raise
        finally:
            await self._pool.put(connection)

    async def signal(self, queue: str, change: Change = Change.ANY) -> int:
        """A number that changes when such a change may have come to the queue."""
        return await self._listener.signal(queue, change)

    async def wait(
        self, queue: str, seen: int, seconds: float, change: Change = Change.ANY
    ) -> None:
        """Return when the queue changed, or after `seconds`."""
        await self._listener.wait(queue, seen, seconds, change)

    # --- the caller's transaction, and the end ---------------------------------------------------

    def within(self, connection: object) -> AsyncPostgresJoined:
        """A store that runs verbs in the transaction of that connection."""
        if self._pool.has_lost_one:
            self._known.clear()  # whatever has to be done beforehand may have to be done again
        return AsyncPostgresJoined(connection, self.run, self._wake, self._clock, self._known)

    async def _wake(self, queue: str, change: Change = Change.ANY) -> None:
        await self._notify(await self._pool.take(), (Notice(queue, change),))

    # asyncio only
    def connections(self) -> store.Connections:
        """Connections for handlers that work in a transaction."""
        from turnabout.postgres.connections import PostgresConnections

        return PostgresConnections(self._options, self._clock, self.run, self._wake)

    def measures(self) -> dict[str, float]:
        """This process's view of its connections."""
        return self._pool.measures()

    async def close(self) -> None:
        """Close the connections; waiting calls return."""
        await self._listener.stop()
        await self._pool.close()
