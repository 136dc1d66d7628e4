"""Answers of verbs: for each verb a closed union of frozen values, for an exhaustive match.

Expected outcomes, such as a full channel, are return values, not exceptions.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, cast

from turnabout.words.entities import Delivery, QueueEntry, Turn
from turnabout.words.errors import Refused, UsageError
from turnabout.words.value import Value
from turnabout.words.verb import QueueName


class Sent(Value):
    """Accepted, all of them; `ids` in the order given. On disk when the call returns.

    Where a dedup key suppressed or replaced one, its place holds the id of the message that
    survives, and is named in `duplicates` or `replaced`.
    """

    ids: tuple[int, ...]
    duplicates: tuple[int, ...] = ()
    """Places (from 0) of messages that were not put in: an earlier one stands for them."""
    replaced: tuple[int, ...] = ()
    """Places of messages whose content took the place of a waiting one's (mode `latest`)."""

    @property
    def id(self) -> int:
        """The id of the only message sent."""
        if len(self.ids) != 1:
            raise UsageError(f"{len(self.ids)} messages were sent: use `ids`")
        return self.ids[0]


class ChannelFull(Value):
    """Refused, all of them: the channel would hold more than its policy's `max_size`."""

    channel: str
    max_size: int
    size: int
    """Unfinished messages in the channel now."""


class QueueFull(Value):
    """Refused, all of them: the queue would hold more than its `max_messages`."""

    max_messages: int
    size: int
    """Unfinished messages in the queue now."""


class Received(Value):
    """The messages of a `receive`, in turn by channel; when empty, when to ask again."""

    deliveries: tuple[Delivery, ...]
    retry_after_ms: int | None = None
    """Time until a message is due or a limit opens, if known; None: only a send can help."""
    turn: Turn | None = None
    """Next place in the round robin, if weights make it more than the last channel served."""
    acked: tuple[AckOutcome, ...] = ()
    """Outcomes of the receipts that were to be acked first, in their order."""

    @property
    def size(self) -> int:
        """Bytes of the payloads and saved states."""
        return sum([len(one.payload) + len(one.state or b"") for one in self.deliveries])


class Acked(Value):
    """Done; it will never be delivered again."""


class Deferred(Value):
    """Back for later, uncharged."""

    due_at: int


class Retrying(Value):
    """The failed attempt was charged; the message comes back at `due_at`."""

    due_at: int


class Dead(Value):
    """Attempts or deliveries are used up, or `retry` was False: moved to the dead-letter queue.

    `queue` is None where there is none to move to: the message has then ended.
    """

    queue: QueueName | None


class Blocked(Value):
    """Attempts or deliveries are used up: it stays at the head of its FIFO channel until a person
    says `retry` or `cancel`.
    """


class Cancelled(Value):
    """The message ended as cancelled."""


class CancelRequested(Value):
    """The message is leased: its holder learns of it at the next `extend`; it won't come back."""


class Retried(Value):
    """The message is ready now, and its charges are reset."""


class NotWaiting(Value):
    """Nothing was changed: it is leased, or gone (finished, in another queue, never there)."""

    now: Literal["leased", "gone"]


class Extended(Value):
    """The lease now runs until `lease_until`."""

    lease_until: int
    cancel_requested: bool = False
    """A cancel was requested: end soon; it will not come back."""


class Released(Value):
    """Given back at once, uncharged."""


class LeaseLost(Value):
    """The receipt is not the current lease, so nothing was changed.

    now: leased (by a later delivery), ready or scheduled (it came back), or gone (finished,
    in another queue, or never there).
    """

    now: Literal["leased", "ready", "scheduled", "gone"]


class Created(Value):
    """The queue was made, and its dead-letter queue if that was missing."""

    queue: QueueEntry


class AlreadyExists(Value):
    """A queue of that name was there; it was left as it is."""

    queue: QueueEntry


class Deleted(Value):
    """The queue and its unfinished messages are gone."""

    messages: int


class Purged(Value):
    """Number of messages that were cancelled."""

    messages: int


class Cleared(Value):
    """Number of history rows that were removed."""

    messages: int


class Fired(Value):
    """The schedule's message was sent (`id`), or left out (None), and its row has moved on."""

    id: int | None


class NotDue(Value):
    """Another process has fired it, or it was changed or removed."""


AckOutcome = Acked | LeaseLost
DeferOutcome = Deferred | Dead | Blocked | Cancelled | LeaseLost
FailOutcome = Retrying | Dead | Blocked | Cancelled | LeaseLost
ExtendOutcome = Extended | LeaseLost
ReleaseOutcome = Released | Dead | Blocked | Cancelled | LeaseLost
CancelOutcome = Cancelled | CancelRequested | NotWaiting
RetryOutcome = Retried | NotWaiting
SendOutcome = Sent | ChannelFull | QueueFull
FireOutcome = Fired | NotDue
CreateOutcome = Created | AlreadyExists

_REFUSALS = (ChannelFull, QueueFull, LeaseLost, NotWaiting, NotDue, AlreadyExists)


def must_hold(answers: Sequence[Any]) -> None:
    """Answers of an all-or-none transaction, as far as it has come.

    Raises: Refused, if the last of these answers refuses.
    """
    part = refusal_in(answers[-1])
    if part is not None:
        raise Refused(f"nothing was done, since verb {len(answers)} was refused: {part}")


def refusal_in(answer: Any) -> Any:
    """The first outcome in a verb's answer that refuses; None: it was carried out."""
    acked = answer.acked if isinstance(answer, Received) else answer
    parts = cast("tuple[Any, ...]", acked if isinstance(acked, tuple) else (acked,))
    return next((part for part in parts if isinstance(part, _REFUSALS)), None)
