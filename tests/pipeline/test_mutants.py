"""The net of lives is tested, too: it must catch every planted bug, and soon."""

from contextlib import closing

import pytest

from tests.pipeline.life import live
from tests.pipeline.mutants import ON_POSTGRES, ON_SQLITE, Mutant
from tests.pipeline.steps import PLACES, Pipe
from tests.support.doors import opened

ROUNDS = 5
"""Of 40 lives each, until a bug must have been found; most are in the first one."""

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]


def find(pipe, mutant):
    found = False
    for start in range(ROUNDS):
        with closing(mutant(pipe)) as bad:
            try:
                live(bad, 40, shrink=False, start=start)
            except* AssertionError:  # some bugs spare the life that is lived again: a group
                found = True
        if found:
            return
    pytest.fail(f"{mutant.__name__} lived {ROUNDS} rounds, and nobody noticed")


@pytest.mark.share(2)
@pytest.mark.parametrize("mutant", ON_SQLITE)
def test_a_planted_bug_is_found(tmp_path, mutant):
    with opened(PLACES[0], tmp_path) as door, closing(Pipe(door)) as pipe:
        find(pipe, mutant)


@pytest.mark.share(2)
@pytest.mark.parametrize("pipe", PLACES[1:2], indirect=True)
@pytest.mark.parametrize("mutant", ON_POSTGRES)
def test_a_planted_bug_of_leases_or_two_writers_is_found(pipe, mutant):
    find(pipe, mutant)


@pytest.mark.parametrize("pipe", PLACES[:1], indirect=True)
def test_what_the_mutants_stand_on_is_sound(pipe):
    """Without a bug the same lives agree: what is caught above is the bug, not the wrapper."""
    with closing(Mutant(pipe)) as good:
        live(good, 20, shrink=False)
