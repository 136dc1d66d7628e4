"""The values in verbs and their answers: frozen, slotted, of plain types.

Instants are milliseconds since 1970 by the database's clock; durations are milliseconds.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from types import MappingProxyType
from typing import Any, Literal, NamedTuple, Self

from turnabout.words import limits
from turnabout.words.errors import UsageError
from turnabout.words.payload import decode_json, decode_text
from turnabout.words.policy import (
    DEDUP_MODES,
    DEDUP_SCOPES,
    DedupMode,
    DedupScope,
    Policy,
    QueueSettings,
)
from turnabout.words.value import Value, force_setattr
from turnabout.words.verb import OriginJson, QueueName

State = Literal["scheduled", "ready", "leased"]
BlockedBy = Literal[
    "paused", "concurrency", "rate", "queue_concurrency", "queue_rate", "fifo", "exhausted"
]
"""The reason why a channel's ready messages wait: a limit of its own, a limit of the whole queue,
the order, or a message that waits for a person.
"""

_RECEIPT = re.compile(r"([0-9]{1,19})\.([0-9]{1,10})(?:\.([0-9]{1,19}))?")


class _ReceiptFields(NamedTuple):
    id: int
    attempt: int
    lease: int


class Receipt(_ReceiptFields):
    """One delivery of one message: its id, and the attempt and the lease's number, which fence
    every later verb. 0 is the lease of a store that does not number them, or an unknown one.
    """

    __slots__ = ()

    def __new__(cls, id: int, attempt: int, lease: int = 0) -> Self:  # noqa: A002  (the field)
        """Checked, as it may come from anywhere."""
        limits.whole(id, "a receipt's id", 1, limits.ID_MAX)
        limits.whole(attempt, "a receipt's attempt", 1, limits.INTEGER_MAX)
        limits.whole(lease, "a receipt's lease", 0, limits.ID_MAX)
        return _ReceiptFields.__new__(cls, id, attempt, lease)

    def __str__(self) -> str:
        return receipt_text(*self)

    @classmethod
    def parse(cls, text: object) -> Receipt:
        """The receipt in its text form, `id.attempt` or `id.attempt.lease`, as the command line
        and HTTP carry it.
        """
        match = _RECEIPT.fullmatch(text) if isinstance(text, str) else None
        if match is None:
            raise UsageError(f"{limits.shown(text)} is not a receipt: expected one like 4711.1")
        return cls(int(match[1]), int(match[2]), int(match[3] or 0))


_handed_out: Callable[[tuple[int, int, int]], Receipt]
_handed_out = partial(tuple.__new__, Receipt)  # pyright: ignore[reportUnknownMemberType]
"""A receipt that is not checked, as a store handed it out."""


def receipt_text(id_: int, attempt: int, lease: int) -> str:
    """A receipt's text form: what `Receipt.parse` reads."""
    return f"{id_}.{attempt}.{lease}" if lease else f"{id_}.{attempt}"


_USUAL_TYPES = frozenset(
    {"application/octet-stream", "application/json", "text/plain; charset=utf-8"}
)


class Outgoing(Value):
    """A message to send. None takes the queue's default; no `dedup_key`, no dedup."""

    payload: bytes
    content_type: str = "application/octet-stream"
    channel: str = ""
    priority: int = 0
    delay_ms: int | None = None
    due_at: int | None = None
    """Instead of a delay: an instant. One that has passed is at once."""
    headers: Mapping[str, str] | None = None
    ttl_ms: int | None = None
    dedup_key: str | None = None
    dedup_mode: DedupMode | None = None
    dedup_window_ms: int | None = None
    dedup_scope: DedupScope | None = None

    def __post_init__(self) -> None:
        # Thousands are made a second: nothing is called for what is as usual.
        if type(self.payload) is not bytes or len(self.payload) > limits.PAYLOAD_BYTES_MAX:
            limits.payload(self.payload, limits.PAYLOAD_BYTES_HARD_MAX)
        if type(self.content_type) is not str or self.content_type not in _USUAL_TYPES:
            limits.content_type(self.content_type)
        if self.channel != "":
            limits.channel_name(self.channel)
        if self.priority or type(self.priority) is not int:
            limits.whole(self.priority, "priority", limits.PRIORITY_MIN, limits.PRIORITY_MAX)
        if self.delay_ms is not None:
            limits.duration_ms(self.delay_ms, "delay_ms")
        if self.due_at is not None:
            limits.whole(self.due_at, "due_at", 0, limits.FOREVER_MS)
            if self.delay_ms is not None:
                raise UsageError("a message has a delay or a due_at, not both")
        if self.headers is not None:
            kept = MappingProxyType(limits.headers(self.headers))
            force_setattr(self, "headers", kept)
        if self.ttl_ms is not None:
            limits.whole(self.ttl_ms, "ttl_ms", 1, limits.DELAY_SECONDS_MAX * 1000)
        if self.dedup_key is not None:
            self._check_dedup()
        elif not (self.dedup_mode is self.dedup_window_ms is self.dedup_scope is None):
            raise UsageError("dedup_mode, dedup_window and dedup_scope need a dedup_key")

    def delay_from(self, now: int, default: int) -> int:
        """The delay at `now`, by the database's clock. Raises: UsageError over 366 days."""
        if self.due_at is None:
            return default if self.delay_ms is None else self.delay_ms
        delay = max(0, self.due_at - now)
        if delay > limits.DELAY_SECONDS_MAX * 1000:
            raise UsageError("due_at is at most 366 days ahead of the database's clock")
        return delay

    def _check_dedup(self) -> None:
        limits.dedup_key(self.dedup_key)
        if self.dedup_mode is not None:
            limits.choice(self.dedup_mode, "dedup_mode", DEDUP_MODES)
        if self.dedup_scope is not None:
            limits.choice(self.dedup_scope, "dedup_scope", DEDUP_SCOPES)
        limits.optional_whole(
            self.dedup_window_ms, "dedup_window_ms", 1, limits.DELAY_SECONDS_MAX * 1000
        )


