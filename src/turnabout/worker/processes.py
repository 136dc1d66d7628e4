"""Several worker processes from one command: started, watched, restarted, stopped together.

Each child imports the target anew (no fork: neither SQLite nor libpq survives one). Children are
in process groups of their own, so Ctrl-C reaches them once, through us; and each holds the end of
a pipe, so that they stop when we are killed and can forward nothing.
"""

from __future__ import annotations

import contextlib
import importlib
import logging
import math
import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Protocol

from turnabout.words import limits
from turnabout.words.errors import UsageError
from turnabout.worker.sources import Sources
from turnabout.worker.worker import Worker

log = logging.getLogger("turnabout.worker")

RESTARTS_MAX = 5
"""Crashes of one child, each soon after its start, after which all are stopped."""
SOON_SECONDS = 10.0
WRONG_CALL = 2
"""Exit code where no repetition helps: a wrong URL, a database not migrated."""
HUNG = 75
"""Exit code of a worker whose handlers hang (EX_TEMPFAIL: start it again)."""
USED_UP = 76
"""Exit code of a child that has done enough, such as `max_handled` messages."""
ALL_DONE = 77
"""Exit code of a child that was stopped, or found nothing more. 0 would say nothing: any library
may call `exit()`.
"""
WHY_REPLACED = {HUNG: "its handlers hang", USED_UP: "it has done enough"}
RESTART_SECONDS, RESTART_SECONDS_MAX = 0.5, 15.0
WATCH_SECONDS = 0.1
URL_VARIABLE = "TURNABOUT_WORKER_URL"


def load(target: str, *, slots: int | None = None) -> Worker:
    """The worker that `module:name` names, or that the object there makes, by a method `worker`
    (as `turnabout.tasks.Tasks` does); the working directory may be imported from.

    slots: its `slots`; tasks of one queue may then use them all.
    Raises: UsageError if there is no such module or name, or it is no Worker.
    """
    module_name, _, name = target.partition(":")
    if not module_name or not name:
        raise UsageError(f"{limits.shown(target)} names no worker: write module:name")
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.insert(0, here)
    try:
        module = importlib.import_module(module_name)
    except SystemExit as error:
        raise UsageError(
            f"the module {module_name!r} calls exit({error.code!r}) while it is imported: put what "
            'only its own run needs under `if __name__ == "__main__":`'
        ) from error
    except ModuleNotFoundError as error:
        if error.name is None or not module_name.startswith(error.name):
            raise  # the module is there; something that it imports is not
        hint = ": write it without .py" if module_name.endswith(".py") else ""
        raise UsageError(
            f"there is no module {module_name!r} in {here} or on sys.path{hint}"
        ) from error
    if not hasattr(module, name):
        raise UsageError(f"the module {module_name!r} has no {limits.shown(name)}")
    worker = getattr(module, name)
    make = getattr(worker, "worker", None)
    if not isinstance(worker, Worker) and callable(make):
        worker = make() if slots is None else make(concurrency=slots)
    if not isinstance(worker, Worker):
        raise UsageError(f"{target} is a {type(worker).__name__}, not a turnabout.worker.Worker")
    worker.slots = slots or worker.slots
    return worker


def run_processes(
    target: str,
    n: int,
    *,
    until_empty: bool = False,
    max_handled: int | None = None,
    url: str | None = None,
    quiet: bool = False,
    slots: int | None = None,
    reload: bool = False,
) -> int:
    """Run `n` processes of the worker that `module:name` names; the exit code when all ended.

    SIGTERM and SIGINT are handed on. A child that crashes is started again after a pause; after
    five crashes in a row, each soon after a start, the others are stopped and the code is 1; at
    once, if repeating cannot help with its error.
    A child whose handlers hang, or that has handled enough, is replaced at once.

    max_handled: of each child; then it ends.
    url:         takes the place of the one that the worker was made with.
    quiet:       the processes log warnings and errors only.
    slots:       of each child: see `Worker`.
    reload:      when a Python file below the working directory changes, each child is stopped in
                 good order and started again; one that crashes waits for the next change.
    Raises: UsageError on Windows.
    """
    if n > 1 and sys.platform == "win32":
        raise UsageError(
            "several worker processes from one command need signals that Windows does not have: "
            "start one process as often as you need it"
        )
    limits.whole(n, "processes", 1, 1_024)
    load(target)  # an error in its name is raised once, here, and not by every child
    command = [sys.executable, "-m", "turnabout.worker", target, "--stop-at-eof"]
    options = {"--until-empty": until_empty, "--quiet": quiet}
    command += [option for option, is_given in options.items() if is_given]
    numbers = {"--max-handled": max_handled, "--slots": slots}
    command += [f"{option}={number}" for option, number in numbers.items() if number is not None]
    # Not on the command line, where every user of the machine could read its password.
    environment = dict(os.environ)
    if url is not None:
        environment[URL_VARIABLE] = url
    if reload:  # compiled files go by whole seconds: of two changes in one, the first would stay
        environment["PYTHONDONTWRITEBYTECODE"] = "1"
    return supervise(command, environment, n, Sources(Path.cwd()) if reload else None)


