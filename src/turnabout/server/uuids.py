"""Ids of messages for APIs whose clients know them by UUIDs: version 8 (RFC 9562), from a message's
own id and the queue that it was sent to.

The first 63 of the 122 free bits are the message's id, so that they sort in the order of sending;
the rest is a hash of the queue's name.
"""

from __future__ import annotations

from hashlib import sha256
from uuid import UUID

_HASH_BITS = 59


def queue_hash(queue: str) -> int:
    """The part of an id that stands for the queue."""
    return int.from_bytes(sha256(queue.encode()).digest()[:8]) >> 64 - _HASH_BITS


def message_uuid(id_: int, queue: str) -> str:
    """The id of a message that was sent to that queue."""
    free = id_ << _HASH_BITS | queue_hash(queue)
    high, middle, low = free >> 74, free >> 62 & 0xFFF, free & (1 << 62) - 1
    return str(UUID(int=high << 80 | 0x8 << 76 | middle << 64 | 0b10 << 62 | low))


def parts_of(uuid: UUID) -> tuple[int, int] | None:
    """A message's id and the hash of its queue; None for a UUID that was not made here."""
    whole = uuid.int
    if whole >> 76 & 0xF != 0x8 or whole >> 62 & 0b11 != 0b10:
        return None
    free = whole >> 80 << 74 | (whole >> 64 & 0xFFF) << 62 | whole & (1 << 62) - 1
    return free >> _HASH_BITS, free & (1 << _HASH_BITS) - 1
