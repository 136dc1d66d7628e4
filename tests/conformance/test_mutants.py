"""The net of lives is tested, too: it must catch every planted bug, and soon."""

import pytest

from tests.conformance.life import live
from tests.conformance.mutants import Mutant, mutants, spoiled
from tests.support.doors import opened

MANY = 400
"""Lives until a bug must have been found; most are found in the first thirty."""


@pytest.mark.slow
@pytest.mark.timeout(180)
@pytest.mark.parametrize("mutant", list(mutants()), ids=lambda mutant: mutant.__name__)
def test_a_planted_bug_is_found(mutant, tmp_path):
    with opened("sqlite-unsynced", tmp_path) as door, spoiled(door, mutant):
        try:
            live(door, MANY, shrink=False)
        except AssertionError:
            return
    pytest.fail(f"{mutant.__name__} lived {MANY} lives, and nobody noticed")


@pytest.mark.slow
def test_what_the_mutants_stand_on_is_sound(tmp_path):
    """Without a bug the same lives agree: what is caught above is the bug, not the wrapper."""
    with opened("sqlite-unsynced", tmp_path) as door, spoiled(door, Mutant):
        live(door, 30, shrink=False)
