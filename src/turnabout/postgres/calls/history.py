"""Calls of the verbs about what happened: endings, history, events."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from itertools import starmap
from typing import Any

from turnabout.postgres.call import Call, Now, Rows, call, each, in_room, one
from turnabout.words import verbs as v
from turnabout.words.entities import note_of
from turnabout.words.errors import UsageError
from turnabout.words.limits import shown
from turnabout.words.outcomes import Cleared
from turnabout.words.records import (
    Ending,
    Event,
    EventPage,
    HistoryEntry,
    HistoryPage,
    Result,
    is_full,
)

_CURSOR = re.compile(r"([0-9]{1,19})\.([0-9]{1,19})")
_PLACE = re.compile(_CURSOR.pattern + r"(?:\.([0-9]{1,19}\.[0-9]{1,9}\.[1-4]))?")
"""Cursor of a page of history; earlier libraries gave the first two numbers alone."""
_PART = 10_000


def _place(cursor: str | None, what: str) -> tuple[str | None, str | None]:
    """The two numbers of a cursor, as text: either may be anything up to 64 bits."""
    if cursor is None:
        return None, None
    match = _match(_CURSOR, cursor, what)
    return match[1], match[2]


def _match(form: re.Pattern[str], cursor: str, what: str) -> re.Match[str]:
    match = form.fullmatch(cursor)
    if match is None:
        raise UsageError(f"{shown(cursor)} is not a cursor: take one from a page of {what}")
    return match


# --- what has ended ------------------------------------------------------------------------------


def _result(data: bytes | None, content_type: str | None) -> Result | None:
    return None if data is None or content_type is None else Result(data, content_type)


def _ending(id_: int, outcome: Any, *row: Any) -> Ending | None:
    if outcome is None:
        return None
    if outcome == "unknown":
        return Ending(id_, outcome)
    *plain, data, content_type, note, _, _ = row
    return Ending(id_, outcome, *plain, result=_result(data, content_type), note=note_of(note))


def _history_parameters(verb: v.History, now: Now) -> Sequence[Any]:
    """One more is asked for: whether there is more."""
    match = None if verb.cursor is None else _match(_PLACE, verb.cursor, "history")
    finished, id_, rest = (None, None, None) if match is None else match.group(1, 2, 3)
    wanted = (verb.outcome, verb.channel, verb.error, verb.finished_from, verb.finished_until)
    return (verb.queue, verb.limit + 1, *wanted, finished, id_, now, rest, verb.room_bytes)


def _history(verb: v.History, rows: Rows) -> HistoryPage:
    entries = tuple(starmap(_entry, rows[: verb.limit]))
    if len(rows) <= verb.limit and not is_full(entries, verb.room_bytes):
        return HistoryPage(entries, None)
    last, rest = entries[-1], rows[len(entries) - 1][-3]
    return HistoryPage(entries, f"{last.finished_at}.{last.id}.{rest}")


def _entry(*row: Any) -> HistoryEntry:
    *plain, data, result_type, payload, content_type, headers, note, _, _, _ = row
    kept: Any = None
    if content_type is not None:  # the payload was kept
        kept = {} if headers is None else json.loads(headers)
    return HistoryEntry(
        *plain,
        result=_result(data, result_type),
        payload=payload,
        content_type=content_type,
        headers=kept,
        note=note_of(note),
    )


def _clear_parameters(verb: v.Clear, now: Now) -> Sequence[Any]:
    return verb.queue, verb.which, _PART if verb.limit is None else min(verb.limit, _PART)


# --- events --------------------------------------------------------------------------------------


def _events_parameters(verb: v.Events, now: Now) -> Sequence[Any]:
    return verb.queue, *_place(verb.cursor, "events"), verb.limit


def _events(verb: v.Events, rows: Rows) -> EventPage:
    if verb.cursor is None:
        return EventPage((), rows[0][0])
    events = tuple(
        Event(kind, verb.queue, at, id_, channel, attempt, due_at, note_of(note), cursor)
        for cursor, kind, at, id_, channel, attempt, due_at, note in rows
    )
    return EventPage(events, rows[-1][0] if rows else verb.cursor)


CALLS: dict[type[Any], Call] = {
    v.Endings: call(
        in_room("*", "endings($queue::text, $ids::bigint[], $now::bigint)", "result"),
        each(_ending),
        repeatable=True,
    ),
    v.History: call(
        in_room(
            "*",
            "history($queue::text, $limit::int, $outcome::text, $channel::text, $error::text,"
            " $finished_from::bigint, $finished_until::bigint, $before_at::bigint,"
            " $before_id::bigint, $now::bigint, $before::text)",
            "payload",
            "result",
        ),
        _history,
        _history_parameters,
        repeatable=True,
    ),
    v.Clear: call(
        "select turnabout.clear($queue::text, $which::text, $limit::int)",
        one(Cleared),
        _clear_parameters,
        in_parts=True,
    ),
    v.Events: call(
        "select * from turnabout.events($queue::text, $xid::xid8, $number::bigint, $limit::int)",
        _events,
        _events_parameters,
        repeatable=True,
    ),
}
