"""A delivery on the wire: the one value of which thousands are said a second, written out."""

from __future__ import annotations

from collections.abc import Callable

import msgspec
from msgspec import UNSET, Raw, UnsetType

from turnabout.wire.content import Content, dump_bytes, dump_content, load_bytes
from turnabout.wire.seconds import ms_of
from turnabout.words import entities
from turnabout.words.errors import UsageError


class Delivery(msgspec.Struct, forbid_unknown_fields=True):
    """A message as `receive` hands it out. Later verbs take its receipt as it is."""

    receipt: str
    id: int
    attempt: int
    channel: str
    priority: int
    payload: Content
    content_type: str
    failures: int
    crashes: int
    sent_at: int
    lease_until: int
    lease_seconds: float
    headers: Raw | UnsetType = UNSET
    state: Content | UnsetType = UNSET
    origin: Raw | UnsetType = UNSET


def dump(delivery: entities.Delivery) -> Delivery:
    """The delivery with its receipt."""
    id_, attempt, channel, priority, payload, kind, headers, state = delivery[:8]
    failures, crashes, sent_at, origin, lease_until, lease_ms, lease = delivery[8:]
    return Delivery(
        entities.receipt_text(id_, attempt, lease),
        id_,
        attempt,
        channel,
        priority,
        dump_content(payload, kind),
        kind,
        failures,
        crashes,
        sent_at,
        lease_until,
        lease_ms / 1000,
        _stored(headers, _decode_headers),
        UNSET if state is None else dump_bytes(state),
        _stored(origin, _decode_origin),
    )


def _stored(text: str | None, decode: Callable[[str], object]) -> Raw | UnsetType:
    """A stored text as it is, once it was read: what is not of its form would break the answer with
    all other deliveries in it, or add one, so it is left out.
    """
    if text is None:
        return UNSET
    try:
        decode(text)
    except msgspec.DecodeError:
        return UNSET
    return Raw(text.encode())


def load(delivery: Delivery) -> entities.Delivery:
    """The delivery again. Raises: UsageError if receipt, bytes, headers or origin are none."""
    content = delivery.payload
    payload = bytes(content.json) if isinstance(content.json, Raw) else load_bytes(content)
    return entities.Delivery(
        delivery.id,
        delivery.attempt,
        delivery.channel,
        delivery.priority,
        payload,
        delivery.content_type,
        _text(delivery.headers, _decode_headers, "headers are an object of texts"),
        None if delivery.state is UNSET else load_bytes(delivery.state),
        delivery.failures,
        delivery.crashes,
        delivery.sent_at,
        _text(delivery.origin, _decode_origin, "an origin tells why a message died"),
        delivery.lease_until,
        ms_of(delivery.lease_seconds),
        entities.Receipt.parse(delivery.receipt).lease,
    )


def _text(raw: Raw | UnsetType, decode: Callable[[str], object], message: str) -> str | None:
    if isinstance(raw, UnsetType):
        return None
    text = bytes(raw).decode()
    try:
        decode(text)
    except msgspec.DecodeError as error:
        raise UsageError(f"{message}: {error}") from error
    return text


_decode_origin = msgspec.json.Decoder(entities.Origin).decode
_decode_headers = msgspec.json.Decoder(dict[str, str]).decode
