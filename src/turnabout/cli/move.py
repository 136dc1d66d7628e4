"""`move`: queues from an SQLite file to PostgreSQL, while they are in use."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING

import click

from turnabout.cli import _places, _show
from turnabout.cli._app import App
from turnabout.cli._declare import command
from turnabout.cli._interrupt import stop_like_interrupt
from turnabout.cli._progress import progress
from turnabout.words.errors import UsageError

if TYPE_CHECKING:
    from turnabout.move import Moved, Progress

_EXAMPLES = [
    "turnabout move sqlite:///app.db postgresql://app@localhost/app --dry-run",
    "turnabout move sqlite:///app.db postgresql://app@localhost/app",
    "TURNABOUT_URL=postgresql://app:secret@localhost/app turnabout move sqlite:///app.db --json",
    "turnabout move sqlite:///app.db postgresql://app@localhost/app --abort",
]
_JSON = (
    '{"source", "target", "queues": [{"queue", "messages", "leased", "history", "policies"}],\n'
    ' "dedup_entries", "schedules", "redrives", "events_cursor", "seconds", "closed_seconds",\n'
    ' "tokens", "sink_batches", "left": {"subscriptions", "leased", "staged", "watermarks"}}\n'
    'with --abort: {"aborted"}'
)


@command(
    "move",
    *_EXAMPLES,
    json=_JSON,
)
@click.argument("source")
@click.argument("target", required=False)
@click.option("--dry-run", is_flag=True, help="Say what would be moved, and change nothing.")
@click.option("--abort", is_flag=True, help="Give up a move that did not come to its end.")
def move(app: App, source: str, target: str | None, dry_run: bool, abort: bool) -> None:
    """Move all queues from an SQLite file to PostgreSQL.

    SOURCE is the file, whose queues move with all that is in them to the database TARGET.
    TARGET is the database of --url or TURNABOUT_URL, unless it is named. It has to be migrated.

    Senders and workers go on using the file meanwhile. At the end it is closed for a moment; from
    then on whoever opens it is told where its queues are. Ids and receipts stay as they are.

    A move that was stopped, by whatever, goes on when the same command is run again.
    """
    from turnabout import move as moving

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
        aborted = moving.abort(source, app.url)
        text = "Given up: the file is in use as before." if aborted else "There was no move."
        app.say({"aborted": aborted}, text)
    elif dry_run:
        _tell(app, moving.plan(source, app.url), "would move")
    else:
        _tell(app, _moved(source, app.url), "moved")


def _moved(source: str, target: str) -> Moved:
    """Move, with a bar. Ctrl-C and SIGTERM stop in good order."""
    from turnabout import move as moving

    stop_like_interrupt()
    with progress("Moving", 1.0, "rows") as bar:

        def show(progress: Progress) -> None:
            bar(progress.done, progress.done / progress.total if progress.total else 1.0)

        try:
            return moving.move(source, target, progress=show)
        except KeyboardInterrupt:
            _show.note("The move is not done: run the same command again, and it goes on.")
            raise


def _tell(app: App, found: Moved, done: str) -> None:
    if app.as_json:
        app.say(asdict(found), "")
        return
    heads = ("queue", "messages", "leased", "history", "policies")
    rows = [
        (q.queue, *map(_show.count, (q.messages, q.leased, q.history, q.policies)))
        for q in found.queues
    ]
    if rows:
        _show.out(_show.grid(heads, rows, range(1, 99)))
    notes = found.sink_batches
    parts = [
        _show.plural(found.messages, "message"),
        _show.plural(found.dedup_entries, "dedup entry", "dedup entries"),
        _show.plural(found.schedules, "schedule"),
        _show.plural(found.redrives, "redrive"),
        *([_show.plural(found.tokens, "token")] if found.tokens else []),
        *([_show.plural(notes, "note of a sink", "notes of sinks")] if notes else []),
    ]
    _show.out(f"{done.capitalize()} {', '.join(parts)} to {found.target}.")
    _tell_of_pipelines(found)
    if found.events_cursor is not None:
        _show.out(
            f"It took {_show.duration(found.seconds)}; neither side was usable for "
            f"{_show.duration(found.closed_seconds)}. Counts and ids are the same on both sides."
        )


def _tell_of_pipelines(found: Moved) -> None:
    """What stays behind of pipelines, and what that means for them."""
    left = found.left
    if left.subscriptions:
        text = "Left behind: " + _show.plural(
            left.subscriptions, "subscription of a pipeline", "subscriptions of pipelines"
        )
        if left.leased:
            what = _show.plural(left.leased, "message")
            text += f"; what they had leased ({what}) comes back when the leases run out"
        _show.note(f"{text}. Begin with new checkpoints: docs/how-to/move.md.")
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
