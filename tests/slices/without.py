"""The tree without slices: a copy of the sources and the tests, and what runs in it."""

import os
import shutil
import subprocess
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from tests.tidy.test_tree import ROOT
from turnabout.slices import Slice, found

NAMES = [slice_.name for slice_ in found()]


def gone(chosen: str) -> list[Slice]:
    """The slices that a case leaves out."""
    return [slice_ for slice_ in found() if chosen in (slice_.name, "all")]


@dataclass(frozen=True)
class Tree:
    """A folder with `src` and `tests`, and the slices that it lacks."""

    folder: Path
    lacks: tuple[Slice, ...]

    def run(self, *words: str, code: int = 0, cwd: Path | None = None, seconds: float = 100) -> str:
        """What Python prints in this tree; it must end with that exit code. Tests run there as they
        do every day, also with `--all`: a longer run would not show more of what a
        deleted slice leaves behind.
        """
        done = subprocess.run(
            [sys.executable, *words],
            cwd=cwd or self.folder,
            env=os.environ | {"PYTHONPATH": str(self.folder / "src"), "TURNABOUT_TESTS": ""},
            capture_output=True,
            text=True,
            timeout=seconds,
            check=False,
        )
        assert done.returncode == code, done.stdout + done.stderr
        return done.stdout


def copied(folder: Path, lacks: Iterable[Slice]) -> Tree:
    """The tree in a folder, without these slices and their tests."""
    lacks = tuple(lacks)
    # With what is compiled, or all would be anew.
    for name in ("src", "tests", "tools", "docs", "examples"):
        shutil.copytree(ROOT / name, folder / name)
    for name in ("pyproject.toml", "dev.py", "README.md"):
        shutil.copy(ROOT / name, folder)
    for slice_ in lacks:
        shutil.rmtree(folder / "src" / "turnabout" / slice_.name)
        shutil.rmtree(folder / "tests" / slice_.name, ignore_errors=True)
    return Tree(folder, lacks)
