"""`pipeline run …`: archive, compact, purge and replay, for a terminal, cron or a scheduler.

A job that is told to stop (Ctrl-C, SIGTERM) ends after the batch that runs.
"""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Callable, Generator
from contextlib import closing, contextmanager
from dataclasses import asdict
from types import FrameType
from typing import TYPE_CHECKING, Any

import click

from turnabout import pipeline
from turnabout.cli import _show
from turnabout.cli._app import NEGATIVE, App
from turnabout.cli._declare import command, group
from turnabout.cli._kinds import DURATION, INSTANT, PER_SECOND
from turnabout.cli._progress import progress
from turnabout.cli.queue import confirm
from turnabout.pipeline.verbs import LogLook
from turnabout.words.errors import TurnaboutError, UsageError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from turnabout.pipeline.jobs.archive import Archived
    from turnabout.pipeline.jobs.compact import Compacted
    from turnabout.pipeline.jobs.purge import PurgeReport
    from turnabout.pipeline.jobs.replay import Replayed

NOT_DONE = frozenset(
    {"lake_damaged", "rows_lost", "not_archived", "without_value", "job_failed", "sink_full"}
)
"""Codes of errors that don't come from a wrong call: exit code 1."""

LAKE = click.option(
    "--lake",
    envvar="TURNABOUT_LAKE",
    show_envvar=True,
    required=True,
    metavar="FOLDER",
    help="The folder of the lake; all executors see it by this path.",
)
ARCHIVE = click.option("--archive", metavar="NAME", help="Only this archive; else all in the lake.")
MASTER = click.option("--master", metavar="URL", help="Spark's master. [default: local[*]]")
NAMESPACE = click.option("--namespace", metavar="NAME", help="Only of this namespace.")


@group(
    "run",
    "turnabout pipeline run archive --lake /var/lib/turnabout/lake",
    "turnabout pipeline run purge --lake /var/lib/turnabout/lake --dry-run",
    short_help="Run a job: archive, compact, purge, replay, report.",
)
def run() -> None:
    """Jobs on the log of what finished, and on the lake where it is archived as Parquet.

    Each may be killed anywhere and is simply run again. Exit codes, for schedulers: 0 done; 1 not
    done, as it says; 2 a wrong call; 3 the database is away, or the job runs already: repeat later.
    """


@command(
    "archive",
    "turnabout pipeline run archive --lake /var/lib/turnabout/lake",
    "turnabout pipeline run archive --lake /var/lib/turnabout/lake --every 30s",
    "turnabout pipeline run archive --lake /mnt/lake --master spark://host:7077 --json",
    json='{"archive", "rows", "files", "bytes", "batches", "total", "position", "lost",\n'
    '  "seconds"}   rows to batches: of this run',
)
@LAKE
@click.option("--archive", metavar="NAME", default="archive", show_default=True, help="Its name.")
@click.option("--every", type=DURATION, help="Go on until stopped, and look this often.")
@click.option(
    "--max-rows",
    type=click.IntRange(1),
    default=1_000_000,
    show_default=True,
    help="At most this many in one commit.",
)
@click.option("--without-value", is_flag=True, help="Leave payloads out; replay needs them.")
@click.option("--skip-lost", is_flag=True, help="Pass over rows that were removed before; note it.")
@click.option("--adopt", is_flag=True, help="Go on with an archive that was forgotten.")
@NAMESPACE
@MASTER
def archive(
    app: App,
    lake: str,
    archive: str,
    every: float | None,
    without_value: bool,
    master: str | None,
    **options: Any,
) -> None:
    """Write what finished since the last run to the lake, each row once, and set the watermark.

    Killed anywhere, the next run goes on at the last commit. Rows that history's retention removes
    before they are archived are lost to the lake: run it more often than that. Exit code 1 then,
    until --skip-lost.
    """
    app.need_file()
    with refusals(app):
        _look(app, lake, archive, namespace=options["namespace"], begins=True)
    with _job(app, master) as (spark, stop), _told("Archiving", "rows") as tell:
        from turnabout.pipeline.jobs.archive import archive as run_archive

        def batch(done: Archived) -> None:
            tell(done.rows, f"{_show.plural(done.rows, 'row')} in {_show.duration(done.seconds)}")

        done = run_archive(
            spark,
            app.url,
            lake,
            archive=archive,
            once=every is None,
            every_seconds=every or 0.0,
            include_value=not without_value,
            progress=batch,
            stop=stop,
            **options,
        )
    text = (
        f"Archived {_show.plural(done.rows, 'row')} in {_show.plural(done.batches, 'batch')}"
        if done.rows
        else "Nothing new"
    ).replace("batchs", "batches")
    app.say(asdict(done), f"{text}; {archive} has {_show.count(done.total)} in all.")


