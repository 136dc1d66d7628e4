"""`pipeline doctor`: does Apache Spark work here, on the queue's database?"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import asdict, replace
from functools import partial
from typing import TYPE_CHECKING

import click

from turnabout.cli import _places, _show
from turnabout.cli._app import NEGATIVE, App
from turnabout.cli._check import Check, fail, ok
from turnabout.cli._declare import command
from turnabout.cli.doctor import show_check
from turnabout.pipeline import need_spark
from turnabout.words.extras import install_hint

if TYPE_CHECKING:
    from turnabout.pipeline.spark.doctor import SparkFinding


@command(
    "doctor",
    "turnabout pipeline doctor",
    "turnabout pipeline doctor --url postgresql://app@localhost/app",
    "turnabout pipeline doctor --master spark://host:7077 --json",
    json='{"url" | null, "ok": true | false, "checks": [{"name", "level": "ok" | "fail",\n'
    '  "text", "todo"}]}',
)
@click.option("--master", metavar="URL", help="Spark's master. [default: this machine, local[*]]")
def doctor(app: App, master: str | None) -> None:
    """Look for Java and the packages, start Spark, and send a message round.

    The message goes by the sink into a queue of its own and comes out by a lease. That is done in
    the database of --url or TURNABOUT_URL, where the queue is removed again; without them in a
    temporary SQLite file. Takes some ten seconds. Exit code 1 if a check failed.
    """
    url = app.given_url or os.environ.get("TURNABOUT_URL")
    if url is not None:
        app.need_file()
    found: list[Check] = []
    for title, step in _steps(url, master):
        with _busy(title):
            check = _scrubbed(step(), app.url)
        found.append(check)
        if not app.as_json:
            show_check(check)
            _show.flush()
    good = all(check.level == "ok" for check in found)
    if app.as_json:
        checks = [asdict(check) for check in found]
        app.say({"url": url and app.place, "ok": good, "checks": checks}, "")
    elif good:
        _show.out(f"\n{_show.green('The pipeline works here.')}")
    if not good:
        raise click.exceptions.Exit(NEGATIVE)


def _steps(url: str | None, master: str | None) -> Iterator[tuple[str, Callable[[], Check]]]:
    """What to do one after the other, and its title."""
    try:
        need_spark()
        from turnabout.pipeline.spark.doctor import Doctor
    except ImportError as error:
        missing = fail("packages", f"{error.name} is missing", install_hint("spark-jre"))
        yield "Looking for packages", lambda: missing
        return
    for title, step in Doctor(url, master).steps():
        yield title, partial(_checked, step)


def _checked(step: Callable[[], SparkFinding]) -> Check:
    found = step()
    return ok(found.name, found.text) if found.good else fail(found.name, found.text, found.todo)


def _scrubbed(check: Check, url: str) -> Check:
    return replace(check, text=_places.scrub(check.text, url), todo=_places.scrub(check.todo, url))


def _busy(title: str) -> AbstractContextManager[object]:
    """A line for the user who waits."""
    if not _show.is_coloured(sys.stderr):
        return nullcontext()
    from rich.console import Console

    return Console(stderr=True).status(f"{title} …")