class Delivery(NamedTuple):
    """A message as `receive` hands it out, with its lease. A tuple, as thousands are made a second.

    attempt counts deliveries so far, this one included; failures and crashes are the charged ones.
    """

    id: int
    attempt: int
    channel: str
    priority: int
    payload: bytes
    content_type: str
    headers_json: str | None
    state: bytes | None
    failures: int
    crashes: int
    sent_at: int
    origin_json: OriginJson | None
    lease_until: int
    lease_ms: int
    lease: int = 0
    """The number of its lease; 0 where the store does not number them."""

    @property
    def headers(self) -> Mapping[str, str]:
        """The sender's headers."""
        return NO_HEADERS if self.headers_json is None else json.loads(self.headers_json)

    @property
    def origin(self) -> Origin | None:
        """Set if the message died: in this queue or, after a redrive, in an earlier one."""
        return origin_of(self.origin_json)

    @property
    def receipt(self) -> Receipt:
        """The proof of this lease."""
        return _handed_out((self.id, self.attempt, self.lease))


delivery_of: Callable[[Sequence[Any]], Delivery]
delivery_of = partial(tuple.__new__, Delivery)  # pyright: ignore[reportUnknownMemberType]
"""A delivery of a row, in the order of its fields: `Delivery._make` in a third of its time."""


class Note(Value):
    """A worker's note while it works: a text, and its progress from 0 to 1."""

    text: str = ""
    progress: float | None = None

    def __post_init__(self) -> None:
        limits.utf8(self.text, "a note's text")
        if len(self.text) > limits.NOTE_CHARS_MAX:
            raise UsageError(
                f"a note has at most {limits.NOTE_CHARS_MAX:,} characters, not {len(self.text):,}"
            )
        limits.progress(self.progress)

    def __str__(self) -> str:
        percent = "" if self.progress is None else f"{self.progress:.0%}"
        return f"{percent} {self.text}".strip()


class AttemptError(Value):
    """The error of a failed attempt."""

    attempt: int
    at: int
    error: str
    """The text given to `fail`, usually a traceback."""
    leased_at: int | None = None
    """Time at which the attempt began."""
    worker: str | None = None
    """The worker that failed it, such as `mailer@host:pid`, if it told its name."""


class Origin(Value):
    """A dead message's queue, and why it died there."""

    queue: QueueName
    reason: str
    failures: int
    crashes: int
    died_at: int
    first_error: str | None
    last_error: str | None
    redrives: int = 0
    """Number of redrives out of a dead-letter queue so far."""
    errors: tuple[AttemptError, ...] = ()
    """Errors of the failed attempts; of more than ten, the first one and the last nine."""


def origin_of(text: str | None) -> Origin | None:
    """An origin as stores keep it."""
    if text is None:
        return None
    story: dict[str, Any] = json.loads(text)
    story["errors"] = errors_of(story.get("errors"))
    return Origin(**story)


def note_of(text: str | None) -> Note | None:
    """A note as stores keep it."""
    if text is None:
        return None
    fields = json.loads(text)
    return Note(fields["text"], fields["progress"])


def kept_note(note: Note | None) -> str | None:
    """A note as stores keep it."""
    if note is None:
        return None
    return json.dumps({"text": note.text, "progress": note.progress}, ensure_ascii=False)


