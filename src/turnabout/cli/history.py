"""`history`: how messages of a queue ended."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice
from typing import Any

import click

from turnabout.cli import _show
from turnabout.cli._app import App
from turnabout.cli._declare import argument, command, limit, option
from turnabout.cli._json import lines
from turnabout.cli._kinds import INSTANT, QUEUE
from turnabout.cli.receive import attempts
from turnabout.words import limits
from turnabout.words.records import OUTCOMES, HistoryEntry


def _result(entry: HistoryEntry) -> str:
    if entry.error is not None:
        return _show.error(entry.error, 60)
    return "" if entry.result is None else _show.payload(entry.result.data, 60)


def _took(entry: HistoryEntry) -> int | None:
    return None if entry.leased_at is None else entry.finished_at - entry.leased_at


ENTRIES: _show.Columns = (
    ("ID", "id", str),
    ("OUTCOME", "outcome", str),
    ("CHANNEL", "channel", _show.channel),
    ("ATTEMPT", attempts, str),
    ("ENDED", "finished_at", _show.when),
    ("TOOK", _took, _show.milliseconds),
    ("RESULT OR ERROR", _result, str),
)


@command(
    "history",
    "turnabout history emails",
    "turnabout history emails --outcome dead --since 1d --error 'SMTP said 550'",
    "turnabout history renders --all --json | jq 'select(.outcome == \"done\") | .result.json'",
    json=lines(HistoryEntry),
)
@argument("queue", QUEUE)
@limit(limits.PEEK_MESSAGES_MAX)
@option("--outcome", "Only those that ended like this.", OUTCOMES)
@option("--channel", "Only in this channel.")
@option("--error", "Only with this text in the error.", metavar="TEXT")
@option("--since finished_from", "Ended since then: 2h (ago), 2026-05-01T12:00.", INSTANT)
@option("--until finished_until", "Ended before that.", INSTANT)
@option("--cursor", "Go on with older ones, from the last page.")
@option("--all everything", "All of them, however many.", bool)
def history(
    app: App, queue: str, limit: int, cursor: str | None, everything: bool, **which: Any
) -> None:
    """Show finished messages of QUEUE: how they ended, results, errors.

    The newest come first. How long they are kept, and whether with their payloads: `turnabout queue
    update --history`, `--history-failed`, `--history-payload`. With --json, if there are more, a
    last line {"cursor"}.
    """
    if everything and cursor:
        raise click.UsageError("--all and --cursor exclude each other")
    with app.queue(queue) as handle:
        if everything:
            _print_all(app, handle.history_entries(**which))
            return
        page = handle.history(limit, cursor=cursor, **which)
    _print_all(app, page.entries)
    if not page.entries:
        is_filtered = any(one is not None for one in (cursor, *which.values()))
        what = "No such message in" if is_filtered else "Nothing is in"
        _show.note(f"{what} the history of {queue}.")
    elif page.cursor is not None and app.as_json:
        app.say({"cursor": page.cursor}, "")
    elif page.cursor is not None:
        _show.note(_show.dim(f"There may be more: --cursor {page.cursor}"))


def _print_all(app: App, entries: Iterable[HistoryEntry]) -> None:
    """A table, or lines of JSON as they come; a table of many is printed in parts."""
    if app.as_json:
        for entry in entries:
            app.say(entry, "")
        return
    rest = iter(entries)
    while part := list(islice(rest, limits.PEEK_MESSAGES_MAX)):
        _show.out(_show.table(ENTRIES, part))
