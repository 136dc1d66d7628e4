"""The face for asyncio. `_sync.py` is generated from this file by `tools/unasync.py`.

Each method makes a verb, has the store run it, and gives back the outcome. Checks of arguments
live in `words.limits`; what a verb means lives in the stores. No method decides anything else.
"""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from contextlib import suppress
from types import TracebackType
from typing import Any, Self

from penstock.store import AsyncStore
from penstock.words import limits
from penstock.words.batch import Batch
from penstock.words.entities import (
    ChannelPolicy,
    ChannelStats,
    Deferral,
    Delivery,
    Failure,
    Outgoing,
    Peeked,
    QueueEntry,
    QueueStats,
    Receipt,
    Shard,
    State,
)
from penstock.words.errors import Unavailable, Uncertain, UsageError
from penstock.words.outcomes import (
    AckOutcome,
    CreateOutcome,
    DeferOutcome,
    Deleted,
    ExtendOutcome,
    FailOutcome,
    Purged,
    ReleaseOutcome,
    SendOutcome,
)
from penstock.words.payload import decode_json
from penstock.words.policy import NO_POLICY, Policy, QueueSettings
from penstock.words.prepare import all_of, outgoing
from penstock.words.turns import Rounds, in_turn
from penstock.words.verbs import (
    Ack,
    Defer,
    Extend,
    Fail,
    Peek,
    PolicyGet,
    PolicyList,
    PolicySet,
    Purge,
    QueueCreate,
    QueueDelete,
    QueueGet,
    QueueList,
    QueueUpdate,
    Receive,
    Release,
    Send,
    Stats,
    StatsOfChannels,
    Tend,
)


class AsyncPenstock:
    """A connection to a store; made by `connect`, closed by `close` or a `with` block."""

    def __init__(
        self, store: AsyncStore, *, max_payload_bytes: int = limits.PAYLOAD_BYTES_MAX
    ) -> None:
        self._store = store
        self._rounds = Rounds()
        self._max_payload_bytes = max_payload_bytes
        self._is_closed = False

    @property
    def store(self) -> AsyncStore:
        """The store under this face, for doors and tools that speak in verbs."""
        return self._store

    def queue(self, name: str) -> AsyncQueue:
        """A handle to a queue. Touches nothing: the queue need not exist yet."""
        return AsyncQueue(self, limits.queue_name(name))

    async def queues(self) -> tuple[QueueEntry, ...]:
        """All queues with their settings, by name."""
        return await self._store.run(QueueList())

    async def stats(self) -> tuple[QueueStats, ...]:
        """Counts of all queues, by name."""
        return await self._store.run(Stats())

    async def close(self) -> None:
        """Free connections and files. Calls that wait return; later calls raise UsageError."""
        self._is_closed = True
        await self._store.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.close()


