"""What users hand in, checked and made into the plain values that verbs carry."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, TypeVar

from penstock.words import limits
from penstock.words.entities import Outgoing
from penstock.words.errors import UsageError
from penstock.words.payload import encode
from penstock.words.policy import DedupMode, DedupScope
from penstock.words.records import Result


def outgoing(
    payload: Any,
    *,
    channel: str = "",
    priority: int = 0,
    delay_seconds: float | None = None,
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

    Raises: UsageError for whatever is not in the limits (`penstock.words.limits`).
    """
    data, kind = encode(payload)
    return Outgoing(
        limits.payload(data, max_payload_bytes),
        kind if content_type is None else content_type,
        channel,
        priority,
        None if delay_seconds is None else limits.delay_ms(delay_seconds),
        headers,
        None if ttl_seconds is None else limits.ttl_ms(ttl_seconds),
        dedup_key,
        dedup_mode,
        None if dedup_window_seconds is None else limits.window_ms(dedup_window_seconds),
        dedup_scope,
    )


def result(value: Any) -> Result | None:
    """What an ack leaves: bytes, text or JSON, as a payload is; None is no result."""
    return None if value is None else Result(*encode(value))


T = TypeVar("T")


def all_of(kind: type[T], given: Iterable[T]) -> tuple[T, ...]:
    """A tuple of that kind; anything else in it is refused."""
    items = tuple(given)
    for item in items:
        if not isinstance(item, kind):
            raise UsageError(f"this takes {kind.__name__} values, not {type(item).__name__}")
    return items