@command(
    "compact",
    "turnabout pipeline run compact --lake /var/lib/turnabout/lake",
    "turnabout pipeline run compact --lake /var/lib/turnabout/lake --older-than 2d --keep 7d",
    json='{"days", "rows", "before", "after", "bytes", "removed", "seconds"}\n'
    "before, after: files; removed: old ones that nobody needs",
)
@LAKE
@ARCHIVE
@click.option(
    "--older-than", type=DURATION, default="1d", show_default=True, help="Days that ended then."
)
@click.option(
    "--keep", type=DURATION, default="1d", show_default=True, help="Old files stay for readers."
)
@MASTER
def compact(
    app: App, lake: str, archive: str | None, older_than: float, keep: float, master: str | None
) -> None:
    """Merge the small files of past days. An archiver and readers may go on meanwhile."""
    with refusals(app):
        _look(None, lake, archive)
    with _job(app, master) as (spark, stop), _told("Compacting", "rows") as tell:
        from turnabout.pipeline.jobs.compact import compact as run_compact

        def day(done: Compacted) -> None:
            tell(done.rows, f"{_show.plural(done.days, 'day')}, {_show.plural(done.rows, 'row')}")

        done = run_compact(
            spark,
            lake,
            archive=archive,
            older_than_days=older_than / 86_400,
            keep_hours=keep / 3600,
            progress=day,
            stop=stop,
        )
    app.say(
        asdict(done),
        f"{_show.plural(done.days, 'day')}: {_show.plural(done.before, 'file')} became "
        f"{_show.count(done.after)}; removed {_show.plural(done.removed, 'old file')}.",
    )


@command(
    "purge",
    "turnabout pipeline run purge --lake /var/lib/turnabout/lake --dry-run",
    "turnabout pipeline run purge --lake /var/lib/turnabout/lake --keep 7d",
    json='{"rows", "archive", "position", "finished_before", "files", "bytes", "dry_run"}\n'
    "archive, position: the one that has come least far; files, bytes: those that were looked at",
)
@click.option(
    "--lake",
    "lakes",
    envvar="TURNABOUT_LAKE",
    show_envvar=True,
    required=True,
    multiple=True,
    metavar="FOLDER",
    help="A lake with archives; may be repeated.",
)
@click.option(
    "--keep", type=DURATION, default="1d", show_default=True, help="Keep what finished since then."
)
@click.option("--deep", is_flag=True, help="Read the files whole, not only their sizes.")
@click.option("--dry-run", is_flag=True, help="Only count.")
def purge(app: App, lakes: tuple[str, ...], keep: float, deep: bool, dry_run: bool) -> None:
    """Remove history that every archive of this database has, once its files are seen to be there.

    Never more than the archive that has come least far; nothing without an archive. Needs no Java.
    """
    app.need_file()
    with refusals(app), _told("Purging", "rows") as tell:
        from turnabout.pipeline.jobs.purge import purge as run_purge

        done = run_purge(
            app.url,
            *lakes,
            keep_seconds=keep,
            deep=deep,
            dry_run=dry_run,
            progress=lambda rows: tell(rows, None),
        )
    app.say(asdict(done), _purged(done))


