"""Group commit: the caller that finds the writer idle leads, and commits all that wait together.

A commit at full durability costs more than the verbs in it, and SQLite has one writer. So a
caller adds its verb to those that wait; the first one takes up to 64 of them into one transaction,
and hands the lead to the next. A lone caller never leaves its thread.
"""

from __future__ import annotations

import sqlite3
import threading
from collections import deque
from collections.abc import Callable, Sequence
from itertools import islice
from typing import Any, Generic, TypeVar, cast

from turnabout.sqlite._connection import Connection, StartOver
from turnabout.sqlite._errors import translated
from turnabout.sqlite._turnstile import Turnstile
from turnabout.sqlite._url import Place
from turnabout.words.errors import StorageFull, TurnaboutError, UsageError
from turnabout.words.verbs import Verb

A = TypeVar("A")
GROUP_MAX = 64


class Pending(Generic[A]):
    """A verb that waits for the writer, and then its answer or its error."""

    __slots__ = ("answer", "done", "error", "verb", "wakeup")

    def __init__(self, verb: Verb[A]) -> None:
        self.verb = verb
        self.answer: A | None = None
        self.error: BaseException | None = None
        self.done = False
        self.wakeup: threading.Event | None = None

    def result(self) -> A:
        if self.error is not None:
            raise self.error
        return cast("A", self.answer)


Run = Callable[[Connection, Verb[Any]], Any]
"""Carries out a verb on a connection, inside a transaction."""


class Writer:
    """The one connection of this process that writes, and the verbs that wait for it."""

    def __init__(
        self,
        connection: Connection,
        place: Place,
        run: Run,
        committed: Callable[[Sequence[Pending[Any]]], None],
        make_room: Callable[[Verb[Any]], bool],
    ) -> None:
        """`committed` is called after each transaction, before the next one may begin; `make_room`
        where a verb found the disk full: whether another try may do better.
        """
        self.connection = connection
        self._turnstile = Turnstile(place)
        self._run = run
        self._committed = committed
        self._make_room = make_room
        self._waiting: deque[Pending[Any]] = deque()
        self._mutex = threading.Lock()
        self._leader: Pending[Any] | None = None
        self._using = threading.Lock()
        self.closed = False

    def run(self, verb: Verb[A]) -> A:
        """Carry out a verb, together with what else waits."""
        pending = Pending(verb)
        try:
            with self._mutex:
                if self._leader is None:
                    self._leader = pending
                else:
                    pending.wakeup = threading.Event()
                    self._waiting.append(pending)
            if pending.wakeup is not None:
                pending.wakeup.wait()  # until it is done, or leads
            if not pending.done:
                self._lead(pending)
                self._pass_on()
        except BaseException:  # a signal, at whatever moment: nobody may wait for us for ever
            self._leave(pending)
            raise
        return pending.result()

    def commit(self, group: Sequence[Pending[Any]]) -> None:
        """Carry out these verbs in one transaction, if it can be; each is then done.

        Where the transaction as a whole fails, each verb is tried on its own, so that a full disk
        that stops a send does not stop an ack. That is given what room was kept.
        """
        error = self._try(group)
        if isinstance(error, StorageFull) and len(group) == 1:
            with self._using:
                may_go_on = self._make_room(group[0].verb)
            error = self._try(group) if may_go_on else error
        if error is not None:
            self._retry(group, error)

    def close(self) -> None:
        """Wait for the running transaction, then close the connection."""
        with self._using:
            self.closed = True
            self._turnstile.close()
            self.connection.close()

    # --- waiting -------------------------------------------------------------------------------

    def _lead(self, pending: Pending[Any]) -> None:
        """Commit the own verb, with those of others that wait."""
        group = [pending]
        try:
            if self._waiting:
                with self._mutex:
                    if self._waiting and self._waiting[0] is pending:  # it waited itself
                        self._waiting.popleft()
                    group += islice(self._waiting, GROUP_MAX - 1)
                    for _ in group[1:]:
                        self._waiting.popleft()
            self.commit(group)
            self._wake(group[1:])
        except BaseException:
            self._wake(group[1:])
            raise

    def _wake(self, others: list[Pending[Any]]) -> None:
        """Wake callers that are done; an interrupted leader leaves the others waiting."""
        for other in reversed(others):
            if other.done:
                assert other.wakeup is not None
                other.wakeup.set()
            else:
                with self._mutex:
                    if other not in self._waiting:
                        self._waiting.appendleft(other)

    def _leave(self, pending: Pending[Any]) -> None:
        """Remove a call whose caller waits no longer."""
        with self._mutex:
            if pending in self._waiting:
                self._waiting.remove(pending)
        if self._leader is pending:
            self._pass_on()

    def _pass_on(self) -> None:
        """The next one that waits leads."""
        with self._mutex:
            self._leader = self._waiting[0] if self._waiting else None
            if self._leader is not None:
                assert self._leader.wakeup is not None
                self._leader.wakeup.set()

    # --- the transaction ------------------------------------------------------------------------

    def _try(self, group: Sequence[Pending[Any]]) -> Exception | None:
        """Commit the group; return the error that prevented it."""
        try:
            with self._using:
                self._commit(group)
        except sqlite3.Error as error:
            cause = translated(error)
            cause.__cause__ = error
            return cause
        except Exception as error:  # noqa: BLE001  # one caller's, maybe another's
            return error
        return None

    def _commit(self, group: Sequence[Pending[Any]]) -> None:
        if self.closed:
            raise UsageError("the store is closed: connect again")
        connection = self.connection
        connection.to_notify.clear()
        committing = False
        try:
            self._turnstile.begin(connection)
            self._run_all(connection, group)
            committing = True
            connection.execute("commit")
            self._turnstile.committed()
            _mark_done(group)
        except BaseException as error:
            if connection.in_transaction:
                connection.execute("rollback")
                committing = False
            if isinstance(error, Exception) or not committing:
                raise
            _mark_done(group)  # interrupted just after the commit: it must not happen twice
            raise
        self._committed(group)

    def _run_all(self, connection: Connection, group: Sequence[Pending[Any]]) -> None:
        """Optimistically, without savepoints: for the sake of one, SQLite copies each page before
        it is changed. If a verb has to be undone, all start over, each in a savepoint.
        """
        connection.optimistic = True
        try:
            for pending in group:
                written = connection.total_changes
                try:
                    pending.answer = self._run(connection, pending.verb)
                except TurnaboutError as error:
                    if connection.total_changes > written:
                        raise StartOver from error
                    pending.error = error
        except StartOver:
            connection.execute("rollback")
            connection.to_notify.clear()
            connection.optimistic = False
            self._turnstile.begin(connection)
            for pending in group:
                self._run_in_savepoint(connection, pending)
        finally:
            connection.optimistic = False

    def _run_in_savepoint(self, connection: Connection, pending: Pending[Any]) -> None:
        """A verb whose error undoes nothing but itself."""
        pending.error = None
        connection.execute("savepoint verb")
        try:
            pending.answer = self._run(connection, pending.verb)
        except Exception as error:
            if not connection.in_transaction or not isinstance(error, TurnaboutError):
                raise  # SQLite has rolled back everything, or something is wrong with it
            connection.execute("rollback to verb")
            pending.error = error
        connection.execute("release verb")

    def _retry(self, group: Sequence[Pending[Any]], error: Exception) -> None:
        if len(group) == 1:
            group[0].error = error
            group[0].done = True
            return
        for pending in group:
            pending.error = pending.answer = None
            self.commit((pending,))


def _mark_done(group: Sequence[Pending[Any]]) -> None:
    for pending in group:
        pending.done = True
