"""The PostgreSQL store for blocking callers: connections, calls, wake-ups.

A call takes an idle connection, or opens one, runs one statement in autocommit and puts it back. No
session state is used, so a transaction pooler may stand in between (prepared statements off then:
`?prepare=off`). Waiting holds no connection but the one that listens, shared by all who wait.
"""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, TypeVar

import psycopg

from turnabout.postgres import install
from turnabout.postgres.call import Call, Looks
from turnabout.postgres.calls import rung, steps
from turnabout.postgres.errors import meaning, translate
from turnabout.postgres.joined import PostgresJoined
from turnabout.postgres.url import Options, parse
from turnabout.postgres.wakeups import NOTIFY, Bell
from turnabout.postgres.wire import Connection
from turnabout.store import Store
from turnabout.words.errors import Busy, Disconnected, TurnaboutError, UsageError
from turnabout.words.verbs import Verb

A = TypeVar("A")

CHECK_SCHEMA = install.CHECK.encode()


class PostgresStore(Store):
    """See `turnabout.store.Store`. Opens its first connection at the first call."""

    def __init__(self, url: str, *, clock: Callable[[], int] | None = None) -> None:
        self._options: Options = parse(url)
        self._clock = clock
        self._known: set[str] = set()
        self._looks = Looks()
        self._pool = _Pool(self._options)
        self._bell = Bell()
        self._ear: threading.Thread | None = None
        self._lock = threading.Lock()
        self._closed = threading.Event()
        self._pid = os.getpid()

    def run(self, verb: Verb[A]) -> A:
        """Carry out a verb by one call of its function."""
        talk = steps(verb)
        try:
            call, part = next(talk)
            while True:
                call, part = talk.send(self._call(call, part))
        except StopIteration as end:
            return end.value

    def _call(self, call: Call, verb: Any) -> Any:
        now = self._now()
        parameters = call.parameters(verb, now)
        try:
            sql = self._looks.statement(call, verb, now)
            return self._execute(call, sql, parameters, verb)
        except Disconnected:
            # A server that was restarted leaves dead connections behind: once more, on a new one.
            self._pool.forget()
            return self._execute(call, call.sql, parameters, verb)
        except Busy as error:
            if call.impatient is None or not isinstance(error.__cause__, psycopg.Error):
                raise  # or no connection was free: that was waited for already
            return self._execute(call, call.impatient, parameters, verb)

    def _now(self) -> int | None:
        return None if self._clock is None else self._clock()

    def _execute(self, call: Call, sql: bytes, parameters: Any, verb: Any) -> Any:
        connection = self._pool.take()
        try:
            rows = connection.run(sql, parameters)
        except psycopg.Error as error:
            self._pool.put(connection)
            raise meaning(error, self._options.url, verb) from error
        except BaseException:
            # Ctrl-C in the middle of a call: the connection is in an unknown state, so it goes.
            connection.raw.close()
            self._pool.put(connection)
            raise
        self._tell(connection, rung(call, verb, rows))
        return rows

    def run_together(self, verbs: Sequence[Verb[Any]]) -> list[Any]:
        """Carry out some verbs in one transaction."""
        if not verbs:
            return []
        connection = self._begin()
        news: set[str] = set()
        committing = False
        try:
            answers = [self._inside(connection, verb, news) for verb in verbs]
            committing = True
            connection.run(b"commit", ())
        except psycopg.Error as error:
            self._undo(connection)
            raise translate(error, self._options.url, sent=committing) from error
        except TurnaboutError:
            self._undo(connection)
            raise
        except BaseException:
            connection.raw.close()
            self._pool.put(connection)
            raise
        self._tell(connection, sorted(news))
        return answers

    def _begin(self) -> Connection:
        """A connection with a transaction open."""
        for last in (False, True):
            connection = self._pool.take()
            try:
                connection.run(b"begin", ())
            except psycopg.Error as error:
                self._pool.put(connection)
                if last:
                    raise translate(error, self._options.url) from error
                self._pool.forget()
            except BaseException:
                connection.raw.close()
                self._pool.put(connection)
                raise
            else:
                return connection
        raise AssertionError("the second round ends")

    def _inside(self, connection: Connection, verb: Verb[Any], news: set[str]) -> Any:
        """A verb in the transaction of that connection. Nothing in it waits for rows."""
        talk = steps(verb)
        try:
            call, part = next(talk)
            while True:
                parameters = call.parameters(part, self._now())
                try:
                    rows = connection.run(call.impatient or call.sql, parameters)
                except psycopg.Error as error:
                    if (error.sqlstate or "").startswith("PQ"):
                        raise meaning(error, self._options.url, part) from error
                    raise
                news.update(rung(call, part, rows))
                call, part = talk.send(rows)
        except StopIteration as end:
            return end.value

    def _undo(self, connection: Connection) -> None:
        if not connection.raw.closed:
            try:
                connection.run(b"rollback", ())
            except psycopg.Error:
                connection.raw.close()
        self._pool.put(connection)

    def _tell(self, connection: Connection, queues: Sequence[str]) -> None:
        """News of queues, here and to other processes; then the connection goes back."""
        try:
            for queue in queues:
                if self._bell.ring(queue, self._ring_later):
                    connection.run(NOTIFY, (queue,))
        except psycopg.Error:
            pass  # the verb is done; a notification is a hint only: receivers poll
        finally:
            self._pool.put(connection)

    def _ring_later(self, queue: str, seconds: float) -> None:
        """The last of many quick sends must be heard too: notify at the end of the pause."""

        def ring() -> None:
            self._bell.rang(queue)
            if self._closed.is_set():
                return
            try:
                connection = self._pool.take()
                try:
                    connection.run(NOTIFY, (queue,))
                finally:
                    self._pool.put(connection)
            except (psycopg.Error, TurnaboutError):
                pass  # a hint only: receivers poll

        timer = threading.Timer(seconds, ring)
        timer.daemon = True
        timer.start()

    def signal(self, queue: str) -> int:
        """A number that changes when something may have been sent to the queue."""
        self._listen()
        return self._bell.heard(queue)

    def wait(self, queue: str, seen: int, seconds: float) -> None:
        """Return on news of the queue, or after `seconds`, at most the polling interval."""
        self._bell.wait(queue, seen, min(seconds, self._options.poll_seconds))

    def _listen(self) -> None:
        if self._pid != os.getpid():  # a forked child listens for itself
            self._pid, self._bell, self._ear = os.getpid(), Bell(), None
            self._lock = threading.Lock()
        if self._ear is not None or not self._options.listen:
            return
        with self._lock:
            if self._ear is None:
                self._ear = threading.Thread(
                    target=self._hear, name="turnabout-listen", daemon=True
                )
                self._ear.start()
        self._bell.ready.wait(1.0)

    def _hear(self) -> None:
        """Hold one connection that listens; if it breaks, polling goes on and it tries again."""
        while not self._closed.is_set():
            try:
                with psycopg.connect(self._options.conninfo, autocommit=True) as connection:
                    connection.execute("listen turnabout")
                    self._bell.ready.set()
                    self._bell.ring_all()
                    while not self._closed.is_set():
                        for note in connection.notifies(timeout=0.5):
                            self._bell.hear(note.payload)
                            if self._closed.is_set():
                                return
            except psycopg.Error:
                self._bell.ready.set()
                self._closed.wait(1.0)

    def within(self, connection: object) -> PostgresJoined:
        """A store on a connection of the caller's, in his transaction."""
        return PostgresJoined(connection, self.run, self._wake, self._clock, self._known)

    def _wake(self, queue: str) -> None:
        self._tell(self._pool.take(), (queue,))

    def close(self) -> None:
        """Close the connections; waiting calls return."""
        self._closed.set()
        self._bell.ring_all()
        self._pool.close()
        if self._ear is not None and self._ear is not threading.current_thread():
            self._ear.join(2.0)


