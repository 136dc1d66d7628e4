"""Random lives of pipelines, lived by the store and by the model: they agree after every step."""

from collections import Counter
from contextlib import closing

import pytest

from tests.pipeline.life import live
from tests.pipeline.steps import Pipe
from tests.support.doors import opened
from tests.support.seeds import fresh

pytestmark = pytest.mark.slow

OFTEN = ["Published", "rows", "removed", "log lost", "LeaseLost"]
LEASES = ["epochs", "acknowledged", "lost", "the recorded one", "isolated", "set aside"]
LEASES += ["dead alone", "waits", "superseded", "ahead", "held back"]  # of PostgreSQL alone
SELDOM = ["PublishedLater", "AlreadyPublished", "StageIncomplete"]
"""Seen where lives are quick enough for many."""
ROUNDS = range(4, 20)
"""In the first two all is seen, as Hypothesis draws today."""


@pytest.fixture
def alone(pipe, tmp_path):
    """Such a database of its own: among what other tests have left, a life takes long."""
    with opened(pipe.door.name, tmp_path) as door, closing(Pipe(door)) as alone:
        yield alone


@pytest.mark.timeout(600)
@pytest.mark.share(1)
def test_store_and_model_live_the_same_life(alone):
    """Each round has lives of its own, the same in every run: more of them where one was poor."""
    wanted = OFTEN + (LEASES if alone.is_postgres else SELDOM)
    seen: Counter[str] = Counter()
    for start in ROUNDS:
        seen += live(alone, 8 if alone.is_postgres else 60, start=start)
        if all(seen[what] for what in wanted):
            return
    pytest.fail(f"never seen: {[what for what in wanted if not seen[what]]} in {seen}")


@pytest.mark.timeout(600)
def test_lives_that_nobody_has_lived(alone):
    with fresh() as seed:
        live(alone, 10 if alone.is_postgres else 20, start=seed)
