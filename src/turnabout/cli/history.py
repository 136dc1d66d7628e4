"""`history`, `clear` and `events`: what has happened in a queue."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict
from typing import Any, Literal

import click

from turnabout.cli import _show
from turnabout.cli._app import App, command, pass_app
from turnabout.cli._kinds import DURATION, INSTANT, QUEUE
from turnabout.cli.ids import result_json
from turnabout.cli.queue import YES, confirm
from turnabout.cli.receive import bytes_json
from turnabout.words import limits
from turnabout.words.records import OUTCOMES, Event, HistoryEntry


@command(
    "history",
    short_help="Finished messages: how they ended, results and errors.",
    examples=[
        "turnabout history emails",
        "turnabout history emails --outcome dead --since 1d --error 'SMTP said 550'",
        "turnabout history renders --all --json | jq -r 'select(.outcome == \"done\") | .result'",
    ],
    json_form='one line for each: {"id", "channel", "outcome", "sent_at", "leased_at",\n'
    '  "finished_at", "attempt", "failures", "crashes", "error", "result", "result_base64",\n'
    '  "content_type", "payload", "payload_base64", "payload_type", "headers"}; payloads are\n'
    "  kept where the queue says --history-payload\n"
    'with more to come, a last line {"cursor"}',
)
@click.argument("queue", type=QUEUE)
@click.option(
    "-n",
    "--limit",
    type=click.IntRange(1, limits.PEEK_MESSAGES_MAX),
    default=20,
    show_default=True,
    help="How many at most.",
)
@click.option("--outcome", type=click.Choice(OUTCOMES), help="Only those that ended so.")
@click.option("--channel", help="Only of this channel.")
@click.option("--error", metavar="TEXT", help="Only with this text in the error.")
@click.option("--since", type=INSTANT, help="Ended since then: 2h (ago), 2026-05-01T12:00.")
@click.option("--until", type=INSTANT, help="Ended before that.")
@click.option("--cursor", help="Go on with older ones, as the last page said.")
@click.option("--all", "everything", is_flag=True, help="All of them, however many.")
@pass_app
def history(
    app: App,
    queue: str,
    limit: int,
    since: int | None,
    until: int | None,
    cursor: str | None,
    everything: bool,
    **which: Any,
) -> None:
    """Show the finished messages of QUEUE, the newest first.

    How long they are kept: `turnabout queue update --history`, `--history-failed`.
    """
    if everything and cursor:
        raise click.UsageError("--all and --cursor exclude each other")
    which |= {"finished_from": since, "finished_until": until}
    with app.open() as turnabout:
        handle = turnabout.queue(queue)
        if everything:
            _print_all(app, handle.history_entries(**which))
            return
        page = handle.history(limit, cursor=cursor, **which)
    _print_all(app, page.entries)
    if not page.entries:
        _show.note(f"No such message in the history of {queue}.")
    elif page.cursor is not None and app.as_json:
        app.document({"cursor": page.cursor})
    elif page.cursor is not None:
        _show.note(_show.dim(f"There may be more: --cursor {page.cursor}"))


def _print_all(app: App, entries: Iterable[HistoryEntry]) -> None:
    """A table, or lines of JSON as they come; a table of many is printed in parts."""
    if app.as_json:
        for entry in entries:
            app.document(entry_json(entry))
        return
    rows: list[list[str]] = []
    for entry in entries:
        rows.append(_row(entry))
        if len(rows) == limits.PEEK_MESSAGES_MAX:
            _print_table(rows)
            rows = []
    if rows:
        _print_table(rows)


def _print_table(rows: list[list[str]]) -> None:
    heads = ("ID", "OUTCOME", "CHANNEL", "ATTEMPT", "ENDED", "TOOK", "RESULT OR ERROR")
    _show.out(_show.table(heads, rows, left=7))


def _row(entry: HistoryEntry) -> list[str]:
    told = ""
    if entry.error is not None:
        told = _show.error(entry.error, 60)
    elif entry.result is not None:
        told = _show.payload(entry.result.data, 60)
    took = None if entry.leased_at is None else entry.finished_at - entry.leased_at
    charged = entry.failures + entry.crashes
    return [
        str(entry.id),
        entry.outcome,
        _show.channel(entry.channel),
        f"{entry.attempt}" + (f" ({charged} failed)" if charged else ""),
        _show.when(entry.finished_at),
        _show.milliseconds(took),
        told,
    ]


def entry_json(entry: HistoryEntry) -> dict[str, Any]:
    """A finished message as `history --json` prints it."""
    return {
        "id": entry.id,
        "channel": entry.channel,
        "outcome": entry.outcome,
        "sent_at": entry.sent_at,
        "leased_at": entry.leased_at,
        "finished_at": entry.finished_at,
        "attempt": entry.attempt,
        "failures": entry.failures,
        "crashes": entry.crashes,
        "error": entry.error,
        **result_json(entry.result),
        **bytes_json("payload", entry.payload, entry.content_type or ""),
        "payload_type": entry.content_type,
        "headers": None if entry.headers is None else dict(entry.headers),
    }


@command(
    "clear",
    short_help="Remove finished messages from the history.",
    examples=["turnabout clear emails done --yes", "turnabout clear emails failed --limit 1000"],
    json_form='{"queue", "which", "messages"}',
)
@click.argument("queue", type=QUEUE)
@click.argument("which", type=click.Choice(["done", "failed", "all"]))
@click.option("--limit", type=click.IntRange(1), help="At most so many, the oldest first.")
@YES
@pass_app
def clear(
    app: App, queue: str, which: Literal["done", "failed", "all"], limit: int | None, yes: bool
) -> None:
    """Remove messages of QUEUE from its history: those that are done, all others, or all.

    Messages that have not ended are untouched (`turnabout purge` cancels those).
    """
    with app.open() as turnabout:
        handle = turnabout.queue(queue)
        handle.settings()  # a wrong name is told before a question is asked
        confirm(yes, f"Remove the history of {queue} ({which})?")
        cleared = handle.clear(which, limit=limit)
    app.outcome(
        {"queue": queue, "which": which, "messages": cleared.messages},
        f"Removed {_show.plural(cleared.messages, 'message')} from the history of {queue}.",
    )


@command(
    "events",
    short_help="Watch what happens in a queue, as it happens.",
    examples=[
        "turnabout events emails",
        "turnabout events emails --json | jq -c 'select(.kind == \"dead\")'",
        "turnabout events emails --after 81/4711 --idle 1s",
    ],
    json_form='one line for each: {"kind": "created" | "leased" | "deferred" | "failed" |\n'
    '  "done" | "dead" | "cancelled" | "expired" | "changed", "queue", "at", "id", "channel",\n'
    '  "attempt", "due_at", "cursor"}',
)
@click.argument("queue", type=QUEUE)
@click.option("--after", metavar="CURSOR", help="Go on after this event; unless given, from now.")
@click.option("--idle", type=DURATION, help="End when nothing happened for so long.")
@pass_app
def events(app: App, queue: str, after: str | None, idle: float | None) -> None:
    """Print a line for each thing that happens to a message of QUEUE, until Ctrl-C.

    The queue has to tell: `turnabout queue update QUEUE --events all`; with `hints` there is only
    a line "changed" now and then. Events are kept for a day: --after goes on where a run ended.
    """
    last: str | None = None
    try:
        with app.open() as turnabout:
            for event in turnabout.queue(queue).events(after=after, idle_seconds=idle):
                app.outcome(asdict(event), _event_text(event))
                _show.flush()
                last = event.cursor
    finally:
        if last is not None and not app.as_json:
            _show.note(_show.dim(f"Go on from here: --after {last}"))


def _event_text(event: Event) -> str:
    words = [_show.clock_time(event.at), event.kind.ljust(9)]
    if event.id is not None:
        words.append(f"{event.id}.{event.attempt}" if event.attempt else str(event.id))
    if event.channel is not None:
        words.append(_show.channel(event.channel))
    if event.due_at is not None and event.kind != "created":
        words.append(_show.dim(f"until {_show.clock_time(event.due_at)}"))
    return "  ".join(words)
