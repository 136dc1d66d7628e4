"""What the tests of `move` share: a file, a database to move it to, and both opened."""

from __future__ import annotations

import contextlib
import itertools
import sqlite3
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import psycopg

import penstock
from penstock.move import Moved, move
from tests.support.doors import Clock, migrate
from tests.support.postgres import Server, fresh_database


@dataclass
class House:
    """A file that is to be moved, and a migrated, empty database."""

    source: str
    target: str

    def move(self, **options: Any) -> Moved:
        return move(self.source, self.target, **options)

    def ask(self, statement: str) -> list[tuple[Any, ...]]:
        """What the target answers, past all verbs."""
        with psycopg.connect(self.target, autocommit=True) as connection:
            return connection.execute(statement.encode()).fetchall()

    @property
    def path(self) -> str:
        return self.source.removeprefix("sqlite:///")

    def contents_of_the_file(self) -> Contents:
        """Messages and history in a file that was moved, past all verbs."""
        with contextlib.closing(sqlite3.connect(self.path)) as file:
            messages = file.execute(
                "select q.name, m.id, m.attempt, m.status, m.channel, m.payload, m.state, m.origin"
                " from message m join penstock_moved_queue q on q.id = m.queue_id order by m.id"
            ).fetchall()
            history = file.execute(
                "select q.name, h.id, h.outcome, h.attempt, h.finished_at, h.error from history h"
                " join penstock_moved_queue q on q.id = h.queue_id order by 2, 1, 5"
            ).fetchall()
        return Contents(messages, history)

    def contents_there(self) -> Contents:
        """The same of the target."""
        messages = self.ask(
            "select q.name::text, m.id, m.attempt, m.status::int, m.channel::text, m.payload,"
            " m.state, m.origin from penstock.message m join penstock.queue q on q.id = m.queue_id"
            " where m.id > 0 order by m.id"
        )
        history = self.ask(
            "select q.name::text, h.id,"
            " (array['done', 'dead', 'cancelled', 'expired'])[h.outcome], h.attempt, h.finished_at,"
            " h.error from penstock.history h join penstock.queue q on q.id = h.queue_id"
            " order by 2, 1, 5"
        )
        return Contents(messages, history)


class Contents(NamedTuple):
    """Messages, and rows of history."""

    messages: list[tuple[Any, ...]]
    history: list[tuple[Any, ...]]


@contextlib.contextmanager
def fresh_house(server: Server, folder: Path) -> Iterator[House]:
    with fresh_database(server, fill=migrate) as url:
        yield House(f"sqlite:///{folder}/app.db", url)


class MovingDoor:
    """A door of which each life gets a new one: a file, and after `move` the database."""

    asynchronous = False
    has = frozenset({"sharing"})

    def __init__(self, server: Server, folder: Path) -> None:
        self.clock = Clock()
        self._server, self._folder = server, folder
        self._number = itertools.count(1)
        self._stack = contextlib.ExitStack()
        self.ps: Any = None
        self.has_moved = False

    def renew(self) -> None:
        """Another file."""
        self.close()
        self._file = f"sqlite:///{self._folder}/{next(self._number)}.db"
        self._url, self.has_moved = self._file, False
        self.ps = self._stack.enter_context(self.open())

    def move(self) -> Any:
        """Move in the middle of everything; the old connection still stands."""
        self._url = self._stack.enter_context(fresh_database(self._server, fill=migrate))
        move(self._file, self._url)
        self.has_moved = True
        return self._stack.enter_context(self.open())

    def open(self) -> Any:
        return penstock.connect(self._url, clock=self.clock)

    def name_of_a_queue(self) -> str:
        return "q"

    def close(self) -> None:
        self._stack.close()
