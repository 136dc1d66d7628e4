"""`pipeline run report`: waits, handling, failures and fairness, as a page and as Parquet."""

from __future__ import annotations

import webbrowser
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import click

from turnabout.cli import _show
from turnabout.cli._app import App, negative
from turnabout.cli._declare import command, option
from turnabout.cli._json import one
from turnabout.cli._kinds import Kind
from turnabout.cli._progress import progress
from turnabout.pipeline.commands import jobs
from turnabout.pipeline.results import QueueReport, Reported, Times
from turnabout.words.durations import seconds
from turnabout.words.errors import UsageError

QUANTILES = ("p50", "p90", "p99", "max", "mean")


def _time_limit(text: str) -> tuple[str, float]:
    """The quantile, and milliseconds."""
    name, equals, time = text.partition("=")
    if name not in QUANTILES or not equals:
        raise ValueError(text)
    return name, seconds(time) * 1000


def _share(text: str) -> float:
    share = float(text.removesuffix("%")) / (100 if text.endswith("%") else 1)
    if not 0 <= share <= 1:
        raise ValueError(text)
    return share


TIME_LIMIT = Kind("p99=TIME", _time_limit, "p99=30s, p50=500ms or max=1h", "limit")
SHARE = Kind("share", _share, "1%, or 0.01")


@command(
    "report",
    "turnabout pipeline run report --since 24h --open",
    "turnabout pipeline run report --lake /var/lib/turnabout/lake --since 7d --out weekly",
    "turnabout pipeline run report --since 1h --fail-over-wait p99=30s --fail-over-dead 1%",
    json=one(Reported, "over"),
)
@option("--lake", "From this lake; otherwise from the database's history.", metavar="PLACE")
@jobs.ARCHIVE
@jobs.SINCE
@jobs.UNTIL
@jobs.QUEUES
@option(
    "--out",
    "The folder for the page and the tables.",
    click.Path(file_okay=False, path_type=Path),
    "report",
)
@option(
    "--top",
    "At most this many channels and errors on the page; the rest in one line.",
    click.IntRange(1, 1_000),
    25,
)
@option("--open opens", "Show the page in a browser.", bool)
@option(
    "--fail-over-wait waits",
    "Exit code 1 if a queue's waiting time is over this.",
    TIME_LIMIT,
    multiple=True,
)
@option(
    "--fail-over-handling handlings",
    "Exit code 1 if a queue's handling time is over this.",
    TIME_LIMIT,
    multiple=True,
)
@option(
    "--fail-over-dead dead",
    "Exit code 1 if more than this share of a queue's messages died.",
    SHARE,
)
@jobs.NAMESPACE
@jobs.ENGINE
@jobs.MASTER
@jobs.STORAGE
def report(
    app: App,
    lake: str | None,
    out: Path,
    opens: bool,
    waits: Sequence[tuple[str, float]],
    handlings: Sequence[tuple[str, float]],
    dead: float | None,
    engine: str | None,
    master: str | None,
    **options: Any,
) -> None:
    """Report on what finished: how long messages waited and were worked on, what failed, and how
    fairly channels were served.

    Writes report.html, a single self-contained page, and hours.parquet, failures.parquet and
    fairness.parquet beside it. Exit code 1 if a --fail-over-… limit was exceeded, for schedulers;
    the files are written all the same. The JSON lists the exceeded limits, in words, under over.
    """
    if lake is None:
        app.need_file()
        if options.pop("archive") is not None:
            raise UsageError("--archive is an archive of a lake: name that with --lake PLACE")
    with jobs.refusals(app), progress("Reporting", 1.0) as bar:
        jobs.need_lake()
        from turnabout.pipeline.reports import report as run_report

        done = run_report(
            app.url if lake is None else None,
            lake=lake,
            spark=jobs.session(engine, master),
            out=out,
            progress=bar,
            **options,
        )
    over = [*exceeded(done.queues, {"waiting": waits, "handling": handlings}, dead)]
    _tell(app, done, over)
    if opens:
        webbrowser.open(done.page.as_uri())
    if over:
        negative()


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
                value = getattr(times[name], f"{quantile}_ms")
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
        app.say(done, "", over=over)
        return
    for sentence in done.sentences:
        _show.out(_show.clean(sentence))
    _show.out(f"\n{_show.bold(str(done.page))}")
    _show.note(f"Counted by {done.engine} in {_show.duration(done.seconds)}.")
    _show.flush()
    for text in over:
        _show.note(f"{_show.red('Over:')} {_show.clean(text)}")
