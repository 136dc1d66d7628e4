"""`pipeline run …`: archive, compact, purge and replay, for a terminal, cron or a scheduler.

A job that is told to stop (Ctrl-C, SIGTERM) ends after its current batch.
"""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Callable, Generator, Iterable, Mapping
from contextlib import closing, contextmanager
from importlib.util import find_spec
from types import FrameType
from typing import TYPE_CHECKING, Any

from click import IntRange

from turnabout import pipeline
from turnabout.cli import _show
from turnabout.cli._app import NEGATIVE, App, negative
from turnabout.cli._declare import YES, command, group, option
from turnabout.cli._kinds import DURATION, INSTANT, PER_SECOND, Kind, pair
from turnabout.cli._progress import progress
from turnabout.cli.queue import confirm
from turnabout.pipeline.results import Archived, Compacted, PurgeReport, Replayed
from turnabout.pipeline.verbs import LogLook
from turnabout.words.errors import TurnaboutError, UsageError
from turnabout.words.records import OUTCOMES

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

StorageOptions = Mapping[str, str] | None
NOT_DONE = frozenset(
    {"lake_damaged", "rows_lost", "not_archived", "without_value", "job_failed", "sink_full"}
)
"""Codes of errors that do not mean a wrong call: exit code 1."""


def _as_mapping(_context: object, _option: object, pairs: Iterable[tuple[str, str]]) -> Any:
    return dict(pairs) or None


KEY_VALUE = Kind("NAME=VALUE", pair, "AWS_REGION=eu-central-1", "option")

_IN_A_LAKE = {"envvar": "TURNABOUT_LAKE", "show_envvar": True, "required": True, "metavar": "PLACE"}
LAKE = option("--lake", "A folder that all executors see, or s3://bucket/lake.", **_IN_A_LAKE)
STORAGE = option(
    "--storage-option storage_options",
    "Of an object store, beside the environment: AWS_REGION=…; may be repeated.",
    KEY_VALUE,
    multiple=True,
    callback=_as_mapping,
)
ARCHIVE = option("--archive", "Its name, if the lake has several.", metavar="NAME")
ENGINE = option(
    "--engine",
    "local: this process alone. [default: spark where PySpark is installed]",
    ("local", "spark"),
)
MASTER = option("--master", "Spark's master. [default: this machine, local[*]]", metavar="URL")
NAMESPACE = option("--namespace", "Only this namespace.", metavar="NAME")
SINCE = option("--since", "Finished since then: 24h (ago), 2026-05-01.", INSTANT)
UNTIL = option("--until", "Finished before that.", INSTANT)


def chosen(names: str, text: str, kind: Any = None, **more: Any) -> Any:
    """A filter that may be given several times."""
    return option(names, f"{text}; may be repeated.", kind, multiple=True, **more)


QUEUES = chosen("--queue queues", "Only this queue", metavar="NAME")


@group(
    "run",
    "turnabout pipeline run archive --lake /var/lib/turnabout/lake",
    "turnabout pipeline run purge --lake /var/lib/turnabout/lake --dry-run",
    short_help="Run a job: archive, compact, purge, replay, report.",
)
def run() -> None:
    """Jobs on the log of what finished, and on the lake where it is archived as Delta tables.

    Each may be killed at any point and is simply run again. Exit codes, for schedulers: 0 done; 1
    not done, as it says; 2 a wrong call; 3 the database cannot be reached, or the job is already
    running: repeat later.
    """


@command(
    "archive",
    "turnabout pipeline run archive --lake /var/lib/turnabout/lake",
    "turnabout pipeline run archive --lake /var/lib/turnabout/lake --every 30s",
    "turnabout pipeline run archive --lake s3://bucket/lake --engine local",
    "turnabout pipeline run archive --lake /mnt/lake --master spark://host:7077 --json",
    json=Archived,
)
@LAKE
@option("--archive", "Its name.", default="archive", metavar="NAME")
@option("--every", "Keep running, and look this often, until it is stopped.", DURATION)
@option("--max-rows", "At most this many rows in one commit.", IntRange(1), 1_000_000)
@option("--without-value", "Leave payloads out; replay needs them.", bool)
@option("--skip-lost", "Pass over rows that were removed before; note it.", bool)
@option("--adopt", "Go on with an archive that was forgotten.", bool)
@NAMESPACE
@STORAGE
@ENGINE
@MASTER
def archive(
    app: App,
    lake: str,
    archive: str,
    every: float | None,
    without_value: bool,
    engine: str | None,
    master: str | None,
    **options: Any,
) -> None:
    """Write what finished since the last run to the lake, each row once, and set the watermark.

    If it is killed, the next run continues from the last commit. Rows that history's retention
    removes before they are archived are lost to the lake: run it more often than that. The exit
    code is then 1, until --skip-lost. In the JSON, rows to batches are those of this run.
    """
    app.need_file()
    with refusals(app):
        _look(app, lake, archive, options, begins=True)
    with job(app, engine, master) as (spark, stop), _counter("Archiving", "rows") as tell:
        from turnabout.pipeline.jobs.archive import archive as run_archive

        def batch(done: Archived) -> None:
            tell(done.rows, f"{_show.plural(done.rows, 'row')} in {_show.duration(done.seconds)}")

        done = run_archive(
            app.url,
            lake,
            spark=spark,
            archive=archive,
            once=every is None,
            every_seconds=every or 0.0,
            include_value=not without_value,
            progress=batch,
            stop=stop,
            **options,
        )
    text = "Nothing new"
    if done.rows:
        batches = _show.plural(done.batches, "batch", "batches")
        text = f"Archived {_show.plural(done.rows, 'row')} in {batches}"
    app.say(done, f"{text} {_by(spark)}; {archive} has {_show.count(done.total)} in all.")


