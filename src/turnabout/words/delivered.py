"""`DeliveredMessage`: what a message that was handed out says of itself, for either colour."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from turnabout.words.entities import Delivery, Origin, Receipt
from turnabout.words.payload import decode_json, decode_text


class DeliveredMessage:
    """The fields of a delivery, and its payload in other forms."""

    __slots__ = ("_delivery", "is_settled")

    def __init__(self, delivery: Delivery) -> None:
        self._delivery = delivery
        self.is_settled = False
        """A verb of this object has settled it, or its holder has said so."""

    def mark_settled(self) -> None:
        """Say that you ended the message elsewhere, as in your own transaction: then neither
        `consume` nor a worker acks it.
        """
        self.is_settled = True

    @property
    def delivery(self) -> Delivery:
        """The plain value under this object."""
        return self._delivery

    @property
    def id(self) -> int:
        """Its id, the same through all deliveries."""
        return self._delivery.id

    @property
    def receipt(self) -> Receipt:
        """The proof of this lease; `str(receipt)` is its text form."""
        return self._delivery.receipt

    @property
    def attempt(self) -> int:
        """Deliveries so far, this one included."""
        return self._delivery.attempt

    @property
    def failures(self) -> int:
        """Attempts that ended by `fail`."""
        return self._delivery.failures

    @property
    def crashes(self) -> int:
        """Attempts whose lease ran out."""
        return self._delivery.crashes

    @property
    def channel(self) -> str:
        """Its channel; `""` is the default one."""
        return self._delivery.channel

    @property
    def priority(self) -> int:
        """Its priority inside the channel; smaller first."""
        return self._delivery.priority

    @property
    def payload(self) -> bytes:
        """The bytes that were sent."""
        return self._delivery.payload

    @property
    def content_type(self) -> str:
        """The payload's content type, as the sender gave it."""
        return self._delivery.content_type

    @property
    def headers(self) -> Mapping[str, str]:
        """The sender's headers."""
        return self._delivery.headers

    @property
    def state(self) -> bytes | None:
        """The state that the last `defer` saved; None if it saved none."""
        return self._delivery.state

    @property
    def origin(self) -> Origin | None:
        """Place and cause of death, in a dead-letter queue or after a redrive; otherwise None."""
        return self._delivery.origin

    @property
    def sent_at(self) -> int:
        """Time of sending, in milliseconds since 1970 by the database's clock."""
        return self._delivery.sent_at

    @property
    def lease_until(self) -> int:
        """End of this lease, unless extended; a time like `sent_at`."""
        return self._delivery.lease_until

    def text(self) -> str:
        """The payload as text."""
        return decode_text(self.payload)

    def json(self) -> Any:
        """The payload as JSON."""
        return decode_json(self.payload)
