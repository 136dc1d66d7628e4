"""`pipeline doctor`: does Apache Spark work here, on the queue's database?"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext

from turnabout.cli import _show
from turnabout.cli._app import App, negative
from turnabout.cli._check import Check, Checked
from turnabout.cli._declare import command
from turnabout.cli.doctor import scrubbed, show_check
from turnabout.pipeline import need_spark
from turnabout.pipeline.commands.jobs import MASTER
from turnabout.words.extras import install_hint
from turnabout.words.findings import Finding, fail


@command(
    "doctor",
    "turnabout pipeline doctor",
    "turnabout pipeline doctor --url postgresql://app@localhost/app",
    "turnabout pipeline doctor --master spark://host:7077 --json",
    json=Checked,
)
@MASTER
def doctor(app: App, master: str | None) -> None:
    """Look for Java and the packages, start Spark, and stream a test message.

    The message goes through the sink into a temporary queue and comes back by a lease; in an SQLite
    file it finishes, and comes out with the log. That happens in the database of --url or
    TURNABOUT_URL, where the queue is removed again; without them in a temporary SQLite file. Takes
    about ten seconds. Exit code 1 if a check failed.
    """
    url = app.given_url or os.environ.get("TURNABOUT_URL")
    if url is not None:
        app.need_file()
    found: list[Check] = []
    for title, step in _steps(url, master):
        with _busy(title):
            check = scrubbed(step(), app.url)
        found.append(check)
        if not app.as_json:
            show_check(check)
            _show.flush()
    good = all(check.level == "ok" for check in found)
    if app.as_json:
        app.say(Checked(url and app.place, good, tuple(found)), "")
    elif good:
        _show.out(f"\n{_show.green('The pipeline works here.')}")
    if not good:
        negative()


def _steps(url: str | None, master: str | None) -> Iterator[tuple[str, Callable[[], Finding]]]:
    """Checks in order, each with its title."""
    try:
        need_spark()
        from turnabout.pipeline.spark.doctor import Doctor
    except ImportError as error:
        missing = fail("packages", f"{error.name} is missing", install_hint("spark-jre"))
        yield "Looking for packages", lambda: missing
        return
    yield from Doctor(url, master).steps()


def _busy(title: str) -> AbstractContextManager[object]:
    """A line for the user who waits."""
    if not _show.is_coloured(sys.stderr):
        return nullcontext()
    from rich.console import Console

    return Console(stderr=True).status(f"{title} …")