@command(
    "compact",
    "turnabout pipeline run compact --lake /var/lib/turnabout/lake",
    "turnabout pipeline run compact --lake s3://bucket/lake --older-than 2d --keep 14d",
    json=Compacted,
)
@LAKE
@ARCHIVE
@option("--older-than", "Days that ended at least this long ago.", DURATION, "1d")
@option("--keep", "Keep files without use this long, for readers.", DURATION, "7d")
@STORAGE
def compact(
    app: App,
    lake: str,
    archive: str | None,
    older_than: float,
    keep: float,
    storage_options: StorageOptions,
) -> None:
    """Merge the small files of past days, and remove files that nobody needs any more: those that
    were merged, and those of killed runs. An archiver and readers may go on. Needs no Java.

    In the JSON, before and after count files; removed counts files without use.
    """
    with refusals(app):
        need_lake()
        from turnabout.pipeline.jobs.compact import compact as run_compact

        done = run_compact(
            lake,
            archive=archive,
            older_than_days=older_than / 86_400,
            keep_hours=keep / 3600,
            storage_options=storage_options,
        )
    app.say(
        done,
        f"{_show.plural(done.before, 'file')} became {_show.count(done.after)}; removed "
        f"{_show.plural(done.removed, 'old file')}.",
    )


@command(
    "purge",
    "turnabout pipeline run purge --lake /var/lib/turnabout/lake --dry-run",
    "turnabout pipeline run purge --lake /var/lib/turnabout/lake --keep 7d",
    json=PurgeReport,
)
@chosen("--lake lakes", "A lake with archives", **_IN_A_LAKE)
@option("--keep", "Keep what finished less than this long ago.", DURATION, "1d")
@option("--quick", "Look at the sizes of files only, not at what is in them.", bool)
@option("--dry-run", "Only count.", bool)
@STORAGE
def purge(
    app: App,
    lakes: tuple[str, ...],
    keep: float,
    quick: bool,
    dry_run: bool,
    storage_options: StorageOptions,
) -> None:
    """Remove history that every archive of this database has, once its files are seen to be there.

    Never more than the archive that is furthest behind has (in the JSON: archive, position), and
    nothing if there is no archive. Needs no Java.
    """
    app.need_file()
    with refusals(app), _counter("Purging", "rows") as tell:
        from turnabout.pipeline.jobs.purge import purge as run_purge

        done = run_purge(
            app.url,
            *lakes,
            keep_seconds=keep,
            deep=not quick,
            dry_run=dry_run,
            storage_options=storage_options,
            progress=lambda rows: tell(rows, None),
        )
    app.say(done, _purged(done))


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
    json=Replayed,
)
@LAKE
@ARCHIVE
@option("--run-id", "Name of the run; required unless --dry-run.", metavar="NAME")
@option("--to", "To this queue; otherwise to the queue each was in.", metavar="QUEUE")
@SINCE
@UNTIL
@QUEUES
@chosen("--channel channels", "Only this channel")
@chosen("--outcome outcomes", "Only with this outcome", OUTCOMES)
@chosen("--id ids", "Only this message", int, metavar="ID")
@option("--rate per_second", "At most this many per second.", PER_SECOND)
@option("--skip-without-value", "Leave out rows without a payload.", bool)
@option("--skip-invalid", "Go on without messages that can't be sent, and name them.", bool)
@option("--dry-run", "Only count.", bool)
@YES
@NAMESPACE
@STORAGE
@ENGINE
@MASTER
def replay(
    app: App,
    lake: str,
    run_id: str | None,
    dry_run: bool,
    yes: bool,
    engine: str | None,
    master: str | None,
    **options: Any,
) -> None:
    """Send rows of the lake to a queue again, each once for one --run-id.

    If it is killed or stopped, the same command continues; after the end it sends nothing. The rows
    are those chosen at the first start. Messages keep channel, payload and headers, and get two
    more headers: replayed-from, the id that they had, and replay-run.

    Payloads must have been kept: by the queue's history_payload, and by the archive.
    """
    app.need_file()
    if run_id is None and not dry_run:
        raise UsageError("a replay needs a name, by which it can go on: --run-id NAME")
    for name in ("queues", "channels", "outcomes", "ids"):
        options[name] = options[name] or None
    if not dry_run:
        confirm(yes, f"Send the chosen rows to {options['to'] or 'their queues'}?")
    with refusals(app):
        _look(app, lake, options["archive"], options)
    with job(app, engine, master) as (spark, stop), _counter("Replaying", "messages") as tell:
        from turnabout.pipeline.jobs.replay import replay as run_replay

        def batch(done: Replayed) -> None:
            of = f"{_show.count(done.sent)} of {_show.count(done.rows)} sent"
            tell(done.sent, of)

        done = run_replay(
            app.url,
            lake,
            spark=spark,
            run_id=run_id or "dry-run",
            dry_run=dry_run,
            progress=batch,
            stop=stop,
            **options,
        )
    app.say(done, _counted(done) if dry_run else _replayed(done, _by(spark)))
    if not (done.done or dry_run):
        negative()