class AsyncQueue:
    """A named set of messages. All verbs that users send, receive and settle messages with."""

    def __init__(self, penstock: AsyncPenstock, name: str) -> None:
        self._penstock = penstock
        self._store = penstock._store
        self.name = name

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.name}>"

    async def send(
        self,
        payload: Any,
        *,
        channel: str = "",
        priority: int = 0,
        delay_seconds: float | None = None,
        headers: Mapping[str, str] | None = None,
        content_type: str | None = None,
    ) -> SendOutcome:
        """Send one message; it is on disk when the call returns.

        payload:  bytes as they are, str as UTF-8 text, anything else as JSON.
        priority: -32768 to 32767 inside the channel; smaller numbers are handed out first.
        Outcomes: Sent with the id; ChannelFull if the channel's `max_size` is reached.
        Limits:   payload 1 MiB unless set at `connect`; channel 255 bytes; 64 headers.
        """
        message = outgoing(
            payload,
            channel=channel,
            priority=priority,
            delay_seconds=delay_seconds,
            headers=headers,
            content_type=content_type,
            max_payload_bytes=self._penstock._max_payload_bytes,
        )
        return await self._store.run(Send(self.name, (message,)))

    async def send_many(self, messages: Iterable[Outgoing]) -> SendOutcome:
        """Send many messages, all or none; make each with `penstock.message(...)`.

        Outcomes: Sent with the ids in order; ChannelFull, and then none was sent.
        Limits:   10,000 messages a call.
        """
        batch = all_of(Outgoing, messages)
        limits.whole(len(batch), "messages in one send", 0, limits.SEND_MESSAGES_MAX)
        for message in batch:
            limits.payload(message.payload, self._penstock._max_payload_bytes)
        return await self._store.run(Send(self.name, batch))

    async def receive(
        self,
        max_messages: int = 1,
        *,
        wait_seconds: float = 0,
        lease_seconds: float | None = None,
        shard: tuple[int, int] | None = None,
    ) -> Batch[AsyncMessage]:
        """Lease up to `max_messages` ready messages, the channels in turn.

        wait_seconds:  how long to wait for the first message; a send ends the wait at once.
        lease_seconds: how long they are held; unless given, as the queue's settings say.
        shard:         (i, n), i from 0: only channels in the i-th of n parts.
        Outcomes: a Batch in the order of turns; empty with `retry_after_seconds` if there is
                  nothing to hand out (None: only a send can change that).
        """
        limits.milliseconds(wait_seconds, "wait_seconds", limits.WAIT_SECONDS_MAX)
        verb = Receive(
            self.name,
            limits.whole(max_messages, "max_messages", 1, limits.RECEIVE_MESSAGES_MAX),
            None if lease_seconds is None else limits.lease_ms(lease_seconds),
            None if shard is None else Shard(*shard),
        )
        ends_at = time.monotonic() + wait_seconds if wait_seconds else 0.0
        while True:
            seen = await self._store.signal(self.name) if wait_seconds else 0
            deliveries, retry_after_ms = await self._receive_once(verb)
            left = ends_at - time.monotonic() if wait_seconds else 0.0
            if deliveries or left <= 0:
                return Batch([AsyncMessage(self, d) for d in deliveries], retry_after_ms)
            pause = left if retry_after_ms is None else min(left, retry_after_ms / 1000)
            await self._store.wait(self.name, seen, pause)
            if self._penstock._is_closed:
                return Batch([], None)

    async def _receive_once(self, verb: Receive) -> tuple[Sequence[Delivery], int | None]:
        """One `receive` from where this process stands in the round robin."""
        rounds = self._penstock._rounds
        if rounds.must_tend(self.name):
            with suppress(Unavailable, Uncertain):  # housekeeping; the next one will do
                await self._store.run(Tend(self.name))
        turn = rounds.take(self.name, verb.shard)
        try:
            received = await self._store.run(
                Receive(verb.queue, verb.max_messages, verb.lease_ms, verb.shard, turn)
            )
            deliveries, guess = in_turn(received.deliveries, turn)
            turn = received.turn or guess
        finally:
            rounds.put(self.name, turn, verb.shard)
        return deliveries, received.retry_after_ms

    async def messages(
        self,
        *,
        max_messages: int = 1,
        idle_seconds: float = 0,
        lease_seconds: float | None = None,
    ) -> AsyncIterator[AsyncMessage]:
        """Iterate over messages until none came for `idle_seconds`. You ack each one."""
        while batch := await self.receive(
            max_messages, wait_seconds=idle_seconds, lease_seconds=lease_seconds
        ):
            for message in batch:
                yield message

    async def ack(self, which: Sequence[Receipt]) -> tuple[AckOutcome, ...]:
        """These messages are done. Outcomes per receipt, same order: Acked, LeaseLost."""
        return await self._store.run(Ack(self.name, all_of(Receipt, which)))

    async def defer(self, deferrals: Sequence[Deferral]) -> tuple[DeferOutcome, ...]:
        """Bring these back later, uncharged. Outcomes, same order: Deferred, LeaseLost."""
        return await self._store.run(Defer(self.name, all_of(Deferral, deferrals)))

    async def fail(self, failures: Sequence[Failure]) -> tuple[FailOutcome, ...]:
        """These attempts failed. Outcomes, same order: Retrying, Dead, LeaseLost."""
        return await self._store.run(Fail(self.name, all_of(Failure, failures)))

    async def extend(
        self, which: Sequence[Receipt], *, lease_seconds: float | None = None
    ) -> tuple[ExtendOutcome, ...]:
        """Keep these for longer, counted from now; a lease is never made shorter.

        Outcomes per receipt, same order: Extended, LeaseLost.
        """
        lease_ms = None if lease_seconds is None else limits.lease_ms(lease_seconds)
        return await self._store.run(Extend(self.name, all_of(Receipt, which), lease_ms))

    async def release(self, which: Sequence[Receipt]) -> tuple[ReleaseOutcome, ...]:
        """Give these back at once, uncharged. Outcomes, same order: Released, LeaseLost."""
        return await self._store.run(Release(self.name, all_of(Receipt, which)))

    async def peek(
        self,
        limit: int = 20,
        *,
        state: State | None = None,
        channel: str | None = None,
        after_id: int = 0,
    ) -> tuple[Peeked, ...]:
        """Look at unfinished messages in order of sending; nothing is leased or changed."""
        limits.whole(limit, "limit", 1, limits.PEEK_MESSAGES_MAX)
        limits.whole(after_id, "after_id", 0, limits.ID_MAX)
        limits.state_name(state)
        limits.optional_channel(channel)
        return await self._store.run(Peek(self.name, limit, state, channel, after_id))

    async def stats(self) -> QueueStats:
        """Counts of this queue."""
        (stats,) = await self._store.run(Stats(self.name))
        return stats

    async def channels(self, limit: int = 20) -> tuple[ChannelStats, ...]:
        """The channels with the most unfinished messages, and what blocks them."""
        limits.whole(limit, "limit", 1, limits.PEEK_MESSAGES_MAX)
        return await self._store.run(StatsOfChannels(self.name, limit))

    async def purge(self, *, channel: str | None = None, state: State | None = None) -> Purged:
        """Cancel unfinished messages, all or of one channel or state; leased ones if named."""
        limits.state_name(state)
        limits.optional_channel(channel)
        return await self._store.run(Purge(self.name, channel, state))

    async def create(self, **settings: Any) -> CreateOutcome:
        """Make the queue; keywords are the fields of QueueSettings.

        Outcomes: Created; AlreadyExists with its settings, which are left as they are.
        """
        return await self._store.run(QueueCreate(self.name, QueueSettings().changed(settings)))

    async def settings(self) -> QueueSettings:
        """The queue's settings now."""
        return (await self._store.run(QueueGet(self.name))).settings

    async def update(self, **changes: Any) -> QueueSettings:
        """Change some settings of the live queue; what is not named stays."""
        return (await self._store.run(QueueUpdate(self.name, changes))).settings

    async def delete(self) -> Deleted:
        """Remove the queue with its unfinished messages, settings and policies."""
        return await self._store.run(QueueDelete(self.name))

    async def pause(self) -> None:
        """Hand out nothing until `resume`; sends are still taken, running messages may end."""
        await self.update(paused=True)

    async def resume(self) -> None:
        """Hand out messages again."""
        await self.update(paused=False)

    def channel(self, name: str) -> AsyncChannel:
        """A handle to a channel's policy. Touches nothing."""
        return AsyncChannel(self, limits.channel_name(name))

    async def policies(self) -> tuple[ChannelPolicy, ...]:
        """Channels with a policy of their own, by name."""
        return await self._store.run(PolicyList(self.name))


