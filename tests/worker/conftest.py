"""What the tests of worker processes ask for."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support import postgres
from tests.support.doors import migrate
from tests.worker.yard import Yard


@pytest.fixture
def yard(tmp_path: Path) -> Iterator[Yard]:
    with contextlib.closing(Yard(tmp_path)) as made:
        yield made


@pytest.fixture(params=["sqlite", "postgres"])
def yard_anywhere(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Yard]:
    """The same on both databases."""
    if request.param == "sqlite":
        with contextlib.closing(Yard(tmp_path)) as made:
            yield made
        return
    server = postgres._servers.get(0 if postgres.GIVEN else max(postgres.VERSIONS))
    with (
        postgres.fresh_database(server, fill=migrate) as url,
        contextlib.closing(Yard(tmp_path, url)) as made,
    ):
        yield made
