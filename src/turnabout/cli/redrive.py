"""`redrive`: dead messages back to where they died, or elsewhere."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from turnabout.cli import _show
from turnabout.cli._app import App
from turnabout.cli._declare import argument, group, limit, option
from turnabout.cli._json import items
from turnabout.cli._kinds import INSTANT, MESSAGE_ID, PER_SECOND, QUEUE
from turnabout.cli._progress import progress
from turnabout.words import limits
from turnabout.words.records import EVERYTHING, Redrive

if TYPE_CHECKING:
    from turnabout import Turnabout

ID = argument("redrive_id", click.IntRange(1, limits.ID_MAX), metavar="ID")
REDRIVES: _show.Columns = (
    ("ID", "id", str),
    ("QUEUE", "queue", _show.clean),
    ("TO", lambda one: one.target or "(where each died)", _show.clean),
    ("STATE", "state", lambda state: state.replace("_", " ")),
    ("MOVED", "moved", _show.count),
    ("SKIPPED", "skipped", _show.count),
    ("BEGAN", "created_at", _show.when),
    ("BY", lambda one: one.started_by or "", _show.clean),
)


@group("redrive", short_help="Dead messages back to their queues: start, list, cancel, resume.")
def redrive() -> None:
    """Move messages out of a dead-letter queue, each to the queue that it died in.

    They keep their ids and start again without charges. Each redrive is kept as a record of who
    moved what, and when.
    """


@redrive.command(
    "start",
    "turnabout redrive start emails-dead",
    "turnabout redrive start emails-dead --since 2h --channel customer-42 --dry-run",
    "turnabout redrive start emails-dead --id 4711 --id 4712",
    "turnabout redrive start emails-dead --to emails-slow --rate 10/s",
    json=Redrive,
)
@argument("queue", QUEUE)
@option("--to target", "To this queue; unless given, where each died.", metavar="QUEUE")
@option("--channel", "Only in this channel.")
@option("--error", "Only with this text in the last error.", metavar="TEXT")
@option("--id ids", "Only these; once for each.", MESSAGE_ID, multiple=True)
@option("--since died_from", "Died since then: 2h (ago), 2026-05-01.", INSTANT)
@option("--until died_until", "Died before that.", INSTANT)
@option("--rate per_second", "At most this many per second.", PER_SECOND)
@option("--max-redrives", "Skip those redriven this often already.", click.IntRange(0), 3)
@option("--dry-run", "Only count them.", bool)
@option("--no-wait", "Note it, and leave the work to the queue's receivers.", bool)
def start(app: App, queue: str, ids: tuple[int, ...], no_wait: bool, **options: Any) -> None:
    """Move dead messages back, and show how it goes.

    QUEUE is commonly a dead-letter queue. Ctrl-C does not undo or stop it: it goes on whenever
    somebody receives from QUEUE, or with `turnabout redrive resume`. `turnabout redrive cancel`
    stops it.
    """
    with app.open() as turnabout:
        begun = turnabout.queue(queue).redrive_start(ids=ids or None, **options)
        ended = begun
        if begun.state == "running" and not no_wait:
            ended = _run(turnabout, begun)
    app.say(ended, _summary(ended))


@redrive.command("list", "turnabout redrive list", json=items(Redrive))
@argument("queue", QUEUE, required=False)
@limit(limits.PEEK_MESSAGES_MAX)
def list_(app: App, queue: str | None, limit: int) -> None:
    """List redrives out of QUEUE, or of all queues, the newest first."""
    with app.open() as turnabout:
        found = turnabout.redrives(limit, queue=queue)
    app.show(found, REDRIVES, "No redrives yet: `turnabout redrive start QUEUE` begins one.")


@redrive.command("cancel", "turnabout redrive cancel 7", json=Redrive)
@ID
def cancel(app: App, redrive_id: int) -> None:
    """Stop the redrive ID where it is. What it has moved stays moved."""
    with app.open() as turnabout:
        ended = turnabout.redrive_cancel(redrive_id)
    app.say(ended, _summary(ended))


@redrive.command("resume", "turnabout redrive resume 7", json=Redrive)
@ID
def resume(app: App, redrive_id: int) -> None:
    """Go on with the redrive ID to its end. One that has ended is only shown."""
    with app.open() as turnabout:
        ended = _run(turnabout, turnabout.redrive_step(redrive_id))
    app.say(ended, _summary(ended))


def _run(turnabout: Turnabout, redrive: Redrive) -> Redrive:
    """Run a redrive to its end, with a bar; its total is known if there is no filter."""
    total: float | None = None
    if redrive.filter == EVERYTHING:
        counts = turnabout.queue(redrive.queue).stats()
        total = redrive.moved + counts.ready + counts.scheduled
    try:
        with progress(f"Redriving {redrive.queue}", total) as bar:
            return turnabout.redrive_resume(
                redrive.id, progress=lambda now: bar(now.moved, now.moved + now.skipped)
            )
    except KeyboardInterrupt:
        _show.note(
            f"Redrive {redrive.id} is not over. Go on: turnabout redrive resume {redrive.id}; "
            f"stop it: turnabout redrive cancel {redrive.id}"
        )
        raise


def _summary(redrive: Redrive) -> str:
    moved = _show.plural(redrive.moved, "message")
    skipped = f", {_show.count(redrive.skipped)} skipped" if redrive.skipped else ""
    of = f"{moved} out of {redrive.queue}"
    of += skipped if redrive.target is None else f" to {redrive.target}{skipped}"
    named = redrive.filter.ids
    missed = 0 if named is None else len(set(named)) - redrive.moved - redrive.skipped
    if missed > 0 and redrive.state in ("done", "dry_run"):
        of += f"; {_show.count(missed)} of those named are not there, or leased"
    match redrive.state:
        case "dry_run":
            return f"Would move {of}. Nothing was changed."
        case "done":
            return f"Redrive {redrive.id}: moved {of}."
        case "cancelled":
            return f"Redrive {redrive.id} is cancelled; it has moved {moved}{skipped}."
        case "running":
            return f"Redrive {redrive.id} is running; it has moved {moved}{skipped} so far."
