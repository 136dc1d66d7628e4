"""`worker`: run a worker's handlers until it is stopped."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import click

from turnabout.cli import _show
from turnabout.cli._app import App
from turnabout.cli._declare import argument, command, option


@command(
    "worker",
    "turnabout worker app:worker",
    "turnabout worker app.jobs:worker --processes 4",
    "turnabout worker app:worker --until-empty --url sqlite:///test.db",
    "turnabout worker app:worker --processes 4 --max-handled 10000",
    "turnabout worker app:tasks --slots 20 --reload",
    json='{"handled", "failed", "deferred", "released", "lost", "cancelled", "left"} at the\n'
    "  end, of one process",
)
@argument("target", metavar="MODULE:NAME")
@option("--processes", "How many.", click.IntRange(1, 1024), 1)
@option("--until-empty", "End when there is nothing to do, and no retry within a minute.", bool)
@option("--max-handled", "End after that many messages; of --processes, another takes its place.",
        click.IntRange(1))  # fmt: skip
@option("--slots", "Messages held at once by a process, over all queues; of tasks, 10 of each.",
        click.IntRange(1))  # fmt: skip
@option("--reload", "Start again when a Python file here changes: for development.", bool)
@option("-q --quiet", "Log warnings and errors only.", bool)
def worker(
    app: App,
    target: str,
    processes: int,
    slots: int | None,
    reload: bool,
    quiet: bool,
    **until: Any,
) -> None:
    """Run the handlers of the worker MODULE:NAME.

    That is a turnabout.worker.Worker. Ctrl-C and SIGTERM stop it cleanly: nothing more is taken,
    handlers may end, and what is left is given back, uncharged. A second one gives it back at once.
    This folder may be imported from.

    A handler that raises is logged with its traceback and what happens next. Exit code 75: handlers
    hang past their timeout_seconds, so start it again; --processes does that by itself.
    """
    import logging
    from dataclasses import asdict

    logging.basicConfig(
        level=logging.WARNING if quiet else logging.INFO,
        format="%(asctime)s %(process)d %(levelname)s %(message)s",
    )
    from turnabout.worker import HandlersHung, load, run_processes
    from turnabout.worker.processes import HUNG

    if processes > 1 or reload:
        more = {"url": app.given_url, "quiet": quiet, "slots": slots, "reload": reload}
        code = run_processes(target, processes, **more, **until)
        raise click.exceptions.Exit(code)
    made = load(target, slots=slots)
    try:
        counts = made.run(url=app.given_url, **until)
    except HandlersHung as error:
        app.refuse(error.code, str(error), HUNG)
    stats = asdict(counts)
    text = [f"Done: {_counted(stats) or 'there was nothing to do'}."]
    left = {one.queue: {s: getattr(one, s) for s in ("scheduled", "ready", "leased")}
            for one in made.left}  # fmt: skip
    text += [f"Left in {queue}: {_counted(states)}." for queue, states in left.items()]
    app.say({**stats, "left": left}, "\n".join(text))


def _counted(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{_show.count(n)} {name}" for name, n in counts.items() if n)
