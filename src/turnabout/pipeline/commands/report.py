"""`pipeline run report`: waits, handling, failures and fairness, as a page and as Parquet."""

from __future__ import annotations

import webbrowser
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from turnabout.cli import _show
from turnabout.cli._app import NEGATIVE, App
from turnabout.cli._declare import command
from turnabout.cli._kinds import INSTANT, seconds
from turnabout.cli._progress import progress
from turnabout.pipeline.commands import jobs
from turnabout.words.errors import UsageError

if TYPE_CHECKING:
    from turnabout.pipeline.reports import QueueReport, Reported, Times

    _Kind = click.ParamType[Any]
else:
    _Kind = click.ParamType

QUANTILES = ("p50", "p90", "p99", "max", "mean")


class TimeLimit(_Kind):
    """`p99=30s`: a quantile and how long it may be."""

    name = "p99=TIME"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[str, float]:
        """The quantile, and milliseconds."""
        if isinstance(value, tuple):
            return value  # pyright: ignore[reportUnknownVariableType]
        name, equals, text = str(value).partition("=")
        try:
            if name not in QUANTILES or not equals:
                raise ValueError(value)
            return name, seconds(text) * 1000
        except ValueError:
            self.fail(f"{value!r} is not a limit: write p99=30s, p50=500ms or max=1h", param)


class Share(_Kind):
    """`1%`, or a number from 0 to 1."""

    name = "share"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        """From 0 to 1."""
        if isinstance(value, float):
            return value
        text = str(value)
        try:
            share = float(text.removesuffix("%")) / (100 if text.endswith("%") else 1)
            if not 0 <= share <= 1:
                raise ValueError(value)
        except ValueError:
            self.fail(f"{value!r} is not a share: write 1%, or 0.01", param)
        return share


TIME_LIMIT = TimeLimit()
SHARE = Share()


@command(
    "report",
    "turnabout pipeline run report --since 24h --open",
    "turnabout pipeline run report --lake /var/lib/turnabout/lake --since 7d --out weekly",
    "turnabout pipeline run report --since 1h --fail-over-wait p99=30s --fail-over-dead 1%",
    json='{"messages", "first", "until", "sentences", "files", "seconds", "over",\n'
    '  "queues": [{"namespace", "queue", "channels", "messages", "done", "dead", "cancelled",\n'
    '  "expired", "attempts", "failures", "crashes", "wait", "handling", "jain_done",\n'
    '  "jain_wait", "slowest"}]}\n'
    'wait, handling: {"p50", "p90", "p99", "max", "mean"} in milliseconds; over: the limits that\n'
    "  were not kept, in words",
)
@click.option(
    "--lake",
    metavar="FOLDER",
    help="From this lake; else from the history in the database.",
)
@jobs.ARCHIVE
@click.option("--since", type=INSTANT, help="Finished since then: 24h (ago), 2026-05-01.")
@click.option("--until", type=INSTANT, help="Finished before that.")
@click.option(
    "--queue", "queues", multiple=True, metavar="NAME", help="Only this queue; may be repeated."
)
@click.option(
    "--out",
    type=click.Path(file_okay=False, path_type=Path),
    default="report",
    show_default=True,
    help="The folder for the page and the tables.",
)
@click.option(
    "--top",
    type=click.IntRange(1, 1_000),
    default=25,
    show_default=True,
    help="How many channels and errors on the page; the rest in one line.",
)
@click.option("--open", "opens", is_flag=True, help="Show the page in a browser.")
@click.option(
    "--fail-over-wait",
    "waits",
    type=TIME_LIMIT,
    multiple=True,
    help="Exit code 1 if a queue's waiting is over this.",
)
@click.option(
    "--fail-over-handling",
    "handlings",
    type=TIME_LIMIT,
    multiple=True,
    help="Exit code 1 if a queue's handling is over this.",
)
@click.option(
    "--fail-over-dead",
    "dead",
    type=SHARE,
    help="Exit code 1 if more than this share of a queue's messages died.",
)
@jobs.NAMESPACE
@jobs.MASTER
def report(
    app: App,
    lake: str | None,
    out: Path,
    opens: bool,
    waits: Sequence[tuple[str, float]],
    handlings: Sequence[tuple[str, float]],
    dead: float | None,
    master: str | None,
    **options: Any,
) -> None:
    """Report on what finished: how long messages waited and were worked on, what failed, and how
    fairly channels were served.

    Writes report.html, which needs nothing else, and hours.parquet, failures.parquet and
    fairness.parquet beside it. Exit code 1 if a limit of --fail-over-… was not kept, for
    schedulers; the files are written all the same.
    """
    if lake is None:
        app.need_file()
        if options.pop("archive") is not None:
            raise UsageError("--archive is an archive of a lake: name that with --lake FOLDER")
    with jobs.refusals(app), progress("Reporting", 1.0) as bar:
        jobs.need_spark()
        from turnabout.pipeline import session
        from turnabout.pipeline.reports import report as run_report

        done = run_report(
            session("turnabout", master=master),
            app.url if lake is None else None,
            lake=lake,
            out=out,
            progress=bar,
            **options,
        )
    over = [*exceeded(done.queues, {"waiting": waits, "handling": handlings}, dead)]
    _tell(app, done, over)
    if opens:
        webbrowser.open(done.page.as_uri())
    if over:
        raise click.exceptions.Exit(NEGATIVE)


def exceeded(
    queues: Sequence[QueueReport],
    limits: Mapping[str, Sequence[tuple[str, float]]],
    dead: float | None,
) -> Sequence[str]:
    """The limits that queues did not keep, in words. A queue without messages keeps all."""
    found: list[str] = []
    for queue in queues:
        times: Mapping[str, Times] = {"waiting": queue.wait, "handling": queue.handling}
        for name, some in limits.items():
            for quantile, most in some:
                value = getattr(times[name], quantile)
                if value is not None and value > most:
                    found.append(
                        f"{queue.name}: {name} {quantile} is {_show.duration(value / 1000)}, "
                        f"over {_show.duration(most / 1000)}"
                    )
        if dead is not None and queue.messages and queue.dead / queue.messages > dead:
            share = queue.dead / queue.messages
            found.append(f"{queue.name}: {share:.2%} of its messages died, over {dead:.2%}")
    return found


def _tell(app: App, done: Reported, over: Sequence[str]) -> None:
    if app.as_json:
        found = {**asdict(done), "files": [str(path) for path in done.files], "over": over}
        app.say(found, "")
        return
    for sentence in done.sentences:
        _show.out(_show.clean(sentence))
    _show.out(f"\n{_show.bold(str(done.page))}")
    _show.flush()
    for text in over:
        _show.note(f"{_show.red('Over:')} {_show.clean(text)}")