def supervise(
    command: Sequence[str],
    environment: Mapping[str, str],
    n: int,
    sources: Sources | None = None,
    ended: Callable[[int], None] = lambda _: None,
) -> int:
    """Keep `n` processes of that command running until they are told to end, or have ended. If
    `sources` change, they are replaced. `ended` is told the number of each that has ended.
    """
    children = [_Child(command, environment, ended, sources is not None) for _ in range(n)]
    with _forwarded(children) as stopping:
        for child in children:
            child.start()
        while not all(child.over for child in children):
            time.sleep(WATCH_SECONDS)
            if sources is not None and sources.changed() and not stopping.is_set():
                for child in children:
                    child.replace()
            for child in children:
                child.look(stopping=stopping.is_set())
            if any(child.gave_up for child in children) and not stopping.is_set():
                log.error("a worker process cannot go on: all are stopped")
                stopping.set()
                _send(children, signal.SIGTERM)
    return 1 if any(child.failed for child in children) else 0


@dataclass(eq=False)
class _Child:
    """One worker process, and how often it had to be started."""

    command: Sequence[str]
    environment: Mapping[str, str]
    ended: Callable[[int], None]
    waits: bool = False
    """True if only `replace` starts it again after a crash."""
    replaced: bool = False
    process: subprocess.Popen[bytes] | None = None
    signalled: bool = False
    """A signal was handed on to that process."""
    crashes: int = 0
    started_at: float = 0.0
    restart_at: float | None = None
    over: bool = False
    failed: bool = False
    gave_up: bool = False

    def start(self) -> None:
        self.restart_at = None
        self.process, self.signalled, self.replaced = None, False, False
        self.started_at = time.monotonic()
        # Open as long as we live; nothing is ever written.
        self.process = subprocess.Popen(
            self.command, stdin=subprocess.PIPE, env=self.environment, start_new_session=True
        )

    def tell(self, number: int) -> None:
        """Hand a signal on. A child that is just being started gets it at the next look."""
        if self.process is not None:
            self.signalled = True
            self.process.send_signal(number)  # does nothing once it has ended

    def replace(self) -> None:
        """Start it again: now, or once it has ended."""
        if self.restart_at is not None:
            self.restart_at = 0.0
        else:
            self.replaced = True
            self.tell(signal.SIGTERM)

    def look(self, *, stopping: bool) -> None:
        """See whether it has ended, and whether it is time to start it again."""
        if self.over:
            return
        if self.restart_at is not None:
            if stopping:
                self.over = True
            elif time.monotonic() >= self.restart_at:
                self.start()
            return
        assert self.process is not None
        code = self.process.poll()
        if code is None:
            if stopping and not self.signalled:
                self.tell(signal.SIGTERM)
            return
        if self.process.stdin is not None:
            self.process.stdin.close()
        self.ended(self.process.pid)
        why = "the program has changed" if self.replaced else WHY_REPLACED.get(code)
        if why is not None and not stopping:
            level = logging.WARNING if code == HUNG else logging.INFO
            log.log(level, "process %d is replaced: %s", self.process.pid, why)
            self.start()
            return
        self.over = code == ALL_DONE or stopping
        # A signal that it had no handler for yet, or one of its own, stops it as well.
        stopped = stopping and code in (0, -signal.SIGTERM, -signal.SIGINT)
        self.failed = code not in (ALL_DONE, HUNG, USED_UP) and not stopped
        if self.over:
            return
        soon = time.monotonic() - self.started_at < SOON_SECONDS
        self.crashes = self.crashes + 1 if soon else 1
        log.error("worker process %d ended with code %d", self.process.pid, code)
        if self.waits:
            log.info("it is started again when the program has changed")
            self.restart_at = math.inf
            return
        if self.crashes >= RESTARTS_MAX or (soon and code == WRONG_CALL):
            self.over = self.gave_up = True
            return
        most = min(RESTART_SECONDS_MAX, RESTART_SECONDS * 2**self.crashes)
        self.restart_at = time.monotonic() + most * (0.5 + random.random() / 2)  # noqa: S311


def _send(children: Sequence[_Child], number: int) -> None:
    for child in children:
        child.tell(number)


@contextlib.contextmanager
def _forwarded(children: Sequence[_Child]) -> Generator[threading.Event, None, None]:
    """Hand SIGTERM and SIGINT on to the children, if this is the main thread."""
    stopping = threading.Event()

    def forward(number: int, _frame: FrameType | None) -> None:
        stopping.set()
        _send(children, number)

    if threading.current_thread() is not threading.main_thread():
        yield stopping
        return
    taken = (signal.SIGTERM, signal.SIGINT)
    before = {number: signal.signal(number, forward) for number in taken}
    try:
        yield stopping
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


class Stoppable(Protocol):
    """A process, or a group of them, that can be asked to end."""

    def stop(self) -> None:
        """End in good order."""


def stop_at_eof(worker: Stoppable) -> None:
    """Stop the worker when standard input ends: its parent is gone."""

    def watch() -> None:
        with contextlib.suppress(OSError):
            while os.read(0, 1024):
                pass
        worker.stop()

    threading.Thread(target=watch, name="turnabout-parent", daemon=True).start()
