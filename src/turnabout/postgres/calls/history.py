"""Calls of the verbs about what happened: endings, history, events."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Any

from turnabout.postgres.call import Call, Now, Row, Rows
from turnabout.words import verbs as v
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
)

_CURSOR = re.compile(r"([0-9]{1,19})\.([0-9]{1,19})")
_PLACE = re.compile(_CURSOR.pattern + r"(?:\.([0-9]{1,19}\.[0-9]{1,9}\.[1-4]))?")
"""Of a page of history; earlier libraries gave the first two numbers alone."""
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


def _endings(verb: v.Endings, rows: Rows) -> tuple[Ending | None, ...]:
    return tuple(map(_ending, rows))


def _ending(row: Row) -> Ending | None:
    id_, outcome, finished_at, attempt, failures, crashes, error, data, content_type = row
    if outcome is None:
        return None
    if outcome == "unknown":
        return Ending(id_, outcome)
    result = _result(data, content_type)
    return Ending(id_, outcome, finished_at, attempt, failures, crashes, error, result)


def _history_parameters(verb: v.History, now: Now) -> Sequence[Any]:
    """One more is asked for: whether there is more."""
    match = None if verb.cursor is None else _match(_PLACE, verb.cursor, "history")
    return (
        verb.queue,
        verb.limit + 1,
        verb.outcome,
        verb.channel,
        verb.error,
        verb.finished_from,
        verb.finished_until,
        *((None, None) if match is None else match.group(1, 2)),
        now,
        None if match is None else match[3],
    )


def _history(verb: v.History, rows: Rows) -> HistoryPage:
    entries = tuple(map(_entry, rows[: verb.limit]))
    if len(rows) <= verb.limit:
        return HistoryPage(entries, None)
    last, rest = entries[-1], rows[verb.limit - 1][-1]
    return HistoryPage(entries, f"{last.finished_at}.{last.id}.{rest}")


def _entry(row: Row) -> HistoryEntry:
    *plain, data, result_type, payload, content_type, headers, _ = row
    kept: Any = None
    if content_type is not None:  # the payload was kept
        kept = {} if headers is None else json.loads(headers)
    return HistoryEntry(
        *plain,
        result=_result(data, result_type),
        payload=payload,
        content_type=content_type,
        headers=kept,
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
        Event(kind, verb.queue, at, id_, channel, attempt, due_at, cursor)
        for cursor, kind, at, id_, channel, attempt, due_at in rows
    )
    return EventPage(events, rows[-1][0] if rows else verb.cursor)


CALLS: dict[type[Any], Call] = {
    v.Endings: Call(
        "select * from turnabout.endings($1::text, $2::bigint[], $3::bigint)",
        lambda e, now: (e.queue, "{" + ",".join(map(str, e.ids)) + "}", now),
        _endings,
        repeatable=True,
    ),
    v.History: Call(
        "select * from turnabout.history($1::text, $2::int, $3::text, $4::text, $5::text,"
        " $6::bigint, $7::bigint, $8::bigint, $9::bigint, $10::bigint, $11::text)",
        _history_parameters,
        _history,
        repeatable=True,
    ),
    v.Clear: Call(
        "select turnabout.clear($1::text, $2::text, $3::int)",
        _clear_parameters,
        lambda c, rows: Cleared(rows[0][0]),
        in_parts=True,
    ),
    v.Events: Call(
        "select * from turnabout.events($1::text, $2::xid8, $3::bigint, $4::int)",
        _events_parameters,
        _events,
        repeatable=True,
    ),
}