class AsyncChannel:
    """One channel of a queue: its policy, and pause and resume."""

    def __init__(self, queue: AsyncQueue, name: str) -> None:
        self._store = queue._store
        self._queue = queue.name
        self.name = name

    async def policy(self) -> Policy:
        """The channel's own policy; what it leaves open, the queue's default policy fills."""
        return await self._store.run(PolicyGet(self._queue, self.name))

    async def set_policy(self, policy: Policy) -> Policy:
        """Replace the channel's policy; it holds for every lease granted after this."""
        if not isinstance(policy, Policy):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise UsageError(f"a policy is a Policy, not {type(policy).__name__}")
        changes = {name: getattr(policy, name) for name in Policy.__dataclass_fields__}
        return await self._store.run(PolicySet(self._queue, self.name, changes, replace=True))

    async def change_policy(self, **changes: Any) -> Policy:
        """Change some fields of the channel's policy; what is not named stays."""
        NO_POLICY.changed(changes)
        return await self._store.run(PolicySet(self._queue, self.name, changes))

    async def clear_policy(self) -> None:
        """Remove the channel's policy, all of it: the queue's default holds again."""
        await self.set_policy(NO_POLICY)

    async def pause(self) -> None:
        """Hand out nothing from this channel until `resume`; sends are still taken."""
        await self.change_policy(paused=True)

    async def resume(self) -> None:
        """Hand out the channel's messages again."""
        await self.change_policy(paused=False)


