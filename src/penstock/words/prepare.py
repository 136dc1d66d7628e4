"""What users hand in, checked and made into the plain values that verbs carry."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from penstock.words import limits
from penstock.words.entities import Outgoing, Receipt
from penstock.words.errors import UsageError
from penstock.words.payload import encode


def outgoing(
    payload: Any,
    *,
    channel: str = "",
    priority: int = 0,
    delay_seconds: float | None = None,
    headers: Mapping[str, str] | None = None,
    content_type: str | None = None,
    max_payload_bytes: int = limits.PAYLOAD_BYTES_MAX,
) -> Outgoing:
    """A message for `send_many`: bytes as they are, str as UTF-8 text, anything else as JSON.

    Raises: UsageError for whatever is not in the limits (`penstock.words.limits`).
    """
    data, kind = encode(payload)
    return Outgoing(
        limits.payload(data, max_payload_bytes),
        kind if content_type is None else limits.content_type(content_type),
        limits.channel_name(channel),
        limits.whole(priority, "priority", limits.PRIORITY_MIN, limits.PRIORITY_MAX),
        None if delay_seconds is None else limits.delay_ms(delay_seconds),
        None if headers is None else limits.headers(headers),
    )


def receipts(which: Iterable[Receipt]) -> tuple[Receipt, ...]:
    """A tuple of receipts; anything else in it is refused."""
    given = tuple(which)
    for receipt in given:
        if not isinstance(receipt, Receipt):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise UsageError(f"a receipt is a Receipt, not {type(receipt).__name__}")
    return given