class _Pool:
    """Idle connections, last in first out, so that few stay in use; a limit on all of them.

    In the common case a call takes one and puts it back without any lock.
    """

    def __init__(self, options: Options) -> None:
        self._options = options
        self._idle: deque[Connection] = deque()
        self._changed = threading.Condition()
        self._open = 0
        self._waiting = 0
        self._pid = os.getpid()
        self._checked = False
        self._closed = False

    def take(self) -> Connection:
        """A connection, for this thread alone until it is put back."""
        if self._closed:
            raise UsageError("this connection was closed: open another by turnabout.connect")
        if self._pid != os.getpid():
            self._after_fork()
        while True:
            try:
                connection = self._idle.pop()
            except IndexError:
                if self._may_open():
                    return self._connect()
                continue
            if connection.is_fresh():
                return connection
            self._drop(connection)

    def put(self, connection: Connection) -> None:
        """Give it back; one that broke is dropped."""
        if connection.raw.closed or self._closed:
            self._drop(connection)
        else:
            self._idle.append(connection)
            if self._closed:  # since we looked
                self.forget()
            if self._waiting:
                with self._changed:
                    self._changed.notify()

    def forget(self) -> None:
        """Close what is idle: the server is another one now."""
        with suppress(IndexError):  # other threads do the same
            while True:
                self._drop(self._idle.pop())

    def close(self) -> None:
        """Close what is idle now, and the others when they are put back."""
        self._closed = True
        self.forget()

    def _drop(self, connection: Connection) -> None:
        connection.raw.close()
        with self._changed:
            self._open -= 1
            self._changed.notify()

    def _may_open(self) -> bool:
        """True: there is room for one more, and it is counted. False: one is idle by now."""
        with self._changed:
            self._waiting += 1
            try:
                free = self._changed.wait_for(
                    lambda: self._idle or self._open < self._options.max_connections,
                    self._options.busy_seconds,
                )
            finally:
                self._waiting -= 1
            if not free:
                raise Busy(
                    f"all {self._options.max_connections} connections were busy for "
                    f"{self._options.busy_seconds:g} seconds: nothing happened, repeat the call"
                )
            if self._idle:
                return False
            self._open += 1
            return True

    def _connect(self) -> Connection:
        try:
            return self._connect_checked()
        except BaseException:
            with self._changed:
                self._open -= 1
                self._changed.notify()
            raise

    def _connect_checked(self) -> Connection:
        """Open a connection; the first one asks whether the schema is this library's."""
        try:
            connection = Connection(self._options)
            if not self._checked:
                try:
                    step, oldest, ours = connection.run(CHECK_SCHEMA, ())[0]
                    install.check_schema(step, oldest, ours, self._options.url)
                except BaseException:
                    connection.raw.close()
                    raise
                self._checked = True
        except psycopg.Error as error:
            raise translate(error, self._options.url) from error
        return connection

    def _after_fork(self) -> None:
        """A child must not speak on its parent's sockets: leave them alone, open new ones."""
        self._idle, self._open, self._waiting = deque(), 0, 0
        self._changed = threading.Condition()
        self._pid = os.getpid()
