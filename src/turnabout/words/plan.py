"""Sends and policies that are noted first and carried out together: what `batch()` hands out.

Without colour: nothing here touches a database. The order in which all is done depends on the names
and not on the program, so that batches which meet take things in the same order: by queue; in a
queue the policies first, by channel; then the sends as they were noted.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from turnabout.words import limits
from turnabout.words.entities import Outgoing
from turnabout.words.errors import UsageError
from turnabout.words.outcomes import SendOutcome
from turnabout.words.policy import NO_POLICY, DedupMode, DedupScope, Policy
from turnabout.words.prepare import all_of, outgoing
from turnabout.words.verbs import PolicySet, Send, Verb

if TYPE_CHECKING:
    from datetime import datetime  # slow to load

A = TypeVar("A")


class PlannedVerb(Generic[A]):
    """A verb that runs at the end of the block."""

    __slots__ = ("_outcome", "verb")

    def __init__(self, verb: Verb[A]) -> None:
        self.verb = verb
        self._outcome: tuple[A] | None = None

    @property
    def outcome(self) -> A:
        """The outcome. Raises: UsageError as long as it has not been done."""
        if self._outcome is None:
            raise UsageError("a batch runs at the end of its `with` block: read outcomes after it")
        return self._outcome[0]

    def tell(self, outcome: A) -> None:
        """Marks a verb that was carried out."""
        self._outcome = (outcome,)


class BatchPlan:
    """The notes of a block."""

    def __init__(self, max_payload_bytes: int = limits.PAYLOAD_BYTES_MAX) -> None:
        self._max_payload_bytes = max_payload_bytes
        self._noted: list[PlannedVerb[Any]] = []
        self._is_open = True

    def queue(self, name: str) -> PlannedQueue:
        """A queue to send to, or to set policies in."""
        return PlannedQueue(self, limits.queue_name(name), self._max_payload_bytes)

    def note(self, verb: Verb[A]) -> PlannedVerb[A]:
        """Do this, too."""
        if not self._is_open:
            raise UsageError("the batch is over: nothing can be added to it")
        planned = PlannedVerb(verb)
        self._noted.append(planned)
        return planned

    def close(self) -> Sequence[Verb[Any]]:
        """The collected verbs, in the order of execution."""
        self._is_open = False
        self._noted.sort(key=_place)
        return [planned.verb for planned in self._noted]

    def tell(self, outcomes: Sequence[Any]) -> None:
        """Set the outcomes of `close`, in its order."""
        for planned, outcome in zip(self._noted, outcomes, strict=True):
            planned.tell(outcome)


class PlannedQueue:
    """A queue in a block: what it is told is noted."""

    def __init__(self, plan: BatchPlan, name: str, max_payload_bytes: int) -> None:
        self._plan = plan
        self._max_payload_bytes = max_payload_bytes
        self.name = name

    def send(
        self,
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
    ) -> PlannedVerb[SendOutcome]:
        """Send one message; arguments and outcomes as of `Queue.send`."""
        message = outgoing(
            payload,
            channel=channel,
            priority=priority,
            delay_seconds=delay_seconds,
            due_at=due_at,
            headers=headers,
            content_type=content_type,
            ttl_seconds=ttl_seconds,
            dedup_key=dedup_key,
            dedup_mode=dedup_mode,
            dedup_window_seconds=dedup_window_seconds,
            dedup_scope=dedup_scope,
            max_payload_bytes=self._max_payload_bytes,
        )
        return self._plan.note(Send(self.name, (message,)))

    def send_many(self, messages: Iterable[Outgoing]) -> PlannedVerb[SendOutcome]:
        """Send many messages, all or none; as `Queue.send_many`."""
        batch = all_of(Outgoing, messages)
        limits.messages_in_one_send(len(batch))
        for message in batch:
            limits.payload(message.payload, self._max_payload_bytes)
        return self._plan.note(Send(self.name, batch))

    def channel(self, name: str) -> PlannedChannel:
        """A channel to set the policy of."""
        return PlannedChannel(self._plan, self.name, limits.channel_name(name))


class PlannedChannel:
    """A channel in a block: what it is told is noted."""

    def __init__(self, plan: BatchPlan, queue: str, name: str) -> None:
        self._plan = plan
        self._queue = queue
        self.name = name

    def set_policy(self, policy: Policy) -> PlannedVerb[Policy]:
        """Replace the channel's policy; as `Channel.set_policy`."""
        if not isinstance(policy, Policy):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise UsageError(f"a policy is a Policy, not {type(policy).__name__}")
        changes = {name: getattr(policy, name) for name in Policy.__struct_fields__}
        return self._plan.note(PolicySet(self._queue, self.name, changes, replace=True))

    def change_policy(self, **changes: Any) -> PlannedVerb[Policy]:
        """Change some fields of the channel's policy; what is not named stays."""
        NO_POLICY.changed(changes)
        return self._plan.note(PolicySet(self._queue, self.name, changes))

    def clear_policy(self) -> PlannedVerb[Policy]:
        """Remove the channel's policy, all of it."""
        return self.set_policy(NO_POLICY)


def _place(planned: PlannedVerb[Any]) -> tuple[str, int, str]:
    """The verb's position in the order; equal positions stay in the order of collection."""
    verb = planned.verb
    if isinstance(verb, PolicySet):
        return verb.queue, 0, verb.channel
    assert isinstance(verb, Send)
    return verb.queue, 1, ""
