"""A file and a database for each test."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.move.house import House, fresh_house
from tests.support.postgres import Server


@pytest.fixture
def house(postgres_server: Server, tmp_path: Path) -> Iterator[House]:
    with fresh_house(postgres_server, tmp_path) as house:
        yield house
