"""What the tests of the SQLite store share: a verb to run, a count to check, a full disk."""

import multiprocessing

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
