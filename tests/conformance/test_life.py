"""Random lives, lived by the store and by the model in dicts: they agree after every step."""

from collections import Counter

import pytest

from tests.conformance.life import live
from tests.support.doors import opened
from tests.support.seeds import fresh

SEEN = [
    *("Acked", "Deferred", "Retrying", "Dead", "Extended", "Released"),
    *("lost: gone", "lost: leased", "lost: ready"),
    *("deliveries", "redeliveries", "refused sends", "ticks to a chance"),
    *("suppressed", "expired", "redriven", "neighbours buried", "fired", "left out"),
    *("event created", "event leased", "event deferred", "event failed", "event dead"),
    *("Cancelled", "CancelRequested", "Retried", "NotWaiting"),
]
SELDOM, RARE = ["replaced"], ["Blocked", "refused by the queue"]
"""Seen at the doors that are quick enough for some more lives, for many."""
ROUNDS = range(6)
"""In the first one all is seen, as Hypothesis draws today."""


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_store_and_model_live_the_same_life(door):
    """Each round has lives of its own, the same in every run: more of them where one was poor."""
    wanted = SEEN + SELDOM * (door.lives >= 60) + RARE * (door.lives >= 100)
    seen: Counter[str] = Counter()
    for start in ROUNDS:
        seen += live(door, examples=door.lives, start=start)
        if all(seen[what] for what in wanted):
            return
    pytest.fail(f"never seen: {[what for what in wanted if not seen[what]]} in {seen}")


@pytest.mark.long  # shrinking a life that failed takes minutes; every day has a few lives below
@pytest.mark.timeout(600)
def test_lives_that_nobody_has_lived(door):
    with fresh() as seed:
        assert live(door, examples=max(10, door.lives // 3), start=seed)["Acked"]


def test_a_few_lives_for_every_day(tmp_path):
    """So few that any one verb may be missing."""
    with opened("sqlite-memory", tmp_path) as door, fresh() as seed:
        assert live(door, examples=15, start=seed).total()
