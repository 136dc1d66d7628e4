"""The net of lives is tested, too: it must catch every planted bug, and soon."""

import pytest

from tests.conformance import mutants_schedules, mutants_told
from tests.conformance.life import live
from tests.conformance.mutants import Mutant, mutants, spoiled
from tests.support.doors import opened

assert {mutants_schedules.FiredTwice, mutants_told.ReleaseIsNoEvent} <= set(mutants())
ROUNDS = 16
"""Of 25 lives each, until a bug must have been found; nearly all are in the first two. Many short
rounds find more than one long one, whose lives are variations of each other.
"""


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.share(6)
@pytest.mark.parametrize("mutant", list(mutants()))
def test_a_planted_bug_is_found(mutant, tmp_path):
    found = False
    with opened("sqlite-unsynced", tmp_path) as door, spoiled(door, mutant):
        for start in range(mutant.first_round, mutant.first_round + ROUNDS):
            try:
                live(door, 25, shrink=False, start=start)
            except* AssertionError:  # some bugs spare the life that is lived again: a group
                found = True
            if found:
                return
    pytest.fail(f"{mutant.__name__} lived {ROUNDS} rounds, and nobody noticed")


@pytest.mark.slow
def test_what_the_mutants_stand_on_is_sound(tmp_path):
    """Without a bug the same lives agree: what is caught above is the bug, not the wrapper."""
    with opened("sqlite-unsynced", tmp_path) as door, spoiled(door, Mutant):
        live(door, 30, shrink=False)
