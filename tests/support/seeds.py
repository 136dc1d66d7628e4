"""The seed of a run: fresh each time, printed, and told again where something fails.

`TURNABOUT_SEED=123456` repeats the run that had it: the same lives, and the same cases of the tests
that are marked `share(n)`: of those a run has n, chosen by its seed, and `--all` all.
"""

import contextlib
import os
import random
import secrets
from collections import defaultdict
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TypeVar

import pytest

Case = TypeVar("Case")

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


def share_of(cases: Iterable[Case], most: int, whose: str) -> list[Case]:
    """So many of them, for the one who asks; with `--all` all."""
    known = list(cases)
    if EVERYTHING or len(known) <= most:
        return known
    return random.Random(f"{run_seed()} {whose}").sample(known, most)


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """After `-m` and `-k` have chosen: a share of what they left."""
    shared: dict[tuple[Path, str], list[pytest.Item]] = defaultdict(list)
    for item in items:
        if item.get_closest_marker("share"):
            shared[item.path, getattr(item, "originalname", item.name)].append(item)
    left_out: set[pytest.Item] = set()
    for (_, name), cases in shared.items():
        (most,) = next(cases[0].iter_markers("share")).args
        left_out.update(set(cases) - set(share_of(cases, most, name)))
    items[:] = [item for item in items if item not in left_out]
    config.hook.pytest_deselected(items=list(left_out))
