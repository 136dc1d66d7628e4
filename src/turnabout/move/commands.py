"""`move`: queues from an SQLite file to PostgreSQL."""

from __future__ import annotations

from turnabout.cli import _places, _show
from turnabout.cli._app import App
from turnabout.cli._declare import argument, command, option
from turnabout.cli._interrupt import stop_like_interrupt
from turnabout.cli._progress import progress
from turnabout.move._report import Moved, Progress
from turnabout.words.errors import UsageError

QUEUES: _show.Columns = (
    ("QUEUE", "queue", _show.clean),
    *((name.upper(), name, _show.count) for name in ("messages", "leased", "history", "policies")),
)


@command(
    "move",
    "turnabout move sqlite:///app.db postgresql://app@localhost/app --dry-run",
    "turnabout move sqlite:///app.db postgresql://app@localhost/app",
    "TURNABOUT_URL=postgresql://app:secret@localhost/app turnabout move sqlite:///app.db --json",
    "turnabout move sqlite:///app.db postgresql://app@localhost/app --abort",
    json=Moved,
)
@argument("source")
@argument("target", required=False)
@option("--dry-run", "Say what would be moved, and change nothing.", bool)
@option("--abort", "Open a file again that a killed move has left closed.", bool)
def move(app: App, source: str, target: str | None, dry_run: bool, abort: bool) -> None:
    """Move all queues from an SQLite file to PostgreSQL.

    SOURCE is the file's URL, sqlite:///app.db: its queues move with all that is in them to the
    database TARGET, that of --url or TURNABOUT_URL unless it is named. It has to be migrated.

    Nobody can write to the file meanwhile: senders and workers wait, and get an error that says
    why and can be repeated. When all is copied, programs that open the file are told where its
    queues are. Ids and receipts stay as they are.

    If it is interrupted, both sides are as before. If it is killed in its last step, the file stays
    closed until the same command is run again. With --abort, --json prints {"aborted"}.
    """
    from turnabout.move import _move

    if target is not None:
        app.given_url = target
    if not _places.is_sqlite(source) or not _places.is_postgres(app.url):
        raise UsageError(
            "move goes from sqlite:///path to postgresql://…: name both, "
            "or the second one by --url or TURNABOUT_URL"
        )
    if dry_run and abort:
        raise UsageError("--dry-run and --abort do not go together: choose one")
    if abort:
        aborted = _move.abort(source, app.url)
        text = "The file is open again." if aborted else "No move has closed the file."
        app.say({"aborted": aborted}, text)
    elif dry_run:
        _tell(app, _move.plan(source, app.url), "Would move")
    else:
        _tell(app, _moved(source, app.url), "Moved")


def _moved(source: str, target: str) -> Moved:
    """Move, with a bar. Ctrl-C and SIGTERM stop in good order."""
    from turnabout.move import _move

    stop_like_interrupt()
    stopped = "Stopped: nothing has changed."
    with progress("Moving", 1.0, "rows") as bar:

        def show(progress: Progress) -> None:
            nonlocal stopped
            bar(progress.done, progress.done / progress.total if progress.total else 1.0)
            if progress.step == "closed":
                stopped = "Stopped in the last step: run it again if the file is closed."

        try:
            return _move.move(source, target, progress=show)
        except KeyboardInterrupt:
            _show.note(stopped)
            raise


def _tell(app: App, found: Moved, done: str) -> None:
    counted = (
        (found.messages, "message", None),
        (found.dedup_entries, "dedup entry", "dedup entries"),
        (found.schedules, "schedule", None),
        (found.redrives, "redrive", None),
        *([(found.tokens, "token", None)] if found.tokens else []),
        *([(found.sink_batches, "note of a sink", "notes of sinks")] if found.sink_batches else []),
    )
    lines = [_show.table(QUEUES, found.queues)] if found.queues else []
    lines.append(f"{done} {', '.join(_show.plural(*one) for one in counted)} to {found.target}.")
    if found.events_cursor is not None:
        lines.append(
            f"It took {_show.duration(found.seconds)}. "
            "Contents and counts are the same on both sides."
        )
    app.say(found, "\n".join(lines))
    if not app.as_json:
        _tell_of_pipelines(found)


def _tell_of_pipelines(found: Moved) -> None:
    """Tell what stays behind of pipelines, and what that means for them."""
    left = found.left
    if left.staged:
        _show.note(
            f"Left behind: {_show.plural(left.staged, 'staged message')}. What was staged with "
            "them fails once, and is repeated."
        )
    if left.watermarks:
        _show.note(
            f"Left behind: {_show.plural(left.watermarks, 'archive')} of the file's log. The log "
            "on the target is another one, so its archive needs another name."
        )


SECTIONS = {"Database": (move,)}
