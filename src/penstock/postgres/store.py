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
from typing import Any, TypeVar

import psycopg

from penstock.postgres import install
from penstock.postgres.calls import CALLS, Call
from penstock.postgres.errors import meaning, shown, translate
from penstock.postgres.items import merge_twins, nothing_to_do, without_twins
from penstock.postgres.url import Options, parse
from penstock.postgres.wakeups import NOTIFY, WAKING, Bell
from penstock.postgres.wire import Connection
from penstock.words.errors import Busy, Disconnected, PenstockError, UsageError, WrongVersion
from penstock.words.outcomes import Purged
from penstock.words.verbs import Purge, Verb

A = TypeVar("A")

CHECK_SCHEMA = b"select number, functions from penstock.version order by number desc limit 1"


class PostgresStore:
    """See `penstock.store.Store`. Opens its first connection at the first call."""

    def __init__(self, url: str, *, clock: Callable[[], int] | None = None) -> None:
        self._options: Options = parse(url)
        self._clock = clock
        self._pool = _Pool(self._options)
        self._bell = Bell()
        self._ear: threading.Thread | None = None
        self._lock = threading.Lock()
        self._closed = threading.Event()
        self._pid = os.getpid()

    def run(self, verb: Verb[A]) -> A:
        """Carry out a verb by one call of its function."""
        done = nothing_to_do(verb)
        if done is not NotImplemented:
            return done
        twins = without_twins(verb)
        if twins is not None:
            first, others = twins
            answers = self.run(first), self.run(others)
            return merge_twins(verb, *answers)  # type: ignore[return-value]
        call = CALLS[type(verb)]
        if isinstance(verb, Purge):
            return self._purge(call, verb)
        return self._call(call, verb)

    def _purge(self, call: Call, verb: Any) -> Any:
        """In parts, so that no transaction grows with the queue."""
        total = 0
        while part := self._call(call, verb).messages:
            total += part
        return Purged(total)

    def _call(self, call: Call, verb: Any) -> Any:
        now = None if self._clock is None else self._clock()
        parameters = call.parameters(verb, now)
        try:
            rows = self._execute(call.sql, parameters, verb)
        except Disconnected:
            # A server that was restarted leaves dead connections behind: once more, on a new one.
            self._pool.forget()
            rows = self._execute(call.sql, parameters, verb)
        except Busy:
            if call.impatient is None:
                raise
            rows = self._execute(call.impatient, parameters, verb)
        return call.answer(verb, rows)

    def _execute(self, sql: bytes, parameters: Any, verb: Any) -> Any:
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
        try:
            if type(verb) in WAKING and self._bell.ring(verb.queue, self._ring_later):
                connection.run(NOTIFY, (verb.queue,))
        except psycopg.Error:
            pass  # the verb is done; a notification is a hint only: receivers poll
        finally:
            self._pool.put(connection)
        return rows

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
            except (psycopg.Error, PenstockError):
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
                self._ear = threading.Thread(target=self._hear, name="penstock-listen", daemon=True)
                self._ear.start()
        self._bell.ready.wait(1.0)

    def _hear(self) -> None:
        """Hold one connection that listens; if it breaks, polling goes on and it tries again."""
        while not self._closed.is_set():
            try:
                with psycopg.connect(self._options.conninfo, autocommit=True) as connection:
                    connection.execute("listen penstock")
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
            raise UsageError("this connection was closed: open another by penstock.connect")
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
            if self._waiting:
                with self._changed:
                    self._changed.notify()

    def forget(self) -> None:
        """Close what is idle: the server is another one now."""
        while self._idle:
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
                    check_schema(connection.run(CHECK_SCHEMA, ()), self._options.url)
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


def check_schema(rows: Sequence[tuple[int, str]], url: str) -> None:
    """Refuse a schema that is not this library's; the text says which command to run."""
    current, functions = rows[0] if rows else (0, "")
    install.refuse_newer(current)
    if current < install.migrations()[-1].number or functions != install.digest():
        raise WrongVersion(
            f"the database {shown(url)} was set up by another version of this library: "
            f"run `penstock migrate up --url '{shown(url)}'`"
        )
