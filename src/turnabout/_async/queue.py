"""A queue, the messages that it hands out, and itself in a caller's transaction.

They name each other, so they live in one file.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from turnabout._async.admin import AsyncQueueAdmin
from turnabout._async.consume import AsyncMessageLoop
from turnabout._async.receiving import receive_in_turn, receive_once
from turnabout._async.shared import Shared
from turnabout._async.waiting import wait_for
from turnabout.store import AsyncJoined, AsyncStore
from turnabout.words import limits
from turnabout.words import outcomes as o
from turnabout.words import verbs as v
from turnabout.words.batch import Batch
from turnabout.words.delivered import DeliveredMessage
from turnabout.words.entities import (
    Deferral,
    Delivery,
    Failure,
    Note,
    Outgoing,
    Receipt,
    Shard,
)
from turnabout.words.errors import Unavailable, Uncertain, UsageError
from turnabout.words.policy import DedupMode, DedupScope
from turnabout.words.prepare import all_of, outgoing, receipts_of
from turnabout.words.prepare import results as results_of
from turnabout.words.records import Ending
from turnabout.words.workers import this_process

if TYPE_CHECKING:
    from datetime import datetime  # slow to load


class AsyncQueue(AsyncQueueAdmin):
    """A named set of messages: send them, receive them, settle them."""

    @property
    def store(self) -> AsyncStore:
        """The store under this handle, for APIs and tools that speak in verbs."""
        return self._store

    async def send(
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
    ) -> o.SendOutcome:
        """Send one message; it is on disk when the call returns.

        payload:     bytes as they are, str as UTF-8 text, anything else as JSON.
        priority:    -32768 to 32767 inside the channel; smaller numbers are handed out first.
        due_at:      instead of a delay: a datetime with a time zone, or milliseconds since 1970, by
                     the database's clock; one that has passed is at once.
        ttl_seconds: it expires if it still waits after that; default: the queue's setting.
        dedup_key:   a second send with this key is suppressed for as long as the mode says; then
                     `duplicates` (or `replaced`) is not empty, and the id is that of the message
                     that stands for both. So a send whose answer was lost can be repeated.
        dedup_mode:  `window`, `sliding`, `until_started`, `until_finished`, `latest`, `rerun`;
                     with dedup_window_seconds and dedup_scope (`queue`, `channel`); unless given,
                     as the queue's settings say.
        Outcomes: Sent with the id; ChannelFull if the channel's `max_size` is reached; QueueFull
                  if the queue's `max_messages` is.
        Limits:   payload 1 MiB unless set at `connect`; channel and key 255 bytes; 64 headers.
        """
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
            max_payload_bytes=self._shared.max_payload_bytes,
        )
        return await self._store.run(v.Send(self.name, (message,)))

    async def send_many(self, messages: Iterable[Outgoing]) -> o.SendOutcome:
        """Send many messages, all or none; make each with `turnabout.message(...)`.

        Outcomes: Sent with the ids in order; ChannelFull or QueueFull, and then none was sent.
        Limits:   10,000 messages a call.
        """
        return await self._store.run(self._sending(messages))

    def _sending(self, messages: Iterable[Outgoing], *, to: str | None = None) -> v.Send:
        batch = all_of(Outgoing, messages)
        limits.messages_in_one_send(len(batch))
        most = self._shared.max_payload_bytes
        for message in batch:
            if len(message.payload) > most:
                limits.payload(message.payload, most)
        return v.Send(to or self.name, batch)

    async def receive(
        self,
        max_messages: int = 1,
        *,
        wait_seconds: float = 0,
        lease_seconds: float | None = None,
        shard: tuple[int, int] | None = None,
        acks: Iterable[AsyncMessage | Receipt] = (),
        results: Sequence[Any] | None = None,
    ) -> Batch[AsyncMessage]:
        """Ack what you have done, then lease up to `max_messages` ready messages, the channels in
        turn: one call, one transaction.

        wait_seconds:  how long to wait for the first message; a send ends the wait at once.
        lease_seconds: how long they are held; default: the queue's setting.
        shard:         (i, n), i from 0: only channels in the i-th of n parts, and of the messages
                       without a channel those whose id leaves i when divided by n.
        acks:          messages, or a batch, or receipts that are done. A channel that one of them
                       kept closed is open for this receive. If there is a wait, they are acked
                       before it.
        results:       one for each of `acks`, as in `ack`.
        Outcomes: a Batch in the order of turns; empty with `retry_after_seconds` if there is
                  nothing to hand out (None: only a send can change that). Its `acked` has an
                  outcome for each of `acks`, in their order: Acked, or LeaseLost.
        """
        limits.milliseconds(wait_seconds, "wait_seconds", limits.WAIT_SECONDS_MAX)
        receipts = receipts_of(acks)
        acked = receipts, results_of(receipts, results)
        verb = self._receive(max_messages, lease_seconds, shard, *acked)
        received = await self._received(verb, wait_seconds)
        messages = [AsyncMessage(self, d) for d in received.deliveries]
        return Batch(messages, received.retry_after_ms, received.acked)

    def _receive(
        self, max_messages: int, lease: float | None, shard: tuple[int, int] | None, *acked: Any
    ) -> v.Receive:
        return v.Receive(
            self.name,
            limits.whole(max_messages, "max_messages", 1, limits.RECEIVE_MESSAGES_MAX),
            None if lease is None else limits.lease_ms(lease),
            None if shard is None else Shard(*shard),
            v.FIRST_TURN,
            *acked,
        )

    async def _received(self, verb: v.Receive, wait_seconds: float) -> o.Received:
        return await receive_in_turn(self._shared, verb, wait_seconds)

    def consume(
        self,
        max_messages: int = 1,
        *,
        wait_seconds: float | None = 0,
        lease_seconds: float | None = None,
        shard: tuple[int, int] | None = None,
    ) -> AsyncMessageLoop[AsyncMessage]:
        """Loop over messages. Each is acked when the loop asks for the next, in one call with it.

        What you settle in the loop's body by yourself (`ack` with a result, `defer`, `fail`,
        `release`) is left alone. An exception in the body fails the message, with its text;
        `break`, `return` and `close` release it, uncharged. A message whose lease was lost
        meanwhile is logged as a warning.

        max_messages: how many are fetched at once. They are acked together, before the next fetch.
        wait_seconds: how long to wait for a message before the loop ends; None: for ever.
        The others:   as in `receive`.
        """
        if wait_seconds is not None:
            limits.milliseconds(wait_seconds, "wait_seconds", limits.WAIT_SECONDS_MAX)
        verb = self._receive(max_messages, lease_seconds, shard)
        message_of = partial(AsyncMessage, self)
        return AsyncMessageLoop(self._shared, verb, wait_seconds, self._received, message_of)

    async def ack(
        self,
        which: Iterable[AsyncMessage | Receipt],
        *,
        results: Sequence[Any] | None = None,
    ) -> tuple[o.AckOutcome, ...]:
        """Ack messages. Outcomes per message or receipt, same order: Acked, LeaseLost.

        results: one for each receipt (bytes, str or JSON; None for none), for callers of `wait`.
        """
        receipts = receipts_of(which)
        return await self._store.run(v.Ack(self.name, receipts, results_of(receipts, results)))

    async def defer(self, deferrals: Sequence[Deferral]) -> tuple[o.DeferOutcome, ...]:
        """Bring these back later, uncharged.

        Outcomes, same order: Deferred; Dead or Blocked, by `max_deliveries`; Cancelled, if that was
                  requested meanwhile; LeaseLost.
        """
        return await self._store.run(v.Defer(self.name, all_of(Deferral, deferrals)))

    async def fail(self, failures: Sequence[Failure]) -> tuple[o.FailOutcome, ...]:
        """Record failed attempts.

        Outcomes, same order: Retrying; Dead; Blocked, and then the channel waits for a person;
                              Cancelled, if that was requested meanwhile; LeaseLost.
        """
        return await self._store.run(v.Fail(self.name, all_of(Failure, failures)))

    async def extend(
        self,
        which: Iterable[AsyncMessage | Receipt],
        *,
        lease_seconds: float | None = None,
        note: Note | str | None = None,
        exact: bool = False,
    ) -> tuple[o.ExtendOutcome, ...]:
        """Keep these for longer, counted from now; a lease is never made shorter, unless `exact`.

        note:  shown by peek, events and, once they have ended, history and endings.
        exact: the leases end in exactly `lease_seconds`, also if they would have run longer. With
               0 they end now, as if they had run out: receivers that wait are notified, the next
               receive charges each a crash and may have it (or it is dead, by `max_attempts`), and
               until then the receipt still counts. SQS calls this a visibility timeout of 0; to
               give back uncharged, `release`.

        Outcomes per receipt, same order: Extended, which says whether a cancel was requested;
                                          LeaseLost.
        """
        least = 0 if limits.flag(exact, "exact") else 0.001
        lease_ms = None if lease_seconds is None else limits.lease_ms(lease_seconds, least=least)
        note = Note(note) if isinstance(note, str) else note
        return await self._store.run(v.Extend(self.name, receipts_of(which), lease_ms, note, exact))

    async def release(
        self, which: Iterable[AsyncMessage | Receipt]
    ) -> tuple[o.ReleaseOutcome, ...]:
        """Give these back at once, uncharged.

        Outcomes, same order: Released; Dead or Blocked, by `max_deliveries`; Cancelled, if that was
                  requested meanwhile; LeaseLost.
        """
        return await self._store.run(v.Release(self.name, receipts_of(which)))

    async def cancel(self, ids: Sequence[int]) -> tuple[o.CancelOutcome, ...]:
        """End these messages as cancelled, by their ids.

        Outcomes, same order: Cancelled; CancelRequested for one that is leased: its holder
                              learns it at the next `extend`, and it will not come back; NotWaiting.
        """
        return await self._store.run(v.Cancel(self.name, limits.message_ids(ids)))

    async def retry(self, ids: Sequence[int]) -> tuple[o.RetryOutcome, ...]:
        """Make these waiting messages ready now, and reset their charges.

        It also unblocks a FIFO channel that waits for a person (`on_exhausted="block"`).
        It sends no dead letter back: `queue("x-dead").redrive(ids=[…])` does.
        Outcomes, same order: Retried; NotWaiting, leased or gone.
        """
        return await self._store.run(v.Retry(self.name, limits.message_ids(ids)))

    async def endings(self, ids: Sequence[int]) -> tuple[Ending | None, ...]:
        """Look up how messages ended, same order; None while one is unfinished.

        Outcome `unknown`: it ended, and its history is gone (`history_seconds`).
        """
        return await self._store.run(v.Endings(self.name, limits.message_ids(ids)))

    async def wait(
        self, ids: Sequence[int], *, timeout_seconds: float = 30.0
    ) -> tuple[Ending | None, ...]:
        """Wait until all of these have ended: done, dead, cancelled or expired.

        Same order; at the timeout, None for those that are still unfinished. Any
        number of waiters in this process share one listener and one look. The longer it waits,
        the less often it looks: at most a second after a hint, at most five without one. An
        outage of the database is waited out; its error is raised only at the timeout.
        """
        wanted = limits.message_ids(ids)
        limits.milliseconds(timeout_seconds, "timeout_seconds", limits.WAIT_SECONDS_MAX)
        return await wait_for(self._shared, self.name, wanted, timeout_seconds)

    async def send_and_wait(
        self, payload: Any, *, timeout_seconds: float = 30.0, **options: Any
    ) -> Ending | o.SendOutcome:
        """Send one message and wait until it has ended; options as of `send`.

        Outcomes: Ending, with the result of its ack; Sent, if it has not ended in time, as far as
                  is known: you can wait for its id again; ChannelFull, QueueFull.
        """
        limits.milliseconds(timeout_seconds, "timeout_seconds", limits.WAIT_SECONDS_MAX)
        outcome = await self.send(payload, **options)
        if not isinstance(outcome, o.Sent):
            return outcome
        try:
            (ending,) = await self.wait(outcome.ids, timeout_seconds=timeout_seconds)
        except (Unavailable, Uncertain):  # they would say that nothing was sent
            return outcome
        return outcome if ending is None else ending

    def within(self, connection: object) -> AsyncJoinedQueue:
        """Use this queue in your own transaction: the handle's calls commit with your rows.

        connection: of psycopg, psycopg2, asyncpg, SQLAlchemy, Django, sqlite3 or aiosqlite, or an
                    object as `turnabout.adapters` describes it; of this face's colour.
        """
        return AsyncJoinedQueue(self._shared, self.name, self._store.within(connection))


class AsyncMessage(DeliveredMessage):
    """A message that you hold a lease on. End it by `ack`, `defer`, `fail` or `release`."""

    __slots__ = ("_cancel_requested", "_queue")

    def __init__(self, queue: AsyncQueue, delivery: Delivery) -> None:
        super().__init__(delivery)
        self._queue = queue
        self._cancel_requested = False

    def __repr__(self) -> str:
        d = self._delivery
        return f"<{type(self).__name__} {d.receipt} {self._queue.name}/{d.channel}>"

    @property
    def queue(self) -> AsyncQueue:
        """The queue it came from."""
        return self._queue

    @property
    def cancel_requested(self) -> bool:
        """True once an `extend` has reported that a cancel was requested: end soon."""
        return self._cancel_requested

    async def ack(
        self, *, result: Any = None, then: Mapping[str, Iterable[Outgoing]] | None = None
    ) -> o.AckOutcome:
        """Ack the message. Outcomes: Acked; LeaseLost, and then another worker may have it.

        result: for callers of `wait`: bytes, str or JSON, like a payload, up to 1 MiB.
        then:   messages to send in the same transaction, by their queue: either it is acked and
                they are sent, or neither happens.
        Raises: Refused, with `then` only, if the lease was lost or a channel or queue is full.
        """
        queue, results = self._queue, None if result is None else (result,)
        if then:
            verb = v.Ack(queue.name, (self.receipt,), results_of((self.receipt,), results))
            sends = [queue._sending(messages, to=name) for name, messages in then.items()]
            answers = await queue.store.run_transaction((verb, *sends), all_or_none=True)
            (outcome,) = answers[0]
        else:
            (outcome,) = await queue.ack((self.receipt,), results=results)
        self.is_settled = True
        return outcome

    async def defer(
        self, *, delay_seconds: float = 0, state: bytes | None = None
    ) -> o.DeferOutcome:
        """Bring it back later, uncharged; `state` replaces what is saved, None keeps it.

        Outcomes: Deferred; Dead or Blocked, by `max_deliveries`; Cancelled, if that was
                  requested meanwhile; LeaseLost.
        """
        deferral = Deferral(self.receipt, limits.delay_ms(delay_seconds), state)
        (outcome,) = await self._queue.defer((deferral,))
        self.is_settled = True
        return outcome

    async def fail(
        self, error: str = "", *, retry: bool = True, delay_seconds: float | None = None
    ) -> o.FailOutcome:
        """Record a failed attempt.

        Outcomes: Retrying after the back-off; Dead; Blocked, and then its channel waits for a
                  person; Cancelled, if that was requested meanwhile; LeaseLost.
        """
        failure = Failure(
            self.receipt,
            error,
            retry,
            None if delay_seconds is None else limits.delay_ms(delay_seconds),
            this_process(),
        )
        (outcome,) = await self._queue.fail((failure,))
        self.is_settled = True
        return outcome

    async def extend(
        self,
        *,
        lease_seconds: float | None = None,
        note: Note | str | None = None,
        exact: bool = False,
    ) -> o.ExtendOutcome:
        """Keep it for longer, counted from now, and note how far the work has come.

        exact: the lease may get shorter, too, and with 0 seconds ends now, charged as a crash: see
               the queue's `extend`. A worker's heartbeat makes it longer again.

        Outcomes: Extended, with `cancel_requested` if that was requested; LeaseLost.
        """
        (outcome,) = await self._queue.extend(
            (self.receipt,), lease_seconds=lease_seconds, note=note, exact=exact
        )
        if isinstance(outcome, o.Extended):
            self._cancel_requested = outcome.cancel_requested
        return outcome

    async def release(self) -> o.ReleaseOutcome:
        """Give it back at once, uncharged.

        Outcomes: Released; Dead or Blocked, by `max_deliveries`; Cancelled, if that was
                  requested meanwhile; LeaseLost.
        """
        (outcome,) = await self._queue.release((self.receipt,))
        self.is_settled = True
        return outcome


class AsyncJoinedQueue(AsyncQueue):
    """A queue on your own connection: what it does is committed or rolled back with your rows.

    Made by `queue.within(connection)`. It sends, receives (without waiting), acks, defers, fails,
    releases, extends, cancels, and reads and sets policies of channels; any other verb raises
    UsageError. It never commits, and never waits for a row that another transaction holds.

    An outcome leaves your transaction as it was; after an exception roll it back.
    """

    def __init__(
        self, shared: Shared, name: str, joined: AsyncJoined, front: AsyncStore | None = None
    ) -> None:
        """`front`: a store in front of the joined one, for all verbs."""
        store = joined if front is None else front
        super().__init__(Shared(store, shared.max_payload_bytes, shared.rounds), name)
        self._joined = joined

    async def _received(self, verb: v.Receive, wait_seconds: float) -> o.Received:
        if wait_seconds:
            raise UsageError("a receive inside a transaction cannot wait: leave wait_seconds out")
        return await receive_once(self._shared, verb)

    async def wake(self) -> None:
        """Notify waiting receivers, after your commit. Without it they learn when they next look,
        on PostgreSQL after seconds, on SQLite after some milliseconds.
        """
        await self._joined.wake(self.name)
