"""The seed of a run: fresh each time, printed, and told again where something fails.

`TURNABOUT_SEED=123456` repeats the run that had it: the same lives, and the same planted bugs.
"""

import contextlib
import os
import random
import secrets
from collections.abc import Iterator, Sequence
from typing import Any

import pytest

EVERYTHING = os.environ.get("TURNABOUT_TESTS") == "all"
"""`dev.py test --all`: each test at each door, every planted bug, and what is marked `long`."""


def pytest_configure() -> None:
    os.environ.setdefault("TURNABOUT_SEED", str(secrets.randbelow(1_000_000)))  # for workers, too


def pytest_report_header() -> str:
    return f"seed: {run_seed()} (TURNABOUT_SEED={run_seed()} repeats it)"


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, exitstatus: int) -> None:
    """Once more at the end of a run that failed, of which often no more than that is kept."""
    if exitstatus:
        terminalreporter.write_line(pytest_report_header())


def run_seed() -> int:
    return int(os.environ["TURNABOUT_SEED"])


@contextlib.contextmanager
def fresh() -> Iterator[int]:
    """The run's seed, which is told if the block fails."""
    try:
        yield run_seed()
    except BaseException as error:
        error.add_note(f"TURNABOUT_SEED={run_seed()} repeats it")
        raise


def shares(planted: Sequence[Any], most: int, attribute: str = "__name__") -> list[Any]:
    """Planted bugs, or what else takes long, as cases of a test: a share of them in each run, with
    `--all` all.
    """
    chosen = planted if EVERYTHING else random.Random(run_seed()).sample(planted, most)
    return [pytest.param(bug, id=getattr(bug, attribute)) for bug in chosen]
