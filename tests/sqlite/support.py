"""What the tests of the SQLite store share: a verb to run, a count to check, a full disk,
and a writer that stops at a known place.
"""

import asyncio
import multiprocessing
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from turnabout.sqlite.async_store import AsyncSqliteStore
from turnabout.sqlite.store import SqliteStore
from turnabout.words.entities import Outgoing
from turnabout.words.verbs import Send, Stats

spawn = multiprocessing.get_context("spawn")


def one(payload: bytes = b"x") -> Send:
    return Send("q", (Outgoing(payload),))


def sent_in(store: SqliteStore) -> int:
    return store.run(Stats("q"))[0].sent


def full(store: SqliteStore) -> None:
    """From now on the file cannot grow."""
    connection = store._opened.writer.connection
    (pages,) = connection.execute("pragma page_count").fetchone()
    connection.execute(f"pragma max_page_count = {pages}")


async def until(condition: Callable[[], Any]) -> None:
    """Until a thread has made it so."""
    async with asyncio.timeout(60):
        while not condition():  # noqa: ASYNC110 - nothing else tells
            await asyncio.sleep(0.001)


@contextmanager
def held_at_commit(store: AsyncSqliteStore) -> Iterator[threading.Event]:
    """The writer's thread stops where it would commit; the event says that it stands there."""
    writer, committing = store._opened.writer, threading.Event()
    commit = writer.commit
    writer.commit = lambda tickets: (committing.set(), commit(tickets))
    with writer._using:
        yield committing
