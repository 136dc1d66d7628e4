"""`manage.py turnabout_worker`: runs the tasks of a backend until it is stopped."""
# pyright: basic
# (Django has no types)

from __future__ import annotations

import threading
from argparse import ArgumentParser
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError
from django.utils import autoreload

from turnabout.django.api import task_backends
from turnabout.django.backend import TurnaboutBackend
from turnabout.django.runner import worker_of
from turnabout.words.errors import TurnaboutError
from turnabout.words.urls import without_secrets
from turnabout.worker import HandlersHung, Worker

HUNG = 75
"""Exit code that asks for a restart, as `turnabout worker` has it."""


class TurnaboutWorkerCommand(BaseCommand):
    """See `help`."""

    help = (
        "Runs the tasks of a Turnabout backend. Ctrl-C and SIGTERM stop it cleanly: nothing more "
        "is taken, tasks may end, and what is left is given back. A second signal gives it back at "
        "once. For several processes, start it several times."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        """The options."""
        parser.add_argument("--backend", default="default", help="its alias in TASKS")
        parser.add_argument("--queues", help="only these, with commas; all unless given")
        parser.add_argument("--concurrency", type=int, default=4, help="tasks of a queue at once")
        parser.add_argument("--grace-seconds", type=float, default=30.0, help="after a stop")
        parser.add_argument("--timeout-seconds", type=float, help="how long a task may take")
        parser.add_argument("--max-handled", type=int, help="end after about that many tasks")
        parser.add_argument("--until-empty", action="store_true", help="end with nothing to do")
        parser.add_argument("--reload", action="store_true", help="restart on changes of the code")

    def handle(self, *_: Any, **options: Any) -> None:
        """Work."""
        if options["reload"]:
            autoreload.run_with_reloader(self._work, **options)
        else:
            self._work(**options)

    def _work(self, **options: Any) -> None:
        try:
            worker = self._made(**options)
            until = {name: options[name] for name in ("until_empty", "max_handled")}
            with _stopped_by_reload(worker):
                stats = asdict(worker.run(**until))
        except HandlersHung as error:
            raise CommandError(str(error), returncode=HUNG) from error
        except TurnaboutError as error:
            raise CommandError(str(error)) from error
        counts = ", ".join(f"{n} {name}" for name, n in stats.items() if n)
        self.stdout.write(f"Done: {counts or 'there was nothing to do'}.")
        self.stdout.flush()

    def _made(self, **options: Any) -> Worker:
        backend: Any = task_backends[options["backend"]]
        if not isinstance(backend, TurnaboutBackend):
            raise CommandError(f"TASKS[{options['backend']!r}] is not a backend of Turnabout's")
        queues = sorted(backend.queues)
        if options["queues"]:
            queues = [name.strip() for name in options["queues"].split(",")]
            wrong = sorted(set(queues) - backend.queues)
            if wrong and backend.queues:
                raise CommandError(f"not in QUEUES of TASKS: {', '.join(wrong)}")
        if not queues:
            raise CommandError("QUEUES of TASKS is empty: name some queues, by --queues")
        worker = worker_of(
            backend,
            queues,
            options["concurrency"],
            grace_seconds=options["grace_seconds"],
            timeout_seconds=options["timeout_seconds"],
        )
        place = without_secrets(backend.url)
        self.stdout.write(f"Working on {', '.join(queues)} of {place}; Ctrl-C stops it.")
        self.stdout.flush()  # the reloader's child writes into a buffer where it is no terminal
        return worker


@contextmanager
def _stopped_by_reload(worker: Worker) -> Generator[None]:
    """A block with a worker. Before Django starts the process anew, which would leave tasks to
    their leases, the worker ends them or gives them back.
    """
    over = threading.Event()

    def changed(file_path: Path, **_: Any) -> None:
        if file_path.suffix == ".py":
            worker.stop()
            over.wait()

    autoreload.file_changed.connect(changed)
    try:
        yield
    finally:
        autoreload.file_changed.disconnect(changed)
        over.set()


Command = TurnaboutWorkerCommand
"""The name that Django looks for."""
