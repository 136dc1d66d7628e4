"""`AsyncMessage`: a message that you hold a lease on."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from turnabout.words import limits
from turnabout.words.entities import Deferral, Delivery, Failure, Origin, Receipt
from turnabout.words.outcomes import (
    AckOutcome,
    DeferOutcome,
    Extended,
    ExtendOutcome,
    FailOutcome,
    ReleaseOutcome,
)
from turnabout.words.payload import decode_json, decode_text

if TYPE_CHECKING:
    from turnabout._async.queue import AsyncQueue


class AsyncMessage:
    """A message that you hold a lease on. End it by `ack`, `defer`, `fail` or `release`."""

    __slots__ = ("_cancel_requested", "_delivery", "_queue")

    def __init__(self, queue: AsyncQueue, delivery: Delivery) -> None:
        self._queue = queue
        self._delivery = delivery
        self._cancel_requested = False

    def __repr__(self) -> str:
        d = self._delivery
        return f"<{type(self).__name__} {d.receipt} {self._queue.name}/{d.channel}>"

    @property
    def queue(self) -> AsyncQueue:
        """The queue it came from."""
        return self._queue

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
        """Where and why it died: in a dead-letter queue, or before a redrive; otherwise None."""
        return self._delivery.origin

    @property
    def sent_at(self) -> int:
        """When it was sent, in milliseconds since 1970 by the database's clock."""
        return self._delivery.sent_at

    @property
    def lease_until(self) -> int:
        """When this lease runs out, unless extended; as `sent_at`."""
        return self._delivery.lease_until

    @property
    def cancel_requested(self) -> bool:
        """True once an `extend` has reported that a cancel was requested: end soon."""
        return self._cancel_requested

    def text(self) -> str:
        """The payload as text."""
        return decode_text(self.payload)

    def json(self) -> Any:
        """The payload as JSON."""
        return decode_json(self.payload)

    async def ack(self, *, result: Any = None) -> AckOutcome:
        """It is done. Outcomes: Acked; LeaseLost, and then another worker may have it.

        result: for callers of `wait`: bytes, str or JSON, like a payload, up to 1 MiB.
        """
        results = None if result is None else (result,)
        (outcome,) = await self._queue.ack((self.receipt,), results=results)
        return outcome

    async def defer(self, *, delay_seconds: float = 0, state: bytes | None = None) -> DeferOutcome:
        """Bring it back later, uncharged; `state` replaces what is saved, None keeps it.

        Outcomes: Deferred; Cancelled, if that was requested meanwhile; LeaseLost.
        """
        deferral = Deferral(self.receipt, limits.delay_ms(delay_seconds), state)
        (outcome,) = await self._queue.defer((deferral,))
        return outcome

    async def fail(
        self, error: str = "", *, retry: bool = True, delay_seconds: float | None = None
    ) -> FailOutcome:
        """This attempt failed.

        Outcomes: Retrying after the back-off; Dead; Blocked, and then its channel waits for a
                  person; Cancelled, if that was requested meanwhile; LeaseLost.
        """
        failure = Failure(
            self.receipt,
            error,
            retry,
            None if delay_seconds is None else limits.delay_ms(delay_seconds),
        )
        (outcome,) = await self._queue.fail((failure,))
        return outcome

    async def extend(self, *, lease_seconds: float | None = None) -> ExtendOutcome:
        """Keep it for longer, counted from now.

        Outcomes: Extended, with `cancel_requested` if that was requested; LeaseLost.
        """
        (outcome,) = await self._queue.extend((self.receipt,), lease_seconds=lease_seconds)
        if isinstance(outcome, Extended):
            self._cancel_requested = outcome.cancel_requested
        return outcome

    async def release(self) -> ReleaseOutcome:
        """Give it back at once, uncharged.

        Outcomes: Released; Cancelled, if that was requested meanwhile; LeaseLost.
        """
        (outcome,) = await self._queue.release((self.receipt,))
        return outcome
