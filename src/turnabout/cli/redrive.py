"""`redrive`: dead messages back to where they died, or elsewhere."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import click

from turnabout.cli import _show
from turnabout.cli._app import App, command, group, pass_app
from turnabout.cli._kinds import INSTANT, PER_SECOND, QUEUE
from turnabout.cli._progress import progress
from turnabout.words import limits
from turnabout.words.records import Redrive

if TYPE_CHECKING:
    from turnabout import Turnabout

SHAPE = (
    '{"id", "queue", "target", "filter": {"channel", "died_from", "died_until", "error"},\n'
    '  "per_second", "state": "running" | "done" | "cancelled" | "dry_run", "moved", "skipped",\n'
    '  "created_at", "finished_at", "next_at"}'
)
ID = click.argument("redrive_id", type=click.IntRange(1, limits.ID_MAX), metavar="ID")


@group(
    "redrive",
    short_help="Dead messages back to their queues: start, list, cancel, resume.",
    examples=[
        "turnabout redrive start emails-dead --dry-run",
        "turnabout redrive start emails-dead --error 'SMTP said 550' --rate 50/s",
        "turnabout redrive list",
    ],
)
def redrive() -> None:
    """Move messages out of a dead-letter queue, each to the queue that it died in.

    They keep their ids and start again without charges. Each redrive is kept as a record of who
    moved what, and when.
    """


@command(
    "start",
    short_help="Move dead messages back.",
    examples=[
        "turnabout redrive start emails-dead",
        "turnabout redrive start emails-dead --since 2h --channel customer-42 --dry-run",
        "turnabout redrive start emails-dead --to emails-slow --rate 10/s",
    ],
    json_form=SHAPE,
)
@click.argument("queue", type=QUEUE)
@click.option("--to", "target", metavar="QUEUE", help="To this queue; else where each died.")
@click.option("--channel", help="Only of this channel.")
@click.option("--error", metavar="TEXT", help="Only with this text in the last error.")
@click.option("--since", "died_from", type=INSTANT, help="Died since then: 2h (ago), 2026-05-01.")
@click.option("--until", "died_until", type=INSTANT, help="Died before that.")
@click.option("--rate", "per_second", type=PER_SECOND, help="So many a second at most.")
@click.option(
    "--max-redrives",
    type=click.IntRange(0),
    default=3,
    show_default=True,
    help="Leave those that were redriven so often already.",
)
@click.option("--dry-run", is_flag=True, help="Only count them.")
@click.option("--no-wait", is_flag=True, help="Note it, and let the queue's receivers do it.")
@pass_app
def start(app: App, queue: str, no_wait: bool, **options: Any) -> None:
    """Move the messages of QUEUE, commonly a dead-letter queue, and show how it goes.

    Ctrl-C does not undo or stop it: it goes on whenever somebody receives from QUEUE, or with
    `turnabout redrive resume`. `turnabout redrive cancel` stops it.
    """
    with app.open() as turnabout:
        begun = turnabout.queue(queue).redrive_start(**options)
        ended = begun
        if begun.state == "running" and not no_wait:
            ended = _run(turnabout, begun)
    app.outcome(asdict(ended), _told(ended))


@command(
    "resume",
    short_help="Go on with a redrive to its end.",
    examples=["turnabout redrive resume 7"],
    json_form=SHAPE,
)
@ID
@pass_app
def resume(app: App, redrive_id: int) -> None:
    """Go on with the redrive ID, and show how it goes. One that has ended is only shown."""
    with app.open() as turnabout:
        ended = _run(turnabout, turnabout.redrive_step(redrive_id))
    app.outcome(asdict(ended), _told(ended))


@command(
    "cancel",
    short_help="Stop a redrive where it is.",
    examples=["turnabout redrive cancel 7"],
    json_form=SHAPE,
)
@ID
@pass_app
def cancel(app: App, redrive_id: int) -> None:
    """Stop the redrive ID. What it has moved stays moved."""
    with app.open() as turnabout:
        ended = turnabout.redrive_cancel(redrive_id)
    app.outcome(asdict(ended), _told(ended))


@command(
    "list",
    short_help="List redrives, running and ended.",
    examples=["turnabout redrive list", "turnabout redrive list emails-dead -n 100"],
    json_form=f'{{"redrives": [{SHAPE}]}}',
)
@click.argument("queue", type=QUEUE, required=False)
@click.option(
    "-n",
    "--limit",
    type=click.IntRange(1, limits.PEEK_MESSAGES_MAX),
    default=20,
    show_default=True,
    help="How many at most.",
)
@pass_app
def list_(app: App, queue: str | None, limit: int) -> None:
    """List the redrives out of QUEUE, or of all queues, the newest first."""
    with app.open() as turnabout:
        found = turnabout.redrives(limit, queue=queue)
    if app.as_json:
        app.document({"redrives": [asdict(one) for one in found]})
        return
    if not found:
        _show.note("No redrives yet: `turnabout redrive start QUEUE` begins one.")
        return
    heads = ("ID", "QUEUE", "TO", "STATE", "MOVED", "SKIPPED", "BEGAN")
    rows = [
        (
            str(one.id),
            _show.clean(one.queue),
            "(where each died)" if one.target is None else _show.clean(one.target),
            one.state.replace("_", " "),
            _show.count(one.moved),
            _show.count(one.skipped),
            _show.when(one.created_at),
        )
        for one in found
    ]
    _show.out(_show.table(heads, rows, left=4))


def _run(turnabout: Turnabout, redrive: Redrive) -> Redrive:
    """To its end, with a bar; the total is known where nothing is filtered out."""
    total: float | None = None
    if all(value is None for value in asdict(redrive.filter).values()):
        counts = turnabout.queue(redrive.queue).stats()
        total = redrive.moved + counts.ready + counts.scheduled
    try:
        with progress(f"Redriving {redrive.queue}", total) as bar:
            return turnabout.redrive_resume(redrive.id, progress=_shower(bar))
    except KeyboardInterrupt:
        _show.note(
            f"Redrive {redrive.id} is not over. Go on: turnabout redrive resume {redrive.id}; "
            f"stop it: turnabout redrive cancel {redrive.id}"
        )
        raise


def _shower(bar: Callable[[int, float], None]) -> Callable[[Redrive], None]:
    return lambda now: bar(now.moved, now.moved + now.skipped)


def _told(redrive: Redrive) -> str:
    moved = _show.plural(redrive.moved, "message")
    skipped = f", {_show.count(redrive.skipped)} skipped" if redrive.skipped else ""
    where = "" if redrive.target is None else f" to {redrive.target}"
    match redrive.state:
        case "dry_run":
            return (
                f"Would move {moved} out of {redrive.queue}{where}{skipped}. Nothing was changed."
            )
        case "done":
            return f"Redrive {redrive.id}: moved {moved} out of {redrive.queue}{where}{skipped}."
        case "cancelled":
            return f"Redrive {redrive.id} is cancelled; it has moved {moved}{skipped}."
        case "running":
            return f"Redrive {redrive.id} is running; it has moved {moved}{skipped} so far."


redrive.add_section("Commands", start, list_, cancel, resume)
