"""Fairness: what each channel got of a queue's service, beside its fair share, and the verdict."""

from __future__ import annotations

from typing import Literal, get_args

from turnabout.words.entities import BlockedBy
from turnabout.words.errors import UsageError
from turnabout.words.limits import shown
from turnabout.words.value import Value

ShareOrder = Literal["fairness", "ready", "oldest", "served", "channel"]

STARVED_BELOW = 0.7
"""Share got to fair share below which a channel is starved; in the stores' SQL, too."""
UNSERVED_MS = 60_000
"""Messages that have been ready for that long while nothing was handed out are a fault."""


def share_order(order: object) -> None:
    """Check an order of channels. Raises: UsageError."""
    if order not in (orders := get_args(ShareOrder)):
        raise UsageError(f"sort is one of {', '.join(orders)}, not {shown(order)}")


class ChannelShare(Value):
    """One channel's part of a queue's service, and what its fair share is."""

    channel: str
    ready: int
    leased: int
    oldest_ready_ms: int | None
    """Time that its oldest ready message has been ready; if it was released, since its send."""
    blocked: BlockedBy | None
    weight: int
    served: int
    """Deliveries in the window: of messages that have ended, and leases of now."""
    busy_ms: int
    """Time that workers spent on messages that ended in the window, in their last lease."""
    got: int
    """Deliveries while its oldest ready message waited, in whole slices of the window."""
    fair: float | None
    """Its fair share of all deliveries in these slices, max-min by weight. None where nothing has
    waited for a whole slice, a limit of its own holds it, or no other channel waits."""
    starved: bool = False
    """Under .7 of its fair share, by 5 messages or all of it, with no limit of its own."""

    @property
    def ratio(self) -> float | None:
        """Share got to fair share: 1 is fair; None where there is no fair share to compare with."""
        return self.got / self.fair if self.fair else None


class FairShares(Value):
    """The service of a queue: its sums, and the shares of some of its channels."""

    channels: tuple[ChannelShare, ...]
    found: int
    """Channels that match `find`, of which `channels` are some."""
    ready: int
    leased: int
    waiting: int
    """Channels with something ready."""
    held: int
    """The part of them that limits of their own hold, or the queue's pause."""
    starved: int
    oldest_ready_ms: int | None
    served: int
    busy_ms: int
    window_ms: int
    """Time that was looked at: shorter than asked for where more than 10,000 messages ended."""
    by_leases: bool
    """The queue keeps no history: only leases of this moment are known, and nobody is called
    starved by them."""

    def verdict(self) -> tuple[bool, str]:
        """Whether all is well, and the sentence for people that says why."""
        minutes = f"the last {max(1, round(self.window_ms / 60_000))} min"
        waiting = f"{self.ready:,} messages in {self.waiting:,} channels"
        if not self.waiting:
            return True, "Nothing waits."
        if self.held == self.waiting:
            return True, f"Limits hold all that waits back: {waiting}."
        late = (self.oldest_ready_ms or 0) >= UNSERVED_MS
        if late and not self.served:
            return False, f"Nobody is served: {waiting} wait, and none was handed out in {minutes}."
        if late and self.served == self.leased:
            return False, (
                f"Nothing was finished in {minutes}: {waiting} wait for the {self.leased:,} that "
                "are leased."
            )
        if self.starved:
            are, their, them = (
                ("is", "its", "it") if self.starved == 1 else ("are", "their", "them")
            )
            return False, (
                f"{self.starved:,} of {self.waiting:,} waiting channels {are} starved: under "
                f"{STARVED_BELOW} of {their} fair share, and no limit of {their} own holds {them}."
                + (f" Does somebody receive from {their} shard?" if self._is_unserved() else "")
            )
        if self.by_leases:
            return True, "Nobody can be called starved: the queue keeps no history of service."
        return True, "Nobody is starved."

    def _is_unserved(self) -> bool:
        """True if all starved channels are known, and none has got anything at all."""
        got = [one.got for one in self.channels if one.starved]
        return len(got) == self.starved and not any(got)
