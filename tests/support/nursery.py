"""Where processes are born that die young: a process that has all they need, and forks.

For what is killed, or starts in tens. A program that is under test itself is started as a program.
"""

import multiprocessing
import os
from multiprocessing import forkserver
from multiprocessing.context import ForkServerContext
from pathlib import Path
from typing import Final

import pytest

ROOT: Final = Path(__file__).resolve().parents[2]
LOADED: Final = ["tests.joined.victim", "tests.upgrade.up"]
"""Modules that are there when a process is born. There is one nursery in a test run's process."""


@pytest.fixture(scope="session")
def nursery() -> ForkServerContext:
    """Its `Process(target=…, args=…)` starts in hundredths of a second."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(LOADED)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", str(ROOT), prepend=os.pathsep)
        forkserver.ensure_running()
    return context
