"""Group commit: whoever comes to an idle writer leads, and commits all that wait together.

A commit at full durability costs more than the verbs in it, and SQLite has one writer. So a
caller hangs a ticket on the line; the first one takes up to 64 tickets into one transaction, and
hands the lead to the next in line. A lone caller never leaves its thread.
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
from turnabout.words.errors import TurnaboutError, UsageError
from turnabout.words.verbs import Verb

A = TypeVar("A")
TOGETHER_MAX = 64


class Ticket(Generic[A]):
    """A verb in line for the writer, and then its answer or its error."""

    __slots__ = ("answer", "done", "error", "told", "verb")

    def __init__(self, verb: Verb[A]) -> None:
        self.verb = verb
        self.answer: A | None = None
        self.error: BaseException | None = None
        self.done = False
        self.told: threading.Event | None = None

    def result(self) -> A:
        if self.error is not None:
            raise self.error
        return cast("A", self.answer)


Carry = Callable[[Connection, Verb[Any]], Any]
"""Carries out a verb on a connection, inside a transaction."""


class Writer:
    """The one connection of this process that writes, and the line before it."""

    def __init__(
        self,
        connection: Connection,
        place: Place,
        carry: Carry,
        committed: Callable[[Sequence[Ticket[Any]]], None],
    ) -> None:
        """`committed` is told of each transaction before the next one may begin."""
        self.connection = connection
        self._turnstile = Turnstile(place)
        self._carry = carry
        self._committed = committed
        self._line: deque[Ticket[Any]] = deque()
        self._mutex = threading.Lock()
        self._leader: Ticket[Any] | None = None
        self._using = threading.Lock()
        self.closed = False

    def run(self, verb: Verb[A]) -> A:
        """Carry out a verb, together with what else waits."""
        ticket = Ticket(verb)
        try:
            with self._mutex:
                if self._leader is None:
                    self._leader = ticket
                else:
                    ticket.told = threading.Event()
                self._line.append(ticket)
            if ticket.told is not None:
                ticket.told.wait()  # until it is done, or leads
            if not ticket.done:
                self._lead(ticket)
                with self._mutex:
                    self._pass_on()
        except BaseException:  # a signal, at whatever moment: nobody may wait for us for ever
            self._leave(ticket)
            raise
        return ticket.result()

    def commit(self, tickets: Sequence[Ticket[Any]]) -> None:
        """Carry out these verbs in one transaction, if it can be; each ticket is then done.

        Where the transaction as a whole fails, each verb is tried on its own, so that a full disk
        that stops a send does not stop an ack.
        """
        try:
            with self._using:
                self._commit(tickets)
        except sqlite3.Error as error:
            cause = translated(error)
            cause.__cause__ = error
            self._retry(tickets, cause)
        except Exception as error:  # noqa: BLE001  # it belongs to a ticket, maybe another's
            self._retry(tickets, error)

    def close(self) -> None:
        """Wait for the running transaction, then close the connection."""
        with self._using:
            self.closed = True
            self._turnstile.close()
            self.connection.close()

    # --- the line -------------------------------------------------------------------------------

    def _lead(self, ticket: Ticket[Any]) -> None:
        """Commit until the own ticket is done."""
        together: list[Ticket[Any]] = []
        try:
            while not ticket.done:
                with self._mutex:
                    together[:] = islice(self._line, TOGETHER_MAX)
                    for _ in together:
                        self._line.popleft()
                self.commit(together)
                self._tell(together)
        except BaseException:
            self._tell(together)
            raise

    def _tell(self, together: list[Ticket[Any]]) -> None:
        """Those that are done go on; an interrupted leader leaves the others in line."""
        for other in reversed(together):
            if other.done:
                if other.told is not None:
                    other.told.set()
            else:
                with self._mutex:
                    if other not in self._line:
                        self._line.appendleft(other)

    def _leave(self, ticket: Ticket[Any]) -> None:
        """The caller of that ticket waits no longer."""
        with self._mutex:
            if ticket in self._line:
                self._line.remove(ticket)
            if self._leader is ticket:
                self._pass_on()

    def _pass_on(self) -> None:
        """The next in line leads."""
        self._leader = self._line[0] if self._line else None
        if self._leader is not None:
            assert self._leader.told is not None
            self._leader.told.set()

    # --- the transaction ------------------------------------------------------------------------

    def _commit(self, tickets: Sequence[Ticket[Any]]) -> None:
        if self.closed:
            raise UsageError("the store is closed: connect again")
        connection = self.connection
        connection.news.clear()
        committing = False
        try:
            self._turnstile.begin(connection)
            self._carry_all(connection, tickets)
            committing = True
            connection.execute("commit")
            _mark_done(tickets)
        except BaseException as error:
            if connection.in_transaction:
                connection.execute("rollback")
                committing = False
            if isinstance(error, Exception) or not committing:
                raise
            _mark_done(tickets)  # interrupted just after the commit: it must not happen twice
            raise
        self._committed(tickets)

    def _carry_all(self, connection: Connection, tickets: Sequence[Ticket[Any]]) -> None:
        """The verbs in a hurry, without savepoints: for the sake of one, SQLite copies each page
        before it is changed. If one has to be undone, all start over, each in a savepoint.
        """
        connection.hasty = True
        try:
            for ticket in tickets:
                self._carry_hastily(connection, ticket)
        except StartOver:
            connection.execute("rollback")
            connection.news.clear()
            connection.hasty = False
            self._turnstile.begin(connection)
            for ticket in tickets:
                self._carry_in_savepoint(connection, ticket)
        finally:
            connection.hasty = False

    def _carry_hastily(self, connection: Connection, ticket: Ticket[Any]) -> None:
        written = connection.total_changes
        try:
            ticket.answer = self._carry(connection, ticket.verb)
        except TurnaboutError as error:
            if connection.total_changes > written:
                raise StartOver from error
            ticket.error = error

    def _carry_in_savepoint(self, connection: Connection, ticket: Ticket[Any]) -> None:
        """A verb whose error undoes nothing but itself."""
        ticket.error = None
        connection.execute("savepoint verb")
        try:
            ticket.answer = self._carry(connection, ticket.verb)
        except Exception as error:
            if not connection.in_transaction or not isinstance(error, TurnaboutError):
                raise  # SQLite has rolled back everything, or something is wrong with it
            connection.execute("rollback to verb")
            ticket.error = error
        connection.execute("release verb")

    def _retry(self, tickets: Sequence[Ticket[Any]], error: Exception) -> None:
        if len(tickets) == 1:
            tickets[0].error = error
            tickets[0].done = True
            return
        for ticket in tickets:
            ticket.error = ticket.answer = None
            self.commit((ticket,))


def _mark_done(tickets: Sequence[Ticket[Any]]) -> None:
    for ticket in tickets:
        ticket.done = True
