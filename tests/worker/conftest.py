"""What the tests of worker processes ask for."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.postgres import migrated
from tests.worker.yard import SOURCE, Yard


@pytest.fixture
def yard(tmp_path: Path) -> Iterator[Yard]:
    with contextlib.closing(Yard(tmp_path)) as made:
        yield made


@pytest.fixture
def here(yard: Yard, monkeypatch: pytest.MonkeyPatch) -> Yard:
    """A yard that this process is in, and those that it starts."""
    monkeypatch.chdir(yard.folder)
    monkeypatch.setenv("PYTHONPATH", str(SOURCE))
    return yard


@pytest.fixture(params=["sqlite", "postgres"])
def yard_anywhere(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Yard]:
    """The same on both databases."""
    if request.param == "sqlite":
        with contextlib.closing(Yard(tmp_path)) as made:
            yield made
        return
    with migrated() as url, contextlib.closing(Yard(tmp_path, url)) as made:
        yield made