def _by(spark: SparkSession | None) -> str:
    return "by this process" if spark is None else "by Spark"


def _replayed(done: Replayed, by: str) -> str:
    text = f"Run {done.run}: {_show.count(done.sent)} of {_show.count(done.rows)} sent {by}"
    return f"{text}{_left_out(done)}." + ("" if done.done else " The same command goes on.")


def _counted(done: Replayed) -> str:
    rows = f"{_show.table(CHOSEN, done.chosen)}\n" if done.chosen else ""
    sent = _show.plural(done.rows, "message")
    return f"{rows}Would send {sent}{_left_out(done)}. Nothing was changed."


def _left_out(done: Replayed) -> str:
    without = f"; left out: {_show.count(done.left_out)} without a payload"
    refused = [f"; can't be sent: {one.message_id} ({one.reason})" for one in done.refused[:20]]
    more = f"; and {len(done.refused) - 20} more" if len(done.refused) > 20 else ""
    return (without if done.left_out else "") + "".join(refused) + more


CHOSEN: _show.Columns = (
    (
        "QUEUE",
        lambda one: f"{one.namespace}/{one.queue}" if one.namespace else one.queue,
        _show.clean,
    ),
    ("OUTCOME", "outcome", str),
    ("ROWS", "rows", _show.count),
    ("NO PAYLOAD", "without_value", _show.count),
)


run.add_section("Jobs", archive, compact, purge, replay)

# --- what jobs share ------------------------------------------------------------------------------

Tell = Callable[[int, str | None], None]


@contextmanager
def _counter(title: str, unit: str) -> Generator[Tell]:
    """A count that a person sees move; elsewhere a line for each batch, on standard error."""
    with progress(title, None, unit) as bar:

        def tell(done: int, line: str | None) -> None:
            bar(done, done)
            if line is not None and not _show.is_terminal(sys.stderr):
                _show.note(f"{title}: {line}")

        yield tell


def _look(
    app: App, lake: str, archive: str | None, options: Mapping[str, Any], *, begins: bool = False
) -> None:
    """Refuse what the job would refuse once Spark runs, which takes seconds to start: a lake, an
    archive, and a database that are not there.
    """
    need_lake()
    from turnabout.pipeline.jobs.archive import may_begin
    from turnabout.pipeline.lake import ArchiveTable, Lake
    from turnabout.pipeline.spark.access import Access

    place = Lake(lake, storage_options=options["storage_options"])
    with closing(Access(app.url, namespace=options["namespace"])) as access:
        access.run(LogLook())
        if begins and archive is not None:
            may_begin(access, ArchiveTable(place.place(archive), archive, access.namespace))
    if not begins:
        place.table(archive)


@contextmanager
def job(
    app: App, engine: str | None, master: str | None
) -> Generator[tuple[SparkSession | None, threading.Event]]:
    """The session of `session`, and what tells a job to stop. Errors end with exit code 1 unless
    the call was wrong.
    """
    with refusals(app):
        spark = session(engine, master)
        with _stopping() as stop:
            yield spark, stop


def session(engine: str | None, master: str | None) -> SparkSession | None:
    """Spark where PySpark is installed, unless the engine is named; None for this process alone."""
    if engine == "local" and master is not None:
        raise UsageError("--master is Spark's: leave it out, or --engine local")
    if engine == "local" or (engine is None and master is None and find_spec("pyspark") is None):
        return None
    with _as_usage():
        pipeline.need_spark()

    # Spark's Python workers would take Ctrl-C for themselves, and break the batch: they and Java
    # inherit what is blocked while they are started.
    blocked = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        return pipeline.session("turnabout", master=master)
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, blocked)


@contextmanager
def refusals(app: App) -> Generator[None]:
    """Errors that do not mean a wrong call end with exit code 1."""
    try:
        yield
    except TurnaboutError as error:
        if error.code in NOT_DONE:
            app.refuse(error.code, str(error), NEGATIVE)
        raise


def need_lake() -> None:
    """Raises: UsageError, naming the extra, if the lake's packages are not installed."""
    with _as_usage():
        pipeline.need_lake()


@contextmanager
def _as_usage() -> Generator[None]:
    try:
        yield
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
        _show.note("Stopping after this batch; once more breaks it off, which does no harm.")

    numbers = (signal.SIGINT, signal.SIGTERM)
    before = [signal.signal(number, note) for number in numbers]
    try:
        yield stop
    finally:
        for number, handler in zip(numbers, before, strict=True):
            signal.signal(number, handler)
