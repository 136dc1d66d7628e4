"""A file and a database for each test."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.move.endpoints import Endpoints, fresh_endpoints
from tests.support.postgres import Server


@pytest.fixture
def endpoints(postgres_server: Server, tmp_path: Path) -> Iterator[Endpoints]:
    with fresh_endpoints(postgres_server, tmp_path) as endpoints:
        yield endpoints
