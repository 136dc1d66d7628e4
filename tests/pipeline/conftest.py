"""What tests of pipelines ask for: `pipe`, once for each kind of database.

SQLite's file is one without syncing. Other doors than PostgreSQL 18's blocking one are `slow`.
"""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.pipeline.steps import PLACES, Pipe
from tests.support import doors
from tests.support.command_line import door_url, opened, program, run
from turnabout.pipeline.lake import Lake

__all__ = ["clock", "door_url", "opened", "pipe", "program", "run"]


@pytest.fixture(
    scope="session",
    params=[
        pytest.param(name, marks=[] if name in PLACES[:2] else [pytest.mark.slow])
        for name in PLACES
    ],
)
def pipe(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Pipe]:
    """A database, and time that stands still. Tests share it: each has queues of its own."""
    with doors.opened(request.param, tmp_path_factory.mktemp("pipe")) as door:
        pipe = Pipe(door)
        yield pipe
        pipe.close()


@pytest.fixture
def clock(pipe: Pipe):
    """The clock of the pipe."""
    return pipe.clock


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    """A lake of its own for each test."""
    return Lake(tmp_path / "lake")
