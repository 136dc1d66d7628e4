"""For blocking callers. Generated from `_async/store.py` by `tools/unasync.py`: do not edit."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, TypeVar

import psycopg

from turnabout import store
from turnabout.postgres._sync.joined import PostgresJoined
from turnabout.postgres._sync.libpq import LibpqConnection
from turnabout.postgres._sync.listener import Listener
from turnabout.postgres._sync.pool import Pool
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


class PostgresStore(store.Store):
    """See `turnabout.store.Store`."""

    def __init__(self, url: str, *, clock: Callable[[], int] | None = None) -> None:
        self._options: PostgresOptions = parse(url)
        self._clock = clock
        self._known: set[str] = set()
        self._shortcuts = Shortcuts()
        self._pool = Pool(self._options)
        self._listener = Listener(self._options, self._run_alone, self._tell_late)

    def run(self, verb: Verb[A]) -> A:
        """Carry out a verb by one call of its function."""
        exchange = exchange_of(verb)
        try:
            call, part = next(exchange)
            while True:
                call, part = exchange.send(self._call(call, part))
        except StopIteration as end:
            return end.value

    def _call(self, call: Call, verb: Any) -> Any:
        now = self._now()
        looks = call.without_timers is not None and self._shortcuts.is_time_to_look(verb.queue, now)
        sql = call.sql if looks else call.without_timers or call.sql
        simple = self._shortcuts.everyday(call.everyday, verb, now, looks=looks)
        try:
            return self._execute(call, sql, verb, now, simple)
        except Disconnected as error:
            if isinstance(error.__cause__, NoAnswer):
                raise  # it was waited for long enough
            # A server that was restarted leaves dead connections behind: once more, on a new one.
            self._pool.forget()
            try:
                return self._execute(call, call.sql, verb, now)
            except NotRebuilt:
                self._rebuild()
        except NotRebuilt:
            self._rebuild()
        except WrongVersion:
            self._pool.check_again()  # tells what has become of our functions, if that is it
            raise
        except Busy as error:
            if call.nowait is None or not isinstance(error.__cause__, psycopg.Error):
                raise  # or no connection was free: that was waited for already
            return self._execute(call, call.nowait, verb, now)
        return self._execute(call, call.sql, verb, self._now())

    def _rebuild(self) -> None:
        """A crash of the server has emptied where messages stand: rebuild it, or wait until another
        process has.

        Raises: Busy, if that takes longer than `busy_seconds`.
        """
        give_up = time.monotonic() + self._options.busy_seconds
        while True:
            connection = self._pool.take()
            try:
                connection.run(REBUILD, ())
                connection.find_out()  # everyday statements may be used from now on
            except psycopg.Error as error:
                self._pool.put(connection)
                if error.sqlstate != LOCKED or time.monotonic() > give_up:
                    raise translate(error, self._options.url) from error
            except BaseException:
                self._drop(connection)
                raise
            else:
                self._pool.put(connection)
                return

    def _now(self) -> int | None:
        return None if self._clock is None else self._clock()

    def _execute(
        self,
        call: Call,
        sql: bytes,
        verb: Any,
        now: int | None,
        simple: Sequence[BoundStatement] = (),
    ) -> Any:
        connection = self._pool.take()
        try:
            rows: Sequence[Any] = ()
            if simple and connection.is_direct:
                rows = self._everyday(connection, verb, simple)
            if not rows:
                rows = connection.run(sql, call.parameters(verb, now))
            if call.settles:
                with suppress(psycopg.Error):  # the verb is done; maintenance settles it, too
                    connection.run(SETTLE, (verb.queue, now))
        except psycopg.Error as error:
            self._pool.put(connection)
            raise meaning(error, self._options.url, verb) from error
        except BaseException:
            self._drop(connection)
            raise
        if type(verb) is Extend and verb.exact:
            self._shortcuts.look_next(verb.queue)
        self._notify(connection, notified(call, verb, rows))
        return rows

    def _everyday(
        self, connection: LibpqConnection, verb: Any, simple: Sequence[BoundStatement]
    ) -> Sequence[Any]:
        """The rows of the last of these; none if one of them did nothing, or failed in a way
        that its function handles better.
        """
        rows: Sequence[Any] = ()
        for statement, parameters in simple:
            try:
                rows = connection.run(statement.sql, parameters)
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

    def _drop(self, connection: LibpqConnection) -> None:
        """Ctrl-C, or a cancellation, in the middle of a call: its state is unknown, so it goes."""
        connection.close()
        self._pool.put(connection)

    def run_transaction(
        self, verbs: Sequence[Verb[Any]], *, all_or_none: bool = False
    ) -> list[Any]:
        """Carry out some verbs in one transaction."""
        if not verbs:
            return []
        connection = self._begin()
        changed: list[Notice] = []
        committing = False
        try:
            answers: list[Any] = []
            for verb in verbs:
                answers.append(self._inside(connection, verb, changed))
                if all_or_none:
                    must_hold(answers)
            committing = True
            connection.run(b"commit", ())
        except psycopg.Error as error:
            self._undo(connection)
            raise translate(error, self._options.url, sent=committing) from error
        except NotRebuilt:
            self._undo(connection)
            self._rebuild()
            return self.run_transaction(verbs, all_or_none=all_or_none)
        except TurnaboutError:
            self._undo(connection)
            raise
        except BaseException:
            self._drop(connection)
            raise
        self._notify(connection, changed)
        return answers

    def _begin(self) -> LibpqConnection:
        """A connection with a transaction open."""
        for last in (False, True):
            connection = self._pool.take()
            try:
                connection.run(b"begin isolation level read committed", ())
            except psycopg.Error as error:
                self._pool.put(connection)
                if last or isinstance(error, NoAnswer):
                    raise translate(error, self._options.url) from error
                self._pool.forget()
            except BaseException:
                self._drop(connection)
                raise
            else:
                return connection
        raise AssertionError("the second round ends")

    def _inside(
        self, connection: LibpqConnection, verb: Verb[Any], changed: list[Notice]
    ) -> Any:
        """A verb in the transaction of that connection. Nothing in it waits for rows."""
        exchange = exchange_of(verb)
        try:
            call, part = next(exchange)
            while True:
                parameters = call.parameters(part, self._now())
                try:
                    rows = connection.run(call.nowait or call.sql, parameters)
                except psycopg.Error as error:
                    if (error.sqlstate or "").startswith("PQ"):
                        raise meaning(error, self._options.url, part) from error
                    raise
                changed.extend(notified(call, part, rows))
                call, part = exchange.send(rows)
        except StopIteration as end:
            return end.value

    def _undo(self, connection: LibpqConnection) -> None:
        """Roll back; if that fails, close the connection, which has the same effect."""
        if not connection.closed:
            try:
                connection.run(b"rollback", ())
            except psycopg.Error:
                connection.close()
        self._pool.put(connection)

    # --- waiting ---------------------------------------------------------------------------------

    def _notify(self, connection: LibpqConnection, notices: Sequence[Notice]) -> None:
        """Notify waiters of changes, here and elsewhere; then the connection goes back."""
        try:
            pending = self._listener.notices
            if notices:
                self._listener.changed(notices)
            if pending.due_at < math.inf:
                self._send_notices(connection, pending)
        finally:
            self._pool.put(connection)

    def _send_notices(self, connection: LibpqConnection, notices: Notices) -> None:
        """Notify other processes of what is due; what is not gets its time later.

        The verb is done, and a notification is a hint only (receivers poll): so it may fail.
        """
        due = notices.take(time.monotonic())
        if due is None:
            self._listener.send_later()
            return
        try:
            if connection.is_direct:
                waiters = bool(connection.run(WAITERS, due[:1]))
                notices.found(waiters=waiters)
                if not waiters:
                    return
            for (queue,) in connection.run(NOTIFY_WAITERS, due):
                self._listener.has_room(queue)
        except psycopg.Error:
            pass
        except BaseException:
            connection.close()
            raise

    def _tell_late(self) -> None:
        """Tell what was put off, on a connection that nobody uses: none is opened for that. If all
        are used, the first to put one back does it.
        """
        connection = self._pool.borrow()
        if connection is not None:
            try:
                self._send_notices(connection, self._listener.notices)
            finally:
                self._pool.put(connection, borrowed=True)
        elif not self._pool.has_any:
            self._listener.notices.forget()

    def _run_alone(self, sql: bytes, parameters: Sequence[Any]) -> Sequence[Any]:
        """A statement of the listener's. Raises: psycopg.Error, and as the pool."""
        connection = self._pool.take()
        try:
            return connection.run(sql, parameters)
        except psycopg.Error:
            raise
        except BaseException:
            connection.close()
            raise
        finally:
            self._pool.put(connection)

    def signal(self, queue: str, change: Change = Change.ANY) -> int:
        """A number that changes when such a change may have come to the queue."""
        return self._listener.signal(queue, change)

    def wait(
        self, queue: str, seen: int, seconds: float, change: Change = Change.ANY
    ) -> None:
        """Return when the queue changed, or after `seconds`."""
        self._listener.wait(queue, seen, seconds, change)

    # --- the caller's transaction, and the end ---------------------------------------------------

    def within(self, connection: object) -> PostgresJoined:
        """A store that runs verbs in the transaction of that connection."""
        if self._pool.has_lost_one:
            self._known.clear()  # whatever has to be done beforehand may have to be done again
        return PostgresJoined(connection, self.run, self._wake, self._clock, self._known)

    def _wake(self, queue: str, change: Change = Change.ANY) -> None:
        self._notify(self._pool.take(), (Notice(queue, change),))

    def measures(self) -> dict[str, float]:
        """This process's view of its connections."""
        return self._pool.measures()

    def close(self) -> None:
        """Close the connections; waiting calls return."""
        self._listener.stop()
        self._pool.close()
