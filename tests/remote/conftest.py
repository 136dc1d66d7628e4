"""What the tests of the client ask for."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.served import Server, served


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    with served(f"sqlite:///{tmp_path}/app.db") as server:
        yield server
