"""`tasks`: of a blocking application, on each database."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.postgres import migrated
from turnabout.tasks import Tasks


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=pytest.mark.slow)])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    if request.param == "sqlite":
        yield f"sqlite:///{tmp_path}/app.db"
        return
    with migrated() as url:
        yield url


@pytest.fixture
def tasks(url: str) -> Iterator[Tasks]:
    tasks = Tasks(url)
    yield tasks
    tasks.close()
