"""Worker processes for tests: a folder with a worker's module and a database."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path

import turnabout
from tests.support.until import until

SECONDS = 45.0
SOURCE = Path(turnabout.__file__).parents[1]


class Yard:
    """A folder with a worker's module and a database, and the processes started there."""

    def __init__(self, folder: Path, url: str | None = None) -> None:
        self.folder = folder
        self.url = f"sqlite:///{folder / 'app.db'}" if url is None else url
        self.turnabout = turnabout.connect(self.url)
        self.queue = self.turnabout.queue("work")
        self.queue.create(lease_seconds=2.0, backoff_seconds=0.0)
        self.children: list[subprocess.Popen[bytes]] = []

    def module(self, name: str, body: str) -> str:
        """A module with `worker` in it; the target to start it by."""
        head = f"""
            import os, time
            from pathlib import Path
            from turnabout.worker import Worker
            folder = Path({str(self.folder)!r})
            worker = Worker({self.url!r}, grace_seconds=0.2)

            def note(name, text):
                with (folder / name).open("a") as file:
                    file.write(f"{{text}}\\n")
        """
        text = textwrap.dedent(head) + textwrap.dedent(body)
        (self.folder / f"{name}.py").write_text(text)
        return f"{name}:worker"

    def start(self, target: str, *options: str) -> subprocess.Popen[bytes]:
        with (self.folder / "log.txt").open("ab") as log:
            child = subprocess.Popen(
                [sys.executable, "-m", "turnabout.worker", target, *options],
                cwd=self.folder,
                env={**os.environ, "PYTHONPATH": str(SOURCE)},
                stderr=log,
            )
        self.children.append(child)
        return child

    def lines(self, name: str) -> list[str]:
        file = self.folder / name
        return file.read_text().splitlines() if file.exists() else []

    def close(self) -> None:
        for child in self.children:
            child.kill()
            child.wait()
        self.turnabout.close()

    def until(self, what: Callable[[], bool]) -> None:
        until(what, (self.folder / "log.txt").read_text)
