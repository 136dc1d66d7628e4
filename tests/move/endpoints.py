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
import pytest

import turnabout
from tests.support.doors import Clock, migrate
from tests.support.postgres import GIVEN, VERSIONS, Server, fresh_database
from turnabout.move import Moved, move

NEWEST = 0 if GIVEN else max(VERSIONS)
one_version = pytest.mark.parametrize(
    "postgres_server", [NEWEST], ids=[f"pg{NEWEST or ''}"], indirect=True, scope="session"
)
"""For what is slow, and the same whatever PostgreSQL's version."""


@dataclass
class Endpoints:
    """A file that is to be moved, and a migrated, empty database to move it to."""

    source: str
    target: str

    def move(self, **options: Any) -> Moved:
        return move(self.source, self.target, **options)

    def ask(self, statement: str) -> list[tuple[Any, ...]]:
        """What the target answers, past all verbs."""
        with psycopg.connect(self.target, autocommit=True) as connection:
            return connection.execute(statement.encode()).fetchall()

    def empty(self) -> None:
        """The target as it was migrated, whatever a move has left there."""
        with psycopg.connect(self.target, autocommit=True) as connection:
            connection.execute("drop table if exists turnabout.move")
            tables = connection.execute(
                "select string_agg(format('turnabout.%I', tablename), ', ') from pg_tables"
                " where schemaname = 'turnabout'"
                " and tablename not in ('version', 'revision', 'permission', 'built')"
            ).fetchone()
            assert tables is not None
            connection.execute(f"truncate {tables[0]} restart identity cascade".encode())

    @property
    def path(self) -> str:
        return self.source.removeprefix("sqlite:///")

    def contents_of_the_file(self) -> Contents:
        """Messages and history in a file that was moved, past all verbs."""
        with contextlib.closing(sqlite3.connect(self.path)) as file:
            messages = file.execute(
                "select q.name, m.id, m.attempt, m.status, m.channel, m.payload, m.state, m.origin"
                " from turnabout_message m join turnabout_moved_queue q on q.id = m.queue_id"
                " order by m.id"
            ).fetchall()
            history = file.execute(
                "select q.name, h.id, h.outcome, h.attempt, h.finished_at, h.error"
                " from turnabout_history h"
                " join turnabout_moved_queue q on q.id = h.queue_id order by 2, 1, 5"
            ).fetchall()
        return Contents(messages, history)

    def contents_there(self) -> Contents:
        """The same of the target."""
        messages = self.ask(
            "select q.name::text, m.id, coalesce(p.attempt, m.attempt), p.status,"
            " m.channel::text, m.payload, m.state, m.origin"
            " from turnabout.queue q join turnabout.message m on m.queue_id = q.id left join ("
            " select id, 0 as status, null::int as attempt from turnabout.ready"
            " union all select id, 1, null from turnabout.scheduled"
            " union all select l.id, 2, l.attempt from turnabout.leased_messages("
            "(select array_agg(id) from turnabout.queue)) l"
            ") p on p.id = m.id order by m.id"
        )
        history = self.ask(
            "select q.name::text, h.id,"
            " (array['done', 'dead', 'cancelled', 'expired'])[h.outcome], h.attempt, h.finished_at,"
            " h.error from turnabout.history h join turnabout.queue q on q.id = h.queue_id"
            " order by 2, 1, 5"
        )
        return Contents(messages, history)


class Contents(NamedTuple):
    """Messages, and rows of history."""

    messages: list[tuple[Any, ...]]
    history: list[tuple[Any, ...]]


@contextlib.contextmanager
def fresh_endpoints(server: Server, folder: Path) -> Iterator[Endpoints]:
    with fresh_database(server, fill=migrate) as url:
        yield Endpoints(f"sqlite:///{folder}/app.db", url)


class MovingDoor:
    """A door of which each life gets a new one: a file, and after `move` the database, emptied."""

    asynchronous = False
    has = frozenset({"sharing"})

    def __init__(self, endpoints: Endpoints) -> None:
        self.clock = Clock()
        self._endpoints = endpoints
        self._number = itertools.count(1)
        self._stack = contextlib.ExitStack()
        self.mq: Any = None

    def renew(self) -> None:
        """Another file."""
        self.close()
        self._endpoints.empty()
        self._file = f"{self._endpoints.source}.{next(self._number)}"
        self._url = self._file
        self.mq = self._stack.enter_context(self.open())

    def move(self) -> Any:
        """Move in the middle of everything; the old connection still stands."""
        move(self._file, self._endpoints.target)
        self._url = self._endpoints.target
        return self._stack.enter_context(self.open())

    def open(self) -> Any:
        return turnabout.connect(self._url, clock=self.clock)

    def name_of_a_queue(self) -> str:
        return "q"

    def close(self) -> None:
        self._stack.close()
