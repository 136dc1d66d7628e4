"""Values that users hand in, checked and made into the plain ones that verbs carry."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from turnabout.words import limits
from turnabout.words.entities import Outgoing, Receipt
from turnabout.words.errors import UsageError
from turnabout.words.payload import BYTES, encode
from turnabout.words.policy import DedupMode, DedupScope
from turnabout.words.records import OUTCOMES, Outcome, Result
from turnabout.words.verbs import History, RedriveStart

if TYPE_CHECKING:
    from datetime import datetime  # slow to load

PER_SECOND_MAX = 1_000_000


def outgoing(
    payload: Any,
    *,
    channel: str = "",
    priority: int = 0,
    delay_seconds: float | None = None,
    due_at: datetime | int | None = None,
    headers: Mapping[str, str] | None = None,
    content_type: str | None = None,
    ttl_seconds: float | None = None,
    dedup_key: str | None = None,
    dedup_mode: DedupMode | None = None,
    dedup_window_seconds: float | None = None,
    dedup_scope: DedupScope | None = None,
    max_payload_bytes: int = limits.PAYLOAD_BYTES_MAX,
) -> Outgoing:
    """A message for `send_many`: bytes as they are, str as UTF-8 text, anything else as JSON.

    Raises: UsageError for whatever is not in the limits (`turnabout.words.limits`).
    """
    data, kind = (payload, BYTES) if type(payload) is bytes else encode(payload)
    if len(data) > max_payload_bytes:
        limits.payload(data, max_payload_bytes)
    return Outgoing(
        data,
        kind if content_type is None else content_type,
        channel,
        priority,
        None if delay_seconds is None else limits.delay_ms(delay_seconds),
        None if due_at is None else limits.instant(due_at, "due_at"),
        headers,
        None if ttl_seconds is None else limits.ttl_ms(ttl_seconds),
        dedup_key,
        dedup_mode,
        None if dedup_window_seconds is None else limits.window_ms(dedup_window_seconds),
        dedup_scope,
    )


def message_of(message: Any, max_payload_bytes: int) -> Outgoing:
    """A message as it is, or one with that payload."""
    if not isinstance(message, Outgoing):
        return outgoing(message, max_payload_bytes=max_payload_bytes)
    limits.payload(message.payload, max_payload_bytes)
    return message


def result(value: Any) -> Result | None:
    """The result of an ack: bytes, text or JSON, like a payload; None for no result."""
    if value is None or isinstance(value, Result):
        return value
    return Result(*encode(value))


def results(receipts: Sequence[Receipt], values: Sequence[Any] | None) -> tuple[Result | None, ...]:
    """One result for each receipt, or none at all."""
    if values is None:
        return ()
    limits.one_each(values, receipts)
    made = tuple(map(result, values))
    return made if any(one is not None for one in made) else ()


T = TypeVar("T")


def receipts_of(which: Iterable[Any]) -> tuple[Receipt, ...]:
    """Receipts as they are, or those of messages."""
    return all_of(Receipt, [getattr(one, "receipt", one) for one in which])


def all_of(kind: type[T], values: Iterable[T]) -> tuple[T, ...]:
    """A tuple of that kind; anything else in it is refused."""
    items = tuple(values)
    if set(map(type, items)) == {kind}:
        return items
    for item in items:
        if not isinstance(item, kind):
            hint = ": turnabout.message(…) makes one of a payload" if kind is Outgoing else ""
            raise UsageError(f"this takes {kind.__name__} values, not {type(item).__name__}{hint}")
    return items


def history_of(
    queue: str,
    limit: int,
    *,
    outcome: Outcome | None,
    channel: str | None,
    error: str | None,
    finished_from: int | None,
    finished_until: int | None,
    cursor: str | None = None,
) -> History:
    """The verb for finished messages, its arguments checked."""
    limits.whole(limit, "limit", 1, limits.PEEK_MESSAGES_MAX)
    if outcome is not None:
        limits.choice(outcome, "outcome", OUTCOMES)
    limits.optional_channel(channel)
    if error is not None:
        limits.utf8(error, "the error text of a filter")
    limits.optional_whole(finished_from, "finished_from", 0, limits.FOREVER_MS)
    limits.optional_whole(finished_until, "finished_until", 0, limits.FOREVER_MS)
    if cursor is not None:
        limits.utf8(cursor, "a cursor")
    return History(queue, limit, outcome, channel, error, finished_from, finished_until, cursor)


def checked_redrive(verb: RedriveStart) -> RedriveStart:
    """The verb, its arguments checked; the filter has checked its own."""
    if verb.target is not None:
        limits.queue_name(verb.target)
    limits.optional_whole(verb.per_second, "per_second", 1, PER_SECOND_MAX)
    limits.whole(verb.max_redrives, "max_redrives", 0, limits.INTEGER_MAX)
    limits.flag(verb.dry_run, "dry_run")
    if verb.started_by is not None:
        limits.owner(verb.started_by)
    return verb
