"""A new file for each test, and a store in it."""

from pathlib import Path

import pytest

from tests.support.files import put_file
from turnabout.sqlite.store import SqliteStore


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "app.db"


@pytest.fixture
def url(path: Path) -> str:
    return f"sqlite:///{path}"


@pytest.fixture
def store(url: str, path: Path):
    put_file(path)
    store = SqliteStore(url)
    yield store
    store.close()
