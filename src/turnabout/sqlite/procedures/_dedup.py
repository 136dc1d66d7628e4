"""Dedup: which messages of a send are put in, and which earlier ones stand for the others."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from turnabout.sqlite._connection import Connection
from turnabout.sqlite._statements import statements
from turnabout.sqlite.procedures import _channel, _events
from turnabout.sqlite.procedures._queue import Queue
from turnabout.words.entities import Outgoing
from turnabout.words.limits import FOREVER_MS
from turnabout.words.outcomes import Sent
from turnabout.words.value import replace

_SQL = statements("dedup")
_LEASED = 2
_Key = tuple[str, str]


@dataclass(slots=True)
class _Entry:
    """The target of a key: a message that is there, or the n-th that this send puts in (`fresh`);
    and what it is now. Nothing of it is true once it has ended.
    """

    id: int
    fresh: int | None = None
    channel: str = ""
    until: int | None = None
    is_waiting: bool = False
    is_started: bool = False
    is_unfinished: bool = False

    def suppresses(self, mode: str, now: int) -> bool:
        """Whether another message with the key is not put in."""
        match mode:
            case "window" | "sliding":
                return self.until is not None and now < self.until
            case "until_started":
                return self.is_unfinished and not self.is_started
            case "until_finished":
                return self.is_unfinished
            case _:  # latest, rerun
                return self.is_waiting


class DedupPlan:
    """The effect of a send with keys. Nothing is written before `write`: it may be refused."""

    def __init__(
        self, connection: Connection, queue: Queue, messages: Sequence[Outgoing], now: int
    ) -> None:
        self._connection = connection
        self._queue = queue
        self._now = now
        self.fresh: list[Outgoing] = []
        """The messages to put in."""
        self._replaced: dict[int, tuple[Outgoing, str]] = {}
        self._entries = self._find(messages)
        self._changed: dict[_Key, _Entry] = {}
        self._stands: list[_Entry] = []
        self._duplicates: list[int] = []
        self._replacing: list[int] = []
        for place, message in enumerate(messages):
            self._stands.append(self._place(place, message))

    @property
    def replacing(self) -> list[Outgoing]:
        """The messages whose content takes the place of a waiting one's, for `write`."""
        return [message for message, _ in self._replaced.values()]

    def write(self, ids: Sequence[int], values: Sequence[tuple[Any, ...]]) -> None:
        """The fresh messages are in, under these ids; `values` are the rows of `replacing`."""
        for entry in self._stands:
            if entry.fresh is not None:
                entry.id = ids[entry.fresh]
        rows: list[tuple[Any, ...]] = []
        changes = _channel.ChannelChanges()
        for (id_, (message, channel)), row in zip(self._replaced.items(), values, strict=True):
            _, status, _, at, priority, _, headers, content_type, expires_at = row
            content = (message.payload, content_type, headers, priority, status)
            rows.append((*content, FOREVER_MS, at, expires_at, id_))
            changes.add(channel)
        self._connection.executemany(_SQL["replace"], rows)
        _events.note(self._connection, self._queue, "deferred", list(self._replaced), self._now)
        if self._queue["has_channels"]:
            changes.write(self._connection, self._queue["id"])
        self._connection.executemany(
            _SQL["point"],
            [
                (self._queue["id"], scope, key, entry.id, entry.until)
                for (scope, key), entry in self._changed.items()
            ],
        )

    def sent(self, ids: Sequence[int]) -> Sent:
        """The answer, once the fresh messages are in under these ids."""
        stands = (entry.id if entry.fresh is None else ids[entry.fresh] for entry in self._stands)
        return Sent(tuple(stands), tuple(self._duplicates), tuple(self._replacing))

    def _find(self, messages: Sequence[Outgoing]) -> dict[_Key, _Entry]:
        keys = {self._key(m) for m in messages if m.dedup_key is not None}
        keys_json = json.dumps(list(keys), ensure_ascii=False)
        parameters = {"queue": self._queue["id"], "keys": keys_json, "now": self._now}
        return {
            (row["scope"], row["key"]): _entry(row)
            for row in self._connection.execute(_SQL["find"], parameters)
        }

    def _key(self, message: Outgoing) -> _Key:
        """One key space for the queue, or one for each channel."""
        assert message.dedup_key is not None
        scope = message.dedup_scope or self._queue["dedup_scope"]
        return ("" if scope == "queue" else f"/{message.channel}", message.dedup_key)

    def _place(self, place: int, message: Outgoing) -> _Entry:
        """The entry that stands for a message of the send."""
        if message.dedup_key is None:
            return self._put_in(message)
        key = self._key(message)
        mode = message.dedup_mode or self._queue["dedup_mode"]
        until = None
        if mode in ("window", "sliding"):
            window = message.dedup_window_ms
            until = self._now + (self._queue["dedup_window_ms"] if window is None else window)
        entry = self._entries.get(key)
        if entry is None or not entry.suppresses(mode, self._now):
            entry = self._put_in(message)
            entry.until = until
            self._entries[key] = self._changed[key] = entry
        elif mode == "latest":
            self._replacing.append(place)
            self._replace(entry, message)
        else:
            self._duplicates.append(place)
            if mode == "sliding":
                entry.until = until
                self._changed[key] = entry
        return entry

    def _put_in(self, message: Outgoing) -> _Entry:
        self.fresh.append(message)
        fresh = len(self.fresh) - 1
        return _Entry(0, fresh, message.channel, is_waiting=True, is_unfinished=True)

    def _replace(self, entry: _Entry, message: Outgoing) -> None:
        """Replace the waiting message; it stays in its channel, whatever the new one names."""
        if entry.fresh is None:
            self._replaced[entry.id] = (message, entry.channel)
        else:
            self.fresh[entry.fresh] = replace(message, channel=entry.channel)


def _entry(row: sqlite3.Row) -> _Entry:
    is_unfinished = row["status"] is not None
    return _Entry(
        row["message_id"],
        channel=row["channel"] or "",
        until=row["until_ms"],
        is_waiting=is_unfinished and row["status"] != _LEASED,
        is_started=is_unfinished and row["attempt"] > 0,
        is_unfinished=is_unfinished,
    )
