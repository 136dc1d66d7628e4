"""What the tests of the clients ask for."""

from pathlib import Path

import pytest

from tests.clients.node import CLIENT, STRIPS_TYPES, Node, compiled, program, version


@pytest.fixture(scope="session")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the client, compiled."""
    return compiled(tmp_path_factory.mktemp("client"))


@pytest.fixture(scope="session")
def node(request: pytest.FixtureRequest) -> Node:
    """A Node, with the client as it can load it."""
    found = program()
    if found is None:
        pytest.skip("there is no Node: `python3 dev.py sync` brings one")
    if version(found) >= STRIPS_TYPES:
        return Node(found, strips_types=True, entry=CLIENT / "src/index.ts")
    folder: Path = request.getfixturevalue("built")
    return Node(found, strips_types=False, entry=folder / "dist/index.js")
