"""Records of messages that have ended, moved or changed: frozen values, plain types.

Instants are milliseconds since 1970 by the database's clock.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal, get_args

from turnabout.words import limits
from turnabout.words.entities import Note
from turnabout.words.errors import UsageError
from turnabout.words.payload import decode_json, decode_text
from turnabout.words.value import Value
from turnabout.words.verb import QueueName

Outcome = Literal["done", "dead", "cancelled", "expired"]
OUTCOMES: tuple[str, ...] = get_args(Outcome)

EventKind = Literal[
    "created",
    "leased",
    "noted",
    "deferred",
    "failed",
    "done",
    "dead",
    "cancelled",
    "expired",
    "changed",
]


class Result(Value):
    """The result that an ack leaves for those who wait for the message: bytes, like a payload."""

    data: bytes
    content_type: str

    def __post_init__(self) -> None:
        limits.result(self.data)
        limits.content_type(self.content_type)

    def json(self) -> Any:
        """The value of a JSON result."""
        return decode_json(self.data)

    def text(self) -> str:
        """The result as text."""
        return decode_text(self.data)


class Ending(Value):
    """A message's end. outcome `unknown`: it ended, and its history is gone."""

    id: int
    outcome: Literal["done", "dead", "cancelled", "expired", "unknown"]
    finished_at: int | None = None
    attempt: int = 0
    failures: int = 0
    crashes: int = 0
    error: str | None = None
    result: Result | None = None
    note: Note | None = None


class HistoryEntry(Value):
    """A finished message. The queue says whether payload and headers are kept."""

    id: int
    channel: str
    outcome: Outcome
    sent_at: int
    leased_at: int | None
    """Start of its last lease; None: it never had one."""
    finished_at: int
    attempt: int
    failures: int
    crashes: int
    error: str | None = None
    result: Result | None = None
    payload: bytes | None = None
    content_type: str | None = None
    headers: Mapping[str, str] | None = None
    note: Note | None = None

    @property
    def kept_bytes(self) -> int:
        """Size of the payload and the result."""
        return len(self.payload or b"") + len(self.result.data if self.result else b"")

    def json(self) -> Any:
        """The value of a JSON payload. Raises: UsageError where the payload was not kept."""
        return decode_json(self._kept())

    def text(self) -> str:
        """The payload as text. Raises: UsageError where it was not kept."""
        return decode_text(self._kept())

    def _kept(self) -> bytes:
        if self.payload is None:
            raise UsageError("the payload was not kept: the queue needs history_payload=True")
        return self.payload


class HistoryPage(Value):
    """Entries, the newest first. `cursor` goes on with older ones; None: that was the end."""

    entries: tuple[HistoryEntry, ...]
    cursor: str | None


def is_full(entries: Sequence[HistoryEntry], room_bytes: int | None) -> bool:
    """Whether payloads and results fill the room, so that there may be more behind them."""
    return room_bytes is not None and sum(entry.kept_bytes for entry in entries) >= room_bytes


class Event(Value):
    """One thing that happened to a message. `changed`, with nothing else, is a hint to look."""

    kind: EventKind
    queue: QueueName
    at: int
    id: int | None = None
    channel: str | None = None
    attempt: int | None = None
    due_at: int | None = None
    """Its due time (created, deferred, failed), or the end of its lease (leased); else None."""
    note: Note | None = None
    """The last note of its worker."""
    cursor: str | None = None
    """Asks for what comes after this event; the page's own is that of its last event."""


class EventPage(Value):
    """Events in order; `cursor` asks for what comes after them."""

    events: tuple[Event, ...]
    cursor: str


class RedriveFilter(Value):
    """Filter for the messages that a redrive takes; None matches any."""

    channel: str | None = None
    died_from: int | None = None
    died_until: int | None = None
    error: str | None = None
    """Text in the last error, exactly as written."""
    ids: tuple[int, ...] | None = None

    def __post_init__(self) -> None:
        limits.optional_channel(self.channel)
        for name in ("died_from", "died_until"):
            limits.optional_whole(getattr(self, name), name, 0, limits.FOREVER_MS)
        if self.error is not None:
            limits.utf8(self.error, "the error text of a filter")
        if self.ids is not None:
            limits.message_ids(self.ids, limits.REDRIVE_IDS_MAX)


EVERYTHING = RedriveFilter()


class Redrive(Value):
    """A redrive and how far it has come; kept as the record of what was moved."""

    id: int
    queue: QueueName
    target: QueueName | None
    """The queue to move to; None: each message's own, where it died."""
    filter: RedriveFilter
    per_second: int | None
    state: Literal["running", "done", "cancelled", "dry_run"]
    moved: int
    """Messages moved; in a dry run, those that would be."""
    skipped: int
    """Messages that matched and stayed: their queue is gone, or they were redriven too often."""
    created_at: int
    finished_at: int | None
    next_at: int | None = None
    """Time from which the next step is worth a call; None: now, or it has ended."""
    started_by: str | None = None
    """The starter: `user@host`, a server's token, or a PostgreSQL role."""
