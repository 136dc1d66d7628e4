"""Redrives: messages go from a queue, commonly a dead-letter queue, to where they may succeed."""

from __future__ import annotations

import json
import sqlite3
from typing import Any

from turnabout.sqlite._connection import Connection
from turnabout.sqlite._statements import statements
from turnabout.sqlite.procedures import _channel, _finish, _queue
from turnabout.sqlite.procedures._rows import value_of
from turnabout.words.errors import UsageError
from turnabout.words.namespaces import namespace_of
from turnabout.words.records import Redrive, RedriveFilter
from turnabout.words.verbs import RedriveCancel, RedriveList, RedriveStart, RedriveStep

_START = statements("redrive_start")
_STEP = statements("redrive_step")
_CANCEL = statements("redrive_cancel")
_LIST = statements("redrive_list")
_PAUSE_MS_MAX = 1_000
_LOOK_AT = 1_000


def redrive_start(connection: Connection, verb: RedriveStart, now: int) -> Redrive:
    """Note a redrive. A dry one only counts, from the first message to the last."""
    queue = _queue.need(connection, verb.queue)
    if verb.target is not None and _queue.need(connection, verb.target)["id"] == queue["id"]:
        raise UsageError("a redrive moves messages to another queue: name one, or none")
    id_ = connection.execute(
        _START["add"],
        {
            "queue_id": queue["id"],
            "queue": verb.queue,
            "target": verb.target,
            **{name: getattr(verb.filter, name) for name in RedriveFilter.__struct_fields__},
            "ids": None if verb.filter.ids is None else json.dumps(verb.filter.ids),
            "started_by": verb.started_by,
            "per_second": verb.per_second,
            "max_redrives": verb.max_redrives,
            "state": "dry_run" if verb.dry_run else "running",
            "now": now,
        },
    ).lastrowid
    assert id_ is not None
    row = _need(connection, id_)
    if verb.dry_run:
        walk = _RedriveWalk(connection, row)
        walk.count()
        walk.write("dry_run", finished_at=now)
    return _redrive(_need(connection, id_))


