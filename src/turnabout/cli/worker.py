"""`worker`: run a worker's handlers until it is stopped."""

from __future__ import annotations

import click

from turnabout.cli import _show
from turnabout.cli._app import App
from turnabout.cli._declare import argument, command, option


@command(
    "worker",
    "turnabout worker app:worker",
    "turnabout worker app.jobs:worker --processes 4",
    "turnabout worker app:worker --until-empty --url sqlite:///test.db",
    json='{"handled", "failed", "deferred", "released", "lost", "cancelled"} at the end,\n'
    "  of one process",
)
@argument("target", metavar="MODULE:NAME")
@option("--processes", "How many.", click.IntRange(1, 1024), 1)
@option("--until-empty", "End when there is nothing to do.", bool)
@option("-q --quiet", "Log warnings only.", bool)
def worker(app: App, target: str, processes: int, until_empty: bool, quiet: bool) -> None:
    """Run the handlers of the worker MODULE:NAME.

    That is a turnabout.worker.Worker. Ctrl-C and SIGTERM stop it cleanly: nothing more is taken,
    handlers may end, and what is left is given back, uncharged. A second one gives it back at once.
    This folder may be imported from.
    """
    import logging
    from dataclasses import asdict

    logging.basicConfig(
        level=logging.WARNING if quiet else logging.INFO,
        format="%(asctime)s %(process)d %(levelname)s %(message)s",
    )
    from turnabout.worker import load, run_processes

    if processes > 1:
        code = run_processes(target, processes, until_empty=until_empty, url=app.given_url)
        raise click.exceptions.Exit(code)
    stats = asdict(load(target).run(until_empty=until_empty, url=app.given_url))
    text = ", ".join(f"{_show.count(n)} {name}" for name, n in stats.items() if n)
    app.say(stats, f"Done: {text or 'there was nothing to do'}.")
