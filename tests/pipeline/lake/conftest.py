"""What tests of archives ask for: a database, and `access`, what a pipeline has of it."""

from collections.abc import Iterator

import pytest

from tests.pipeline.spark.conftest import pytest_generate_tests
from tests.pipeline.spark.places import mq, place
from turnabout.pipeline.spark.access import Access

__all__ = ["mq", "place", "pytest_generate_tests"]


@pytest.fixture
def access(place: str) -> Iterator[Access]:
    opened = Access(place)
    yield opened
    opened.close()
