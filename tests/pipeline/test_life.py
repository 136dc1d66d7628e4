"""Random lives of pipelines, lived by the store and by the model: they agree after every step."""

from collections import Counter

import pytest

from tests.pipeline.life import live
from tests.support.seeds import fresh

pytestmark = pytest.mark.slow

OFTEN = ["epochs", "acknowledged", "lost", "Published", "rows", "removed"]
SELDOM = [
    *("the recorded one", "isolated", "dead alone", "superseded", "ahead", "log lost"),
    *("PublishedLater", "AlreadyPublished", "StageIncomplete", "LeaseLost"),
]
"""Seen where lives are quick enough for many."""
ROUNDS = range(3, 11)
"""In the first one all is seen, as Hypothesis draws today."""


@pytest.mark.timeout(600)
@pytest.mark.share(1)
def test_store_and_model_live_the_same_life(pipe):
    """Each round has lives of its own, the same in every run: more of them where one was poor."""
    wanted = OFTEN + (["held back"] if pipe.is_postgres else SELDOM)
    seen: Counter[str] = Counter()
    for start in ROUNDS:
        seen += live(pipe, 15 if pipe.is_postgres else 60, start=start)
        if all(seen[what] for what in wanted):
            return
    pytest.fail(f"never seen: {[what for what in wanted if not seen[what]]} in {seen}")


@pytest.mark.timeout(600)
def test_lives_that_nobody_has_lived(pipe):
    with fresh() as seed:
        live(pipe, 10 if pipe.is_postgres else 20, start=seed)
