"""The inbox: a table where programs without the library put what is to be sent."""

from __future__ import annotations

import json
import sqlite3
from functools import partial
from typing import Any

from turnabout.sqlite._connection import Connection
from turnabout.sqlite._statements import statements
from turnabout.sqlite.procedures._rows import in_room
from turnabout.sqlite.procedures._savepoint import Savepoint
from turnabout.sqlite.procedures.send import send
from turnabout.words import limits
from turnabout.words.errors import StorageFull, TurnaboutError, UsageError
from turnabout.words.outcomes import Sent
from turnabout.words.prepare import outgoing
from turnabout.words.verbs import Send, Verb

_SQL = statements("inbox")
ANY = _SQL["any"]
_ROWS, _ROOM_BYTES = 1_000, 16 * 1024 * 1024
_as_it_is = partial(str, encoding="utf-8", errors="surrogateescape")
"""Stands for text that is not UTF-8, which can't be read: the checks refuse it."""


class Drain(Verb[None]):
    """Send what is in the inbox."""


def drain(connection: Connection, _verb: object, now: int) -> None:
    """Send a share of the inbox, in order; what cannot be sent is kept aside, with the reason."""
    if type(connection) is not Connection or connection.execute(ANY).fetchone() is None:
        return  # (a caller's own transaction is not made longer by the messages of others)
    try:
        connection.need_room()
    except StorageFull:
        return  # the last of it is for acks
    connection.text_factory = _as_it_is
    try:
        rows = in_room(connection.execute(_SQL["next"], {"most": _ROWS}), _ROOM_BYTES, "payload")
    finally:
        connection.text_factory = str
    for row in rows:
        reason = _refusal(connection, row, now)
        if reason is not None:
            parameters = {"now": now, "reason": reason, "rowid": row["rowid"]}
            connection.execute(_SQL["refuse"], parameters)
    connection.execute(_SQL["done"], {"rowid": rows[-1]["rowid"]})


def _refusal(connection: Connection, row: sqlite3.Row, now: int) -> str | None:
    """Send it; why that cannot be, else."""
    savepoint = Savepoint(connection)
    try:
        verb = _send(row)
        outcome = send(connection, verb, now)
    except TurnaboutError as error:
        savepoint.undo()
        return str(error)
    if not isinstance(outcome, Sent):
        savepoint.undo()
        return f"nothing was sent: {outcome}"
    savepoint.keep()
    connection.to_notify.add(verb.queue)
    return None


def _send(row: sqlite3.Row) -> Send:
    """Raises: UsageError, for whatever is not in the limits."""
    fields: dict[str, Any] = dict(row)
    del fields["rowid"]
    queue, payload, headers = fields.pop("queue"), fields["payload"], fields["headers"]
    if isinstance(payload, str):
        fields["payload"] = payload.encode(errors="surrogateescape")
    if headers is not None:
        try:
            fields["headers"] = json.loads(headers)
        except (ValueError, RecursionError) as error:
            raise UsageError(f"headers are a JSON object of texts: {error}") from error
    return Send(limits.queue_name(queue), (outgoing(**fields),))
