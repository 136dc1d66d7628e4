"""Ended messages: their endings, their history, and clearing it."""

from __future__ import annotations

import json
import sqlite3
from typing import Any

from turnabout.sqlite._connection import Connection
from turnabout.sqlite._statements import statements
from turnabout.sqlite.procedures import _floor, _queue
from turnabout.sqlite.procedures._rows import in_room, value_of
from turnabout.words.entities import note_of
from turnabout.words.errors import UsageError
from turnabout.words.limits import ID_MAX, shown
from turnabout.words.outcomes import Cleared
from turnabout.words.records import Ending, HistoryEntry, HistoryPage, Result, is_full
from turnabout.words.verbs import Clear, Endings, History

_ENDINGS = statements("endings")
_HISTORY = statements("history")
_CLEAR = statements("clear")


def endings(connection: Connection, verb: Endings, _now: int) -> tuple[Ending | None, ...]:
    """Look up how messages ended; None while one is unfinished, or was never sent."""
    queue = _queue.need(connection, verb.queue)
    parameters = {"queue": queue["id"], "ids": json.dumps(verb.ids)}
    unfinished = {id_ for (id_,) in connection.execute(_ENDINGS["unfinished"], parameters)}
    rows = in_room(connection.execute(_ENDINGS["ended"], parameters), verb.room_bytes, "result")
    ended = {row["id"]: _ending(row) for row in rows}
    taken, last_id, until = connection.execute(_ENDINGS["taken"], parameters).fetchone()
    answers: list[Ending | None] = []
    room = verb.room_bytes
    for id_ in verb.ids:
        if id_ in unfinished or id_ > taken or last_id < id_ <= until:
            answers.append(None)
            continue
        ending = ended.get(id_) or Ending(id_, "unknown")
        answers.append(ending)
        if room is not None and ending.result is not None:
            room -= len(ending.result.data)
            if room <= 0:
                break  # no row was read behind this one
    return tuple(answers)


def history(connection: Connection, verb: History, _now: int) -> HistoryPage:
    """Finished messages, the newest first."""
    queue = _queue.need(connection, verb.queue)
    before_at, before_seq = _place(verb.cursor)
    step = "all" if verb.outcome in (None, "done") else "failed"
    found = connection.execute(
        _HISTORY[step],
        {
            "queue": queue["id"],
            "before_at": before_at,
            "before_seq": before_seq,
            "outcome": verb.outcome,
            "channel": verb.channel,
            "error": verb.error,
            "from": verb.finished_from,
            "until": verb.finished_until,
            "most": verb.limit + 1,
        },
    )
    rows = in_room(found, verb.room_bytes, "payload", "result")
    entries = tuple(map(_entry, rows[: verb.limit]))
    cursor = None
    if len(rows) > verb.limit or is_full(entries, verb.room_bytes):
        last = rows[len(entries) - 1]
        cursor = f"{last['finished_at']}.{last['seq']}"
    return HistoryPage(entries, cursor)


def clear(connection: Connection, verb: Clear, _now: int) -> Cleared:
    """Remove the oldest rows of history."""
    queue = _queue.need(connection, verb.queue)
    most = -1 if verb.limit is None else verb.limit  # -1: all of them
    parameters = {"queue": queue["id"], "most": most}
    (last,) = connection.execute(_CLEAR[f"last_{verb.which}"], parameters).fetchone()
    cleared = Cleared(connection.execute(_CLEAR[verb.which], parameters).rowcount)
    _floor.raise_to(connection, queue["id"], last)
    return cleared


def _place(cursor: str | None) -> tuple[int, int]:
    """Time and place of the last row of the page before."""
    if cursor is None:
        return ID_MAX, ID_MAX
    at, dot, seq = cursor.partition(".")
    if not dot or not (at.isdecimal() and seq.isdecimal()) or max(len(at), len(seq)) > 18:
        raise UsageError(f"{shown(cursor)} is not a cursor of history: give one as it came")
    return int(at), int(seq)


def _ending(row: sqlite3.Row) -> Ending:
    return value_of(Ending, row, result=_result(row), note=note_of(row["note"]))


def _entry(row: sqlite3.Row) -> HistoryEntry:
    headers: Any = None
    if row["content_type"] is not None:  # the payload was kept
        headers = {} if row["headers"] is None else json.loads(row["headers"])
    return value_of(
        HistoryEntry, row, result=_result(row), headers=headers, note=note_of(row["note"])
    )


def _result(row: sqlite3.Row) -> Result | None:
    return None if row["result_type"] is None else Result(row["result"], row["result_type"])