def _purged(done: PurgeReport) -> str:
    looked = f"checked {_show.plural(done.files, 'file')} of the lake"
    rows = _show.plural(done.rows, "row")
    if done.dry_run:
        return f"Would remove {rows}; {looked}. Nothing was changed."
    return f"Removed {rows}; {looked}."


@command(
    "replay",
    "turnabout pipeline run replay --lake /mnt/lake --queue mail --outcome dead --dry-run",
    "turnabout pipeline run replay --lake /mnt/lake --since 2d --to again --run-id monday",
    "turnabout pipeline run replay --lake /mnt/lake --queue mail --rate 500/s --run-id a --yes",
    json='{"run", "rows", "sent", "left_out", "done", "seconds",\n'
    '  "chosen": [{"namespace", "queue", "outcome", "rows", "without_value"}]}',
)
@LAKE
@ARCHIVE
@click.option("--run-id", metavar="NAME", help="Name of the run; required unless --dry-run.")
@click.option("--to", metavar="QUEUE", help="To this queue; else where each was.")
@click.option("--since", type=INSTANT, help="Finished since then: 2h (ago), 2026-05-01.")
@click.option("--until", type=INSTANT, help="Finished before that.")
@click.option(
    "--queue", "queues", multiple=True, metavar="NAME", help="Only this queue; may be repeated."
)
@click.option("--channel", "channels", multiple=True, help="Only this channel; may be repeated.")
@click.option(
    "--outcome",
    "outcomes",
    multiple=True,
    type=click.Choice(["done", "dead", "cancelled", "expired"]),
    help="Only with this outcome; may be repeated.",
)
@click.option(
    "--id", "ids", multiple=True, type=int, metavar="ID", help="Only this message; may be repeated."
)
@click.option("--rate", "per_second", type=PER_SECOND, help="At most this many a second.")
@click.option("--skip-without-value", is_flag=True, help="Leave out rows without a payload.")
@click.option("--dry-run", is_flag=True, help="Only count.")
@click.option("--yes", is_flag=True, help="Don't ask.")
@NAMESPACE
@MASTER
def replay(
    app: App,
    lake: str,
    run_id: str | None,
    dry_run: bool,
    yes: bool,
    master: str | None,
    **options: Any,
) -> None:
    """Send rows of the lake to a queue again, each once for one --run-id.

    Killed or stopped, the same command goes on; when it is over, it sends nothing. The rows are
    those of the first start. Messages keep channel, payload and headers, and get two more:
    replayed-from, the id that they had, and replay-run.

    Payloads have to be kept: by the queue's history_payload, and by the archive.
    """
    app.need_file()
    if run_id is None and not dry_run:
        raise UsageError("a replay needs a name, by which it can go on: --run-id NAME")
    for name in ("queues", "channels", "outcomes", "ids"):
        options[name] = options[name] or None
    if not dry_run:
        confirm(yes, f"Send the rows that are chosen to {options['to'] or 'their queues'}?")
    with refusals(app):
        _look(app, lake, options["archive"], namespace=options["namespace"])
    with _job(app, master) as (spark, stop), _told("Replaying", "messages") as tell:
        from turnabout.pipeline.jobs.replay import replay as run_replay

        def batch(done: Replayed) -> None:
            of = f"{_show.count(done.sent)} of {_show.count(done.rows)} sent"
            tell(done.sent, of)

        done = run_replay(
            spark,
            app.url,
            lake,
            run_id=run_id or "dry-run",
            dry_run=dry_run,
            progress=batch,
            stop=stop,
            **options,
        )
    if app.as_json:
        app.say(asdict(done), "")
    else:
        _show_replayed(done, dry_run)
    if not (done.done or dry_run):
        raise click.exceptions.Exit(NEGATIVE)


