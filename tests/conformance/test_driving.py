"""The tests marked `driving` meet every outcome of every verb: they are all that most doors run."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args

import pytest

from turnabout.words.verbs import VOCABULARY

ROOT = Path(__file__).parents[2]


def outcomes(answer: Any) -> Iterator[type[Any]]:
    """The classes that an answer is made of: of a union, of a tuple, or the one itself."""
    inside = [part for part in get_args(answer) if part is not Ellipsis]
    if not inside and isinstance(answer, type):
        yield answer
    for part in inside:
        yield from outcomes(part)


@pytest.mark.slow
def test_the_driving_tests_meet_every_outcome(tmp_path: Path) -> None:
    met = tmp_path / "met"
    words = ["-q", "-m", "driving", "-p", "tests.support.met", "-p", "no:cacheprovider"]
    env = {**os.environ, "TURNABOUT_DOORS": "sqlite-unsynced", "TURNABOUT_MET": str(met)}
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *words, str(Path(__file__).parent)],
        cwd=ROOT,
        env=env,
        check=False,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout[-3000:]
    wanted = {
        f"{kind.name} {outcome.__name__}"
        for kind in VOCABULARY
        for outcome in outcomes(kind.__orig_bases__[0].__args__[0])
    }
    assert wanted - set(met.read_text().splitlines()) == set()
