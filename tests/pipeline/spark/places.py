"""Databases for tests with Spark: real time, as executors have it, and a file that is synced never.

`place` is the URL of a fresh database on either store; `faces` of a queue behind it are closed.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

import turnabout
from tests.support.files import put_file
from tests.support.postgres import migrated

STORES = ("sqlite", "postgres")


@contextmanager
def placed(store: str, folder: Path) -> Iterator[str]:
    """The URL of a database of that kind."""
    if store == "sqlite":
        yield put_file(folder / "app.db") + "?synchronous=off"
        return
    with migrated() as url:
        yield url


@pytest.fixture
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """A fresh database of that kind."""
    with placed(request.param, tmp_path) as url:
        yield url


@pytest.fixture
def mq(place: str) -> Iterator[turnabout.Turnabout]:
    """What users have of it."""
    with turnabout.connect(place) as opened:
        yield opened


on_sqlite = pytest.mark.parametrize("place", STORES[:1], indirect=True)
on_postgres = pytest.mark.parametrize("place", STORES[1:], indirect=True)
"""For tests in Spark of what the tests without it hold on both stores."""


def finish(mq: turnabout.Turnabout, count: int, queue: str = "emails", **how: Any) -> list[int]:
    """Messages that are done, by id, in the order of their ending."""
    work = mq.queue(queue)
    ids = [work.send(f"{queue}-{n}", **how).ids[0] for n in range(count)]
    left = count
    while left:
        got = work.receive(min(left, 100))
        work.ack([message.receipt for message in got])
        left -= len(got)
    return ids