def errors_of(kept: Sequence[Mapping[str, Any]] | None) -> tuple[AttemptError, ...]:
    """The errors of a message's attempts as stores keep them."""
    return tuple(AttemptError(**one) for one in kept or ())


class Peeked(Value):
    """A message as `peek` shows it: nothing is leased or changed."""

    id: int
    state: State
    channel: str
    priority: int
    attempt: int
    failures: int
    crashes: int
    sent_at: int
    due_at: int
    """Its due time (scheduled), the end of its lease (leased), or else the time of sending."""
    payload: bytes
    content_type: str
    headers: Mapping[str, str]
    saved_state: bytes | None
    error: str | None
    origin: Origin | None
    """Set if the message died: in this queue or, after a redrive, in an earlier one."""
    expires_at: int | None = None
    cancel_requested: bool = False
    ran_out: bool = False
    """True if it is leased, the lease has run out, and no call has noticed yet."""
    errors: tuple[AttemptError, ...] = ()
    """Errors of failed attempts in this queue; of more than ten, the first and the last nine."""
    note: Note | None = None
    """The last note of its worker."""
    leased_at: int | None = None
    """Start of its lease, if it is leased."""

    @property
    def kept_bytes(self) -> int:
        """Size of the payload and the saved state."""
        return len(self.payload) + len(self.saved_state or b"")

    def json(self) -> Any:
        """The value of a JSON payload."""
        return decode_json(self.payload)

    def text(self) -> str:
        """The payload as text."""
        return decode_text(self.payload)


class QueueStats(Value):
    """Counts of one queue. They add up: each message sent is in one of the others."""

    queue: QueueName
    scheduled: int
    ready: int
    leased: int
    sent: int
    done: int
    dead: int
    cancelled: int
    expired: int
    oldest_ready_ms: int | None
    """Age of the oldest ready message; None if none is ready."""
    paused: bool
    pause_reason: str | None = None
    ran_out: int = 0
    """Leased messages whose lease has run out, unnoticed so far."""


class ChannelStats(Value):
    """Counts of one channel, and why its ready messages wait, if a limit holds them."""

    channel: str
    scheduled: int
    ready: int
    leased: int
    oldest_ready_ms: int | None
    blocked: BlockedBy | None
    """`exhausted`: its first message has no attempts left and waits for a person (`retry`)."""
    ran_out: int = 0
    """Leased messages whose lease has run out, unnoticed so far."""


class QueueEntry(Value):
    """A queue with its settings, and which queue its exhausted messages go to."""

    name: QueueName
    settings: QueueSettings
    dead_letter: QueueName | None
    created_at: int
    modified_at: int
    """The last change of its settings, or when it was made; a time like `created_at`."""


class ChannelPolicy(Value):
    """A channel with a policy of its own."""

    channel: str
    policy: Policy


class Deferral(Value):
    """One message to bring back later, with a new `state`, or with the state that it has."""

    receipt: Receipt
    delay_ms: int = 0
    state: bytes | None = None
    """The new saved state; None keeps it, `b""` empties it."""

    def __post_init__(self) -> None:
        _check_receipt(self.receipt)
        limits.duration_ms(self.delay_ms, "delay_ms")
        if self.state is not None:
            limits.state(self.state)


class Failure(Value):
    """One failed attempt. `delay_ms` None waits for the queue's back-off."""

    receipt: Receipt
    error: str = ""
    retry: bool = True
    delay_ms: int | None = None
    worker: str | None = None
    """The name of the worker that says so."""

    def __post_init__(self) -> None:
        _check_receipt(self.receipt)
        if self.worker is not None:
            limits.worker_text(self.worker)
        force_setattr(self, "error", limits.error_text(self.error))
        limits.flag(self.retry, "retry")
        if self.delay_ms is not None:
            limits.duration_ms(self.delay_ms, "delay_ms")


class Turn(Value):
    """A receiver's place in the round robin: the last channel served, and the number of messages
    it has had in this turn.
    """

    channel: str | None = None
    served: int = 0


class Shard(Value):
    """The i-th of n parts of a queue's channels, by a hash that both stores share; i from 0.

    Messages without a channel are divided one by one, by `id % n`, unless they have limits.
    """

    index: int
    count: int

    def __post_init__(self) -> None:
        limits.whole(self.count, "shard count", 1, 1_024)
        limits.whole(self.index, "shard index", 0, self.count - 1)


def _check_receipt(receipt: object) -> None:
    if not isinstance(receipt, Receipt):
        raise UsageError(f"a receipt is a Receipt, not {type(receipt).__name__}")


FIRST_TURN = Turn()
NO_HEADERS: Mapping[str, str] = {}
