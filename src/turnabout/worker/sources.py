"""Whether a program has changed on disk, for `--reload`."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

LOOK_SECONDS = 0.5
_SKIPPED = frozenset({"__pycache__", "node_modules", "site-packages"})


class Sources:
    """The Python files below a folder, but for those of hidden folders and installed packages."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._known = self._now()
        self._looked = time.monotonic()

    def changed(self) -> bool:
        """Whether any was written, made or removed since this said so last; now and then."""
        now = time.monotonic()
        if now < self._looked + LOOK_SECONDS:
            return False
        self._looked, before, self._known = now, self._known, self._now()
        return before != self._known

    def _now(self) -> dict[Path, int]:
        found: dict[Path, int] = {}
        for path in self._files():
            with suppress(OSError):  # it has just gone
                found[path] = path.stat().st_mtime_ns
        return found

    def _files(self) -> Iterator[Path]:
        for folder, inner, names in os.walk(self._folder):
            inner[:] = [name for name in inner if name[0] != "." and name not in _SKIPPED]
            if "pyvenv.cfg" in names:  # a virtual environment
                inner.clear()
                continue
            yield from (Path(folder, name) for name in names if name.endswith(".py"))