class AsyncMessage:
    """A message that you hold a lease on. End it by `ack`, `defer`, `fail` or `release`."""

    __slots__ = ("_delivery", "_queue")

    def __init__(self, queue: AsyncQueue, delivery: Delivery) -> None:
        self._queue = queue
        self._delivery = delivery

    def __repr__(self) -> str:
        d = self._delivery
        return f"<{type(self).__name__} {d.id}.{d.attempt} {self._queue.name}/{d.channel}>"

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
        """What proves this lease; `str(receipt)` is its text form."""
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
        """What the payload is, as the sender said."""
        return self._delivery.content_type

    @property
    def headers(self) -> Mapping[str, str]:
        """The sender's headers."""
        return self._delivery.headers

    @property
    def state(self) -> bytes | None:
        """What the last `defer` saved; None if nothing was."""
        return self._delivery.state

    @property
    def sent_at(self) -> int:
        """When it was sent, in milliseconds since 1970 by the database's clock."""
        return self._delivery.sent_at

    @property
    def lease_until(self) -> int:
        """When this lease runs out, unless extended; as `sent_at`."""
        return self._delivery.lease_until

    def text(self) -> str:
        """The payload as UTF-8 text."""
        try:
            return self.payload.decode()
        except UnicodeDecodeError as error:
            raise UsageError(f"the payload is not UTF-8: {error}") from error

    def json(self) -> Any:
        """The payload as JSON."""
        return decode_json(self.payload)

    async def ack(self) -> AckOutcome:
        """It is done. Outcomes: Acked; LeaseLost, and then somebody else may have it."""
        (outcome,) = await self._queue.ack((self.receipt,))
        return outcome

    async def defer(self, *, delay_seconds: float = 0, state: bytes | None = None) -> DeferOutcome:
        """Bring it back later, uncharged; `state` replaces what is saved, None keeps it."""
        deferral = Deferral(self.receipt, limits.delay_ms(delay_seconds), state)
        (outcome,) = await self._queue.defer((deferral,))
        return outcome

    async def fail(
        self, error: str = "", *, retry: bool = True, delay_seconds: float | None = None
    ) -> FailOutcome:
        """This attempt failed. Outcomes: Retrying after the back-off; Dead; LeaseLost."""
        failure = Failure(
            self.receipt,
            error,
            retry,
            None if delay_seconds is None else limits.delay_ms(delay_seconds),
        )
        (outcome,) = await self._queue.fail((failure,))
        return outcome

    async def extend(self, *, lease_seconds: float | None = None) -> ExtendOutcome:
        """Keep it for longer, counted from now. Outcomes: Extended; LeaseLost."""
        (outcome,) = await self._queue.extend((self.receipt,), lease_seconds=lease_seconds)
        return outcome

    async def release(self) -> ReleaseOutcome:
        """Give it back at once, uncharged. Outcomes: Released; LeaseLost."""
        (outcome,) = await self._queue.release((self.receipt,))
        return outcome
