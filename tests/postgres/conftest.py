"""What the tests of the store on PostgreSQL ask for."""

import pytest


@pytest.fixture
def name(request: pytest.FixtureRequest) -> str:
    """Of a queue, in a database that the tests of a module share."""
    return f"q{abs(hash(request.node.nodeid))}"