def redrive_step(connection: Connection, verb: RedriveStep, now: int) -> Redrive:
    """Look at the next messages of a running redrive, and move those that it means."""
    row = _need(connection, verb.id, verb.namespace)
    next_at = row["next_at"] or 0  # further ahead than its rate allows: the clock was set back
    if row["state"] != "running" or now < next_at <= now + _PAUSE_MS_MAX:
        return _redrive(row)
    rate = row["per_second"]
    walk = _RedriveWalk(connection, row)
    is_end = walk.look(_LOOK_AT if rate is None else min(rate, _LOOK_AT))
    count = walk.move(now)
    if is_end:
        walk.write("done", finished_at=now)
    else:
        walk.write("running", next_at=None if rate is None else now - (-count * 1000 // rate))
    return _redrive(_need(connection, verb.id))


def redrive_cancel(connection: Connection, verb: RedriveCancel, now: int) -> Redrive:
    """Stop a running redrive; what it has moved stays moved."""
    _need(connection, verb.id, verb.namespace)
    connection.execute(_CANCEL["cancel"], {"id": verb.id, "now": now})
    return _redrive(_need(connection, verb.id))


def redrive_list(connection: Connection, verb: RedriveList, _now: int) -> tuple[Redrive, ...]:
    """Redrives, the newest first."""
    step = "of_namespace" if verb.namespace is not None else "of_queue" if verb.queue else "all"
    parameters = {"queue": verb.queue, "namespace": verb.namespace, "most": verb.limit}
    found = connection.execute(_LIST[step], parameters)
    return tuple(map(_redrive, found))


class _RedriveWalk:
    """A redrive on its way through the messages of its queue."""

    def __init__(self, connection: Connection, row: sqlite3.Row) -> None:
        self._connection = connection
        self._row = row
        self._targets: dict[str, list[tuple[int, str, str | None]]] = {}
        self._is_there: dict[str, bool] = {}
        self._namespace = namespace_of(row["queue"])
        self._moved: int = row["moved"]
        self._skipped: int = row["skipped"]
        self._last_id: int = row["last_id"]

    def look(self, allowed: int) -> bool:
        """Choose among the next messages, at most as many as allowed. Whether that was the end."""
        row = self._row
        parameters = {"queue": row["queue_id"], "after": self._last_id, "most": _LOOK_AT}
        if row["ids"] is not None:
            parameters["ids"] = row["ids"]
        steps = ("near", "next") if row["ids"] is None else ("next_named",)
        found: list[sqlite3.Row] = []
        for step in steps:
            if len(found) < _LOOK_AT:
                found = self._connection.execute(_STEP[step], parameters).fetchall()
        for message in found:
            origin = None if message["origin"] is None else json.loads(message["origin"])
            if _is_meant(row, message, origin):
                target = self._target_of(origin)
                if target is None:
                    self._skipped += 1
                elif not allowed:
                    return False
                else:
                    allowed -= 1
                    self._moved += 1
                    story = _story(origin)
                    move = (message["id"], message["channel"], story)
                    self._targets.setdefault(target, []).append(move)
            self._last_id = message["id"]
        return len(found) < _LOOK_AT

    def count(self) -> None:
        """The sum of all its steps, as things are now."""
        row = self._row
        names = ("target", "max_redrives", "channel", "died_from", "died_until", "error", "ids")
        parameters = {**{name: row[name] for name in names}, "queue": row["queue_id"]}
        for target, is_worn, count in self._connection.execute(
            _START["count"], parameters
        ).fetchall():
            if is_worn or target is None or not self._may_go(target):
                self._skipped += count
            else:
                self._moved += count

    def move(self, now: int) -> int:
        """The messages chosen go where they are to go. How many they are."""
        source = _queue.need(self._connection, self._row["queue"])
        changes = _channel.ChannelChanges()
        gone: list[int] = []
        for target, moves in self._targets.items():
            _finish.move(self._connection, _queue.need(self._connection, target), moves, now)
            for id_, channel, _ in moves:
                changes.add(channel, size=-1)
                gone.append(id_)
        if gone:
            parameters = _queue.leaving(source, gone) | {"n": -len(gone)}
            self._connection.execute(_queue.SQL["moved"], parameters)
            self._connection.to_notify.add(source["name"])
        if source["has_channels"]:
            changes.write(self._connection, source["id"])
        return len(gone)

    def write(
        self, state: str, *, finished_at: int | None = None, next_at: int | None = None
    ) -> None:
        """Save a redrive's progress."""
        self._connection.execute(
            _STEP["went_on"],
            {
                "moved": self._moved,
                "skipped": self._skipped,
                "last_id": self._last_id,
                "state": state,
                "finished_at": finished_at,
                "next_at": next_at,
                "id": self._row["id"],
            },
        )

    def _target_of(self, origin: dict[str, Any] | None) -> str | None:
        """The queue for a message with this story; None: it stays."""
        if origin is not None and origin.get("redrives", 0) >= self._row["max_redrives"]:
            return None
        name = self._row["target"]
        if name is None:
            if origin is None:
                return None
            name = origin["queue"]
        return name if self._may_go(name) else None

    def _may_go(self, name: str) -> bool:
        """Refuse other namespaces, unless the target is named."""
        stays = self._row["target"] is None and namespace_of(name) != self._namespace
        return not stays and self._has(name)

    def _has(self, name: str) -> bool:
        """Whether there is such a queue."""
        if name not in self._is_there:
            self._is_there[name] = _queue.find(self._connection, name) is not None
        return self._is_there[name]


def _is_meant(row: sqlite3.Row, message: sqlite3.Row, origin: dict[str, Any] | None) -> bool:
    """Whether the filters let a message through. One that never died has no time or error."""
    if row["channel"] is not None and message["channel"] != row["channel"]:
        return False
    parameters = origin or {}
    died_at, error = parameters.get("died_at"), parameters.get("last_error")
    if row["died_from"] is not None and (died_at is None or died_at < row["died_from"]):
        return False
    if row["died_until"] is not None and (died_at is None or died_at >= row["died_until"]):
        return False
    return row["error"] is None or (error is not None and row["error"] in error)


def _story(origin: dict[str, Any] | None) -> str | None:
    """The error history of a message, with one more redrive."""
    if origin is None:
        return None
    return json.dumps({**origin, "redrives": origin.get("redrives", 0) + 1}, ensure_ascii=False)


def _need(connection: Connection, id_: int, namespace: str | None = None) -> sqlite3.Row:
    """The redrive's row; UsageError if there is none, or it is of another namespace."""
    row = connection.execute(_STEP["find"], {"id": id_}).fetchone()
    if row is None or namespace not in (None, namespace_of(row["queue"])):
        raise UsageError(f"there is no redrive {id_}: `turnabout redrive list` names them")
    return row


def _redrive(row: sqlite3.Row) -> Redrive:
    ids = None if row["ids"] is None else tuple(json.loads(row["ids"]))
    return value_of(Redrive, row, filter=value_of(RedriveFilter, row, ids=ids))
