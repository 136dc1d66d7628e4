"""What tests with Spark share: `place`, a database, and `mq`, its face.

The verbs below are tested on both stores. What stands on them runs on SQLite, and what is `driving`
on PostgreSQL, too; with `dev.py test --all`, all of it.
"""

import pytest

from tests.pipeline.spark.places import STORES, mq, place
from tests.support.seeds import EVERYTHING

__all__ = ["mq", "place"]


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    marks = list(metafunc.definition.iter_markers())
    chosen = any("place" in mark.args[0] for mark in marks if mark.name == "parametrize")
    if "place" not in metafunc.fixturenames or chosen:
        return
    both = EVERYTHING or any(mark.name == "driving" for mark in marks)
    rounds = [STORES[0], pytest.param(STORES[1], marks=pytest.mark.slow)]
    metafunc.parametrize("place", rounds if both else rounds[:1], indirect=True)
