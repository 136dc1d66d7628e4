"""The counts of all processes of one server, which any of them shows: `serve --processes`.

Each process writes its own into a file of a folder, once a second. The counts of a process that has
ended stay there and are added, so that no sum falls; how many there are *now* is asked only of
those that run.
"""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path

from turnabout.server.counts import ServerCounts

WRITE_SECONDS = 1.0

Now = Mapping[str, float]
"""Figures of this moment."""


class SharedCounts:
    """A process's place among the others."""

    def __init__(self, folder: Path, counts: ServerCounts, now: Callable[[], Now]) -> None:
        self._file = folder / str(os.getpid())
        self._counts, self._now = counts, now

    async def keep_written(self) -> None:
        """Write as long as the server runs."""
        try:
            while True:
                self.write()
                await asyncio.sleep(WRITE_SECONDS)
        finally:
            self.write()

    def write(self) -> None:
        """Write what has been counted so far, all of it or nothing."""
        document = {"counts": self._counts.dumped(), "now": dict(self._now())}
        half = self._file.with_suffix(".new")
        half.write_text(json.dumps(document))
        half.replace(self._file)

    def of_all(self) -> tuple[ServerCounts, Now]:
        """The sums over all processes."""
        self.write()
        counts, now = ServerCounts(), dict.fromkeys(self._now(), 0.0)
        for file in self._file.parent.iterdir():
            if not file.suffix:
                document = json.loads(file.read_text())
                counts.add(document["counts"])
                if _is_alive(int(file.name)):
                    now = {name: number + document["now"][name] for name, number in now.items()}
        return counts, now


def _is_alive(process: int) -> bool:
    with suppress(ProcessLookupError):
        os.kill(process, 0)
        return True
    return False