def _show_replayed(done: Replayed, dry_run: bool) -> None:
    without = f"; left out: {_show.count(done.left_out)} without a payload"
    left_out = without if done.left_out else ""
    if not dry_run:
        text = f"Run {done.run}: {_show.count(done.sent)} of {_show.count(done.rows)} sent"
        _show.out(f"{text}{left_out}." + ("" if done.done else " The same command goes on."))
        return
    heads = ("QUEUE", "OUTCOME", "ROWS", "NO PAYLOAD")
    rows = [
        (
            _show.clean(f"{one.namespace}/{one.queue}" if one.namespace else str(one.queue)),
            one.outcome,
            _show.count(one.rows),
            _show.count(one.without_value),
        )
        for one in done.chosen
    ]
    if rows:
        _show.out(_show.grid(heads, rows, range(2, 99)))
    _show.out(f"Would send {_show.plural(done.rows, 'message')}{left_out}. Nothing was changed.")


run.add_section("Jobs", archive, compact, purge, replay)

# --- what jobs share ------------------------------------------------------------------------------

Tell = Callable[[int, str | None], None]


@contextmanager
def _told(title: str, unit: str) -> Generator[Tell]:
    """A count that a person sees move; elsewhere a line for each batch, on standard error."""
    with progress(title, None, unit) as bar:

        def tell(done: int, line: str | None) -> None:
            bar(done, done)
            if line is not None and not _show.is_terminal(sys.stderr):
                _show.note(f"{title}: {line}")

        yield tell


def _look(
    app: App | None,
    lake: str,
    archive: str | None,
    *,
    namespace: str | None = None,
    begins: bool = False,
) -> None:
    """Refuse what the job would refuse once Spark runs, which takes seconds to start: a lake, an
    archive, and with `app` a database that are not there.
    """
    need_spark()
    from turnabout.pipeline.jobs.archive import may_begin
    from turnabout.pipeline.lake import Lake
    from turnabout.pipeline.spark.access import Access

    if app is not None:
        with closing(Access(app.url, namespace=namespace)) as access:
            access.run(LogLook())
            if begins and archive is not None:
                Lake(lake, create=may_begin(access, lake, archive))
    if not begins:
        there = Lake(lake)
        if archive is not None:
            there.files(archive)


@contextmanager
def _job(app: App, master: str | None) -> Generator[tuple[SparkSession, threading.Event]]:
    """Spark, and what tells a job to stop; exit code 1 unless the call was wrong."""
    with refusals(app):
        need_spark()
        from turnabout.pipeline import session

        # Spark's Python workers would take Ctrl-C for themselves, and break the batch: they and
        # Java inherit what is blocked while they are started.
        blocked = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        try:
            spark = session("turnabout", master=master)
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, blocked)
        with _stopping() as stop:
            yield spark, stop


@contextmanager
def refusals(app: App) -> Generator[None]:
    """Errors that don't come from a wrong call end with exit code 1."""
    try:
        yield
    except TurnaboutError as error:
        if error.code in NOT_DONE:
            app.refuse(error.code, str(error), NEGATIVE)
        raise


def need_spark() -> None:
    """Raises: UsageError, naming the extra, if Spark is not installed."""
    try:
        pipeline.need_spark()
    except ImportError as error:
        raise UsageError(str(error)) from error


@contextmanager
def _stopping() -> Generator[threading.Event]:
    """Ctrl-C and SIGTERM set the event; a second one breaks the batch."""
    stop = threading.Event()
    if threading.current_thread() is not threading.main_thread():
        yield stop
        return

    def note(number: int, frame: FrameType | None) -> None:
        if stop.is_set():
            raise KeyboardInterrupt
        stop.set()
        _show.note("Stopping after this batch; once more breaks it, which does no harm.")

    numbers = (signal.SIGINT, signal.SIGTERM)
    before = [signal.signal(number, note) for number in numbers]
    try:
        yield stop
    finally:
        for number, handler in zip(numbers, before, strict=True):
            signal.signal(number, handler)
