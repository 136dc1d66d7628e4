"""An opened file in one process: a writer, a reader, a notifier. Both colours of store use it."""

from __future__ import annotations

import contextlib
import os
import sqlite3
import threading
from collections.abc import Sequence
from typing import Any, TypeVar, cast

from turnabout.sqlite._checkpoint import Checkpoints
from turnabout.sqlite._clock import Clock, FileClock
from turnabout.sqlite._connection import Connection, connect, open_reader, open_writer
from turnabout.sqlite._errors import our_errors
from turnabout.sqlite._notifier import FileNotifier
from turnabout.sqlite._url import Place
from turnabout.sqlite._writer import Pending, Writer
from turnabout.sqlite.procedures import procedure_of
from turnabout.sqlite.procedures.inbox import ANY, Drain
from turnabout.words.administration import QueuesDue, Totals
from turnabout.words.errors import TurnaboutError, UsageError
from turnabout.words.outcomes import must_hold
from turnabout.words.verb import Change
from turnabout.words.verbs import Fairness, ScheduleFire, Send, Stats, StatsOfChannels, Verb

A = TypeVar("A")


class Transaction(Verb[list[Any]]):
    """Some verbs as one: they are carried out in this order, or not at all."""

    verbs: tuple[Verb[Any], ...]
    all_or_none: bool


STORING = (Send, ScheduleFire)
"""Verbs that have to leave the last room on a disk to those that end messages."""

DRAINING = (Stats, StatsOfChannels, Fairness, Totals, QueuesDue)
"""Verbs before which what is in the inbox is sent, if that can be now."""


class Engine:
    """The connections of one process to one file, and what its callers share."""

    def __init__(self, place: Place, clock: Clock | None) -> None:
        self.pid = os.getpid()
        self._place = place
        self._time = FileClock(clock)
        connection = open_writer(place)
        self._checkpoints = Checkpoints(place, connection)
        connection.need_room = self._checkpoints.reserve.need
        self.writer = Writer(connection, place, self.run_on, self._committed, self._make_room)
        self._reading = threading.Lock()
        self._reader: Connection | None = None
        in_memory = place.path is None
        self.notifier = FileNotifier(None if in_memory else lambda: connect(place))
        self._commits = self._committed_verbs = 0

    def reads_aside(self, verb: Verb[Any]) -> bool:
        """Whether the verb can be answered without the writer. Memory has one connection only."""
        return self._place.path is not None and verb.reads

    def read(self, verb: Verb[A]) -> A:
        """Answer a verb that changes nothing, from one snapshot."""
        with self._reading, our_errors():
            if self.writer.closed:
                raise UsageError("the store is closed: connect again")
            if self._reader is None:
                self._reader = open_reader(self._place)
            connection = self._reader
            if isinstance(verb, DRAINING) and connection.execute(ANY).fetchone() is not None:
                with contextlib.suppress(TurnaboutError):
                    self.writer.run(Drain())
            try:
                connection.execute("begin")
                answer = self.run_on(connection, verb)
                connection.execute("commit")
            except BaseException:
                if connection.in_transaction:
                    connection.execute("rollback")
                raise
            return answer

    def measures(self) -> dict[str, float]:
        """Commits of this process, and the room there is; nothing of the latter in memory."""
        found: dict[str, float] = {
            "commits": self._commits,
            "verbs_committed": self._committed_verbs,
        }
        if self._place.path is not None:
            with contextlib.suppress(OSError, AttributeError):  # Windows has no statvfs
                disk = os.statvfs(self._place.path)
                found["disk_free_bytes"] = disk.f_bavail * disk.f_frsize
                found["file_bytes"] = self._place.path.stat().st_size
        return found

    def close(self) -> None:
        """Wait for what runs, then close all connections."""
        self.notifier.close()
        with self._reading:
            self.writer.close()
            if self._reader is not None:
                self._reader.close()
            self._checkpoints.close()

    def run_on(self, connection: Connection, verb: Verb[Any]) -> Any:
        kind = type(verb)
        procedure = procedure_of(kind)
        if procedure is None:
            if isinstance(verb, Transaction):
                return self._run_each(connection, verb)
            raise UsageError(f"{kind.__name__} is not a verb of this store")
        if kind in STORING:
            self._checkpoints.reserve.need()
        now, should_keep = self._time.read(connection)
        changes = connection.total_changes
        answer = procedure(connection, verb, now)
        if should_keep and connection.total_changes > changes:
            self._time.keep(connection, now)
        return answer

    def _run_each(self, connection: Connection, transaction: Transaction) -> list[Any]:
        answers: list[Any] = []
        for verb in transaction.verbs:
            answer = verb.nothing_to_do()
            answers.append(self.run_on(connection, verb) if answer is None else answer)
            if transaction.all_or_none:
                must_hold(answers)
        return answers

    def _make_room(self, verb: Verb[Any]) -> bool:
        verbs = verb.verbs if isinstance(verb, Transaction) else (verb,)
        stores = any(isinstance(one, STORING) for one in verbs)
        return not stores and self._checkpoints.make_room()

    def _committed(self, group: Sequence[Pending[Any]]) -> None:
        self._commits += 1
        self._committed_verbs += len(group)
        queues = self.writer.connection.to_notify
        for pending in group:
            verb = pending.verb
            if type(verb) is Transaction:
                queues |= {cast("Any", one).queue for one in verb.verbs if one.to_notify()}
            elif verb.to_notify() is not Change.NOTHING:
                queues.add(cast("Any", verb).queue)
        if queues:
            self.notifier.notify(*queues)
        # Whatever keeps it from that, the verbs are committed: an error here would undo no verb,
        # but have it carried out once more.
        with contextlib.suppress(sqlite3.Error, OSError, TurnaboutError):
            self._checkpoints.after_commit()
