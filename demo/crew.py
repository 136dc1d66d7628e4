"""The worker processes of the demo: started, one of them killed, the others stopped.

They are in groups of their own, so Ctrl-C reaches only the parent; when the parent goes, however it
goes, their standard input ends and they stop.
"""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Self

from demo.work import Task

STOP_SECONDS = 10.0


class Crew:
    """Processes by name. Use it in a `with` block: none outlives it."""

    def __init__(self, tasks: Mapping[str, Task], errors: Path) -> None:
        self._tasks = tasks
        self._errors = errors
        self._processes: dict[str, subprocess.Popen[bytes]] = {}
        self._killed: set[str] = set()

    def __enter__(self) -> Self:
        """Start them all."""
        with self._errors.open("ab") as errors:
            for name, task in self._tasks.items():
                self._processes[name] = subprocess.Popen(
                    [sys.executable, "-m", "demo.work", json.dumps(asdict(task))],
                    stdin=subprocess.PIPE,
                    stderr=errors,
                    start_new_session=True,
                    env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[1])},
                )
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def go(self, name: str) -> None:
        """Let one of them begin."""
        pipe = self._processes[name].stdin
        assert pipe is not None
        with contextlib.suppress(BrokenPipeError):
            pipe.write(b"go\n")
            pipe.flush()

    def kill(self, name: str) -> None:
        """SIGKILL: it can neither finish nor give anything back."""
        process = self._processes[name]
        process.kill()
        process.wait()
        self._killed.add(name)

    def crashed(self) -> dict[str, int]:
        """Exit codes of those that ended though nobody asked them to."""
        return {
            name: process.returncode
            for name, process in self._processes.items()
            if name not in self._killed and process.poll() is not None
        }

    def stop(self) -> None:
        """Ask them to stop, and see that they do."""
        for process in self._processes.values():
            if process.stdin is not None:
                with contextlib.suppress(BrokenPipeError):
                    process.stdin.close()
        for process in self._processes.values():
            try:
                process.wait(STOP_SECONDS)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
