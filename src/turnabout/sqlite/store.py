"""The SQLite store for blocking callers."""

from __future__ import annotations

import os
import threading
from collections.abc import Sequence
from typing import Any, TypeVar

from turnabout.sqlite._clock import Clock
from turnabout.sqlite._engine import Engine, Transaction
from turnabout.sqlite._url import place
from turnabout.sqlite.joined import SqliteJoined
from turnabout.store import Store
from turnabout.words.errors import UsageError
from turnabout.words.verb import Change
from turnabout.words.verbs import Verb

A = TypeVar("A")

_left_to_parents: list[Engine] = []
"""Engines from before a fork. Closing them would take the parent's locks away."""


def is_in_memory(url: str) -> bool:
    """Whether an SQLite URL names no file. Raises: UsageError for one that names nothing."""
    return place(url).path is None


def path_of(url: str) -> str:
    """The absolute path of the file that an SQLite URL names."""
    return str(place(url).path)


class SqliteStore(Store):
    """A queue in a file or in memory. Threads share it, and their verbs are committed together.

    Many processes may open one file. After a fork the child opens it anew at its first call.
    """

    def __init__(self, url: str, *, clock: Clock | None = None) -> None:
        """Open, make or migrate the file.

        Raises: UsageError, Forbidden, WrongVersion: the message says what to do; Busy.
        """
        self._place = place(url)
        self._clock = clock
        self._opened = Engine(self._place, clock)
        self._reopening = threading.Lock()
        self._closed = False

    def run(self, verb: Verb[A]) -> A:
        """Carry out a verb in one transaction; from many threads, in one commit."""
        engine = self._engine()
        answer = verb.nothing_to_do()
        if answer is not None:
            return answer
        return engine.read(verb) if engine.reads_aside(verb) else engine.writer.run(verb)

    def run_transaction(
        self, verbs: Sequence[Verb[Any]], *, all_or_none: bool = False
    ) -> list[Any]:
        """Carry out some verbs in one transaction, in this order; their outcomes, or none."""
        return self._engine().writer.run(Transaction(tuple(verbs), all_or_none))

    def signal(self, queue: str, change: Change = Change.ANY) -> int:
        """A version number; it changes after every commit that may matter to receivers."""
        return self._engine().notifier.signal(queue, change)

    def wait(self, queue: str, seen: int, seconds: float, change: Change = Change.ANY) -> None:
        """Return when `signal(queue)` is no longer `seen`, or after `seconds`, or at `close`."""
        self._engine().notifier.wait(queue, seen, seconds, change)

    def within(self, connection: object) -> SqliteJoined:
        """A store that runs verbs in the caller's transaction."""
        return SqliteJoined(self._engine, connection)

    def close(self) -> None:
        """Close the file. Waiting calls return; later calls raise UsageError."""
        self._closed = True
        if self._opened.pid == os.getpid():
            self._opened.close()

    def _engine(self) -> Engine:
        if self._closed:
            raise UsageError("the store is closed: connect again")
        engine = self._opened
        return engine if engine.pid == os.getpid() else self._reopen()

    def _reopen(self) -> Engine:
        """An SQLite connection does not survive a fork, so the child opens its own."""
        if self._place.path is None:
            raise UsageError("memory is not shared with a forked process: use a file")
        with self._reopening:
            if self._opened.pid != os.getpid():
                _left_to_parents.append(self._opened)
                self._opened = Engine(self._place, self._clock)
            return self._opened
