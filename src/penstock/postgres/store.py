"""The PostgreSQL store for blocking callers: connections, calls, wake-ups.

A call takes an idle connection, or opens one, runs one statement in autocommit and puts it back. No
session state is used, so a transaction pooler may stand in between (prepared statements off then:
`?prepare=off`). Waiting holds no connection but the one that listens, shared by all who wait.
"""

from __future__ import annotations

import os
import select
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


class _Connection:
    """One connection in autocommit, with the cursor that all its calls use."""

    __slots__ = ("_cursor", "_poll", "raw")

    def __init__(self, options: Options) -> None:
        self.raw = psycopg.connect(
            options.conninfo,
            autocommit=True,
            prepare_threshold=0 if options.prepare else None,
        )
        self._cursor = psycopg.RawCursor(self.raw)
        self._cursor.format = psycopg.pq.Format.BINARY
        self._poll = select.poll()
        self._poll.register(self.raw.fileno(), select.POLLIN)

    def run(self, sql: bytes, parameters: Any) -> list[Any]:
        return self._cursor.execute(sql, parameters, binary=True).fetchall()

    def is_fresh(self) -> bool:
        """False if the server has hung up meanwhile: an idle connection has nothing to say."""
        return not self.raw.closed and not self._poll.poll(0)


class _Pool:
    """Idle connections, last in first out, so that few stay in use; a limit on all of them."""

    def __init__(self, options: Options) -> None:
        self._options = options
        self._idle: deque[_Connection] = deque()
        self._free = threading.Semaphore(options.max_connections)
        self._pid = os.getpid()
        self._checked = False
        self._closed = False

    def take(self) -> _Connection:
        if self._closed:
            raise UsageError("this connection was closed: open another by penstock.connect")
        if self._pid != os.getpid():
            self._after_fork()
        if not self._free.acquire(timeout=self._options.busy_seconds):
            raise Busy(
                f"all {self._options.max_connections} connections were busy for "
                f"{self._options.busy_seconds:g} seconds: nothing happened, repeat the call"
            )
        try:
            while self._idle:
                connection = self._idle.pop()
                if connection.is_fresh():
                    return connection
                connection.raw.close()
            return self._open()
        except BaseException:
            self._free.release()
            raise

    def put(self, connection: _Connection) -> None:
        if connection.raw.closed or self._closed:
            connection.raw.close()
        else:
            self._idle.append(connection)
        self._free.release()

    def forget(self) -> None:
        """Close what is idle: the server is another one now."""
        while self._idle:
            self._idle.pop().raw.close()

    def close(self) -> None:
        self._closed = True
        self.forget()

    def _open(self) -> _Connection:
        try:
            connection = _Connection(self._options)
        except psycopg.Error as error:
            raise translate(error, self._options.url) from error
        if not self._checked:
            self._check_schema(connection)
        return connection

    def _check_schema(self, connection: _Connection) -> None:
        """Refuse a database that another library's migrations have left."""
        try:
            rows = connection.run(CHECK_SCHEMA, ())
        except psycopg.Error as error:
            connection.raw.close()
            raise translate(error, self._options.url) from error
        try:
            check_schema(rows, self._options.url)
        except WrongVersion:
            connection.raw.close()
            raise
        self._checked = True

    def _after_fork(self) -> None:
        """A child must not speak on its parent's sockets: leave them alone, open new ones."""
        self._idle = deque()
        self._free = threading.Semaphore(self._options.max_connections)
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
