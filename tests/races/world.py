"""The machine around a store: its disk, which may be full, and its clock, which may be set.

A library that is preloaded into every process tells them so: their files can't grow, or another
time of day. Where there is no C compiler, neither can be tried.
"""

from __future__ import annotations

import mmap
import os
import shutil
import struct
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

STATE = struct.Struct("<qq")
"""By how many milliseconds the clock is wrong; whether the disk is full."""


class World:
    """What processes that are started from now on find."""

    def __init__(self, state: mmap.mmap) -> None:
        self._state = state
        self._clock_ms = 0

    def now_ms(self) -> int:
        """What they read now."""
        return time.time_ns() // 1_000_000 + self._clock_ms

    def set_clock(self, ms: int) -> None:
        """Clocks are wrong by so much from now on."""
        self._clock_ms = ms
        self._state[:] = STATE.pack(ms, 0)

    def fill_disk(self, full: bool) -> None:
        """The store's files can't grow, or can again."""
        self._state[:] = STATE.pack(self._clock_ms, full)


def preloaded(source: Path, folder: Path) -> Path:
    """The library that is built of a file in C, to be put into LD_PRELOAD."""
    made = folder / source.with_suffix(".so").name
    subprocess.run(["cc", "-shared", "-fPIC", "-O1", "-o", made, source, "-ldl"], check=True)
    return made


@contextmanager
def world() -> Iterator[World | None]:
    """One for all programs that are started meanwhile; None where it can't be had."""
    if shutil.which("cc") is None or os.uname().sysname != "Linux":
        yield None
        return
    with (
        tempfile.TemporaryDirectory(prefix="turnabout-world-") as name,
        pytest.MonkeyPatch.context() as patch,
    ):
        folder = Path(name)
        folder.chmod(0o755)  # a server may run as somebody else
        library, path = preloaded(Path(__file__).with_suffix(".c"), folder), folder / "world"
        path.write_bytes(STATE.pack(0, 0))
        with path.open("r+b") as file, mmap.mmap(file.fileno(), 0) as state:
            patch.setenv("CHAOS_WORLD", str(path))
            patch.setenv("LD_PRELOAD", str(library))
            yield World(state)
