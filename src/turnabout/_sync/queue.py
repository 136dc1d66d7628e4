"""For blocking callers. Generated from `_async/queue.py` by `tools/unasync.py`: do not edit."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

from turnabout._sync.channel import Channel
from turnabout._sync.events import EventReader
from turnabout._sync.history import PAGE_ROWS, clear_in_parts, entries_of
from turnabout._sync.message import Message
from turnabout._sync.receiving import receive_in_turn
from turnabout._sync.redrives import run_to_end
from turnabout._sync.shared import Shared
from turnabout._sync.waiting import wait_for
from turnabout.words import limits
from turnabout.words import outcomes as o
from turnabout.words import verbs as v
from turnabout.words.batch import Batch
from turnabout.words.entities import (
    ChannelPolicy,
    ChannelStats,
    Deferral,
    Delivery,
    Failure,
    Outgoing,
    Peeked,
    QueueStats,
    Receipt,
    Shard,
    State,
)
from turnabout.words.errors import Unavailable, Uncertain
from turnabout.words.policy import DedupMode, DedupScope, QueueSettings
from turnabout.words.prepare import all_of, checked_redrive, history_of, outgoing
from turnabout.words.prepare import results as results_of
from turnabout.words.records import (
    Ending,
    Event,
    HistoryEntry,
    HistoryPage,
    Outcome,
    Redrive,
    RedriveFilter,
)

if TYPE_CHECKING:
    from turnabout._sync.joined import JoinedQueue


class Queue:
    """A named set of messages: send them, receive them, settle them."""

    def __init__(self, shared: Shared, name: str) -> None:
        self._shared = shared
        self._store = shared.store
        self.name = name

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.name}>"

    def send(
        self,
        payload: Any,
        *,
        channel: str = "",
        priority: int = 0,
        delay_seconds: float | None = None,
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
            headers=headers,
            content_type=content_type,
            ttl_seconds=ttl_seconds,
            dedup_key=dedup_key,
            dedup_mode=dedup_mode,
            dedup_window_seconds=dedup_window_seconds,
            dedup_scope=dedup_scope,
            max_payload_bytes=self._shared.max_payload_bytes,
        )
        return self._store.run(v.Send(self.name, (message,)))

    def send_many(self, messages: Iterable[Outgoing]) -> o.SendOutcome:
        """Send many messages, all or none; make each with `turnabout.message(...)`.

        Outcomes: Sent with the ids in order; ChannelFull or QueueFull, and then none was sent.
        Limits:   10,000 messages a call.
        """
        batch = all_of(Outgoing, messages)
        limits.whole(len(batch), "messages in one send", 0, limits.SEND_MESSAGES_MAX)
        most = self._shared.max_payload_bytes
        for message in batch:
            if len(message.payload) > most:
                limits.payload(message.payload, most)
        return self._store.run(v.Send(self.name, batch))

    def receive(
        self,
        max_messages: int = 1,
        *,
        wait_seconds: float = 0,
        lease_seconds: float | None = None,
        shard: tuple[int, int] | None = None,
    ) -> Batch[Message]:
        """Lease up to `max_messages` ready messages, the channels in turn.

        wait_seconds:  how long to wait for the first message; a send ends the wait at once.
        lease_seconds: how long they are held; default: the queue's setting.
        shard:         (i, n), i from 0: only channels in the i-th of n parts.
        Outcomes: a Batch in the order of turns; empty with `retry_after_seconds` if there is
                  nothing to hand out (None: only a send can change that).
        """
        limits.milliseconds(wait_seconds, "wait_seconds", limits.WAIT_SECONDS_MAX)
        verb = v.Receive(
            self.name,
            limits.whole(max_messages, "max_messages", 1, limits.RECEIVE_MESSAGES_MAX),
            None if lease_seconds is None else limits.lease_ms(lease_seconds),
            None if shard is None else Shard(*shard),
        )
        deliveries, retry_after_ms = self._received(verb, wait_seconds)
        return Batch([Message(self, d) for d in deliveries], retry_after_ms)

    def _received(
        self, verb: v.Receive, wait_seconds: float
    ) -> tuple[Sequence[Delivery], int | None]:
        return receive_in_turn(self._shared, verb, wait_seconds)

    def messages(
        self,
        *,
        max_messages: int = 1,
        idle_seconds: float = 0,
        lease_seconds: float | None = None,
    ) -> Iterator[Message]:
        """Iterate over messages until none comes for `idle_seconds`. You ack each one."""
        while batch := self.receive(
            max_messages, wait_seconds=idle_seconds, lease_seconds=lease_seconds
        ):
            for message in batch:
                yield message

    def ack(
        self, which: Sequence[Receipt], *, results: Sequence[Any] | None = None
    ) -> tuple[o.AckOutcome, ...]:
        """These messages are done. Outcomes per receipt, same order: Acked, LeaseLost.

        results: one for each receipt (bytes, str or JSON; None for none), for callers of `wait`.
        """
        receipts = all_of(Receipt, which)
        return self._store.run(v.Ack(self.name, receipts, results_of(receipts, results)))

    def defer(self, deferrals: Sequence[Deferral]) -> tuple[o.DeferOutcome, ...]:
        """Bring these back later, uncharged.

        Outcomes, same order: Deferred; Cancelled, if that was requested meanwhile; LeaseLost.
        """
        return self._store.run(v.Defer(self.name, all_of(Deferral, deferrals)))

    def fail(self, failures: Sequence[Failure]) -> tuple[o.FailOutcome, ...]:
        """These attempts failed.

        Outcomes, same order: Retrying; Dead; Blocked, and then the channel waits for a person;
                              Cancelled, if that was requested meanwhile; LeaseLost.
        """
        return self._store.run(v.Fail(self.name, all_of(Failure, failures)))

    def extend(
        self, which: Sequence[Receipt], *, lease_seconds: float | None = None
    ) -> tuple[o.ExtendOutcome, ...]:
        """Keep these for longer, counted from now; a lease is never made shorter.

        Outcomes per receipt, same order: Extended, which says whether a cancel was requested;
                                          LeaseLost.
        """
        lease_ms = None if lease_seconds is None else limits.lease_ms(lease_seconds)
        return self._store.run(v.Extend(self.name, all_of(Receipt, which), lease_ms))

    def release(self, which: Sequence[Receipt]) -> tuple[o.ReleaseOutcome, ...]:
        """Give these back at once, uncharged.

        Outcomes, same order: Released; Cancelled, if that was requested meanwhile; LeaseLost.
        """
        return self._store.run(v.Release(self.name, all_of(Receipt, which)))

    def cancel(self, ids: Sequence[int]) -> tuple[o.CancelOutcome, ...]:
        """End these messages as cancelled, by their ids.

        Outcomes, same order: Cancelled; CancelRequested for one that is leased: its holder
                              learns it at the next `extend`, and it will not come back; NotWaiting.
        """
        return self._store.run(v.Cancel(self.name, limits.message_ids(ids)))

    def retry(self, ids: Sequence[int]) -> tuple[o.RetryOutcome, ...]:
        """Make these waiting messages ready now, and reset their charges.

        It also unblocks a FIFO channel that waits for a person (`on_exhausted="block"`).
        Outcomes, same order: Retried; NotWaiting, leased or gone.
        """
        return self._store.run(v.Retry(self.name, limits.message_ids(ids)))

    def endings(self, ids: Sequence[int]) -> tuple[Ending | None, ...]:
        """How these messages ended, same order; None while one is unfinished.

        Outcome `unknown`: it ended, and its history is gone (`history_seconds`).
        """
        return self._store.run(v.Endings(self.name, limits.message_ids(ids)))

    def wait(
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
        return wait_for(self._shared, self.name, wanted, timeout_seconds)

    def send_and_wait(
        self, payload: Any, *, timeout_seconds: float = 30.0, **options: Any
    ) -> Ending | o.SendOutcome:
        """Send one message and wait until it has ended; options as of `send`.

        Outcomes: Ending, with the result of its ack; Sent, if it has not ended in time, as far as
                  is known: you can wait for its id again; ChannelFull, QueueFull.
        """
        limits.milliseconds(timeout_seconds, "timeout_seconds", limits.WAIT_SECONDS_MAX)
        outcome = self.send(payload, **options)
        if not isinstance(outcome, o.Sent):
            return outcome
        try:
            (ending,) = self.wait(outcome.ids, timeout_seconds=timeout_seconds)
        except (Unavailable, Uncertain):  # they would say that nothing was sent
            return outcome
        return outcome if ending is None else ending

    def peek(
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
        return self._store.run(v.Peek(self.name, limit, state, channel, after_id))

    def history(
        self,
        limit: int = 20,
        *,
        outcome: Outcome | None = None,
        channel: str | None = None,
        error: str | None = None,
        finished_from: int | None = None,
        finished_until: int | None = None,
        cursor: str | None = None,
    ) -> HistoryPage:
        """Finished messages, the newest first; `cursor` of the page goes on with older ones.

        error:         only those with this text in their last error.
        finished_from: only those that ended then or later, and before `finished_until`;
                       milliseconds since 1970 by the database's clock.
        """
        verb = history_of(
            self.name,
            limit,
            outcome=outcome,
            channel=channel,
            error=error,
            finished_from=finished_from,
            finished_until=finished_until,
            cursor=cursor,
        )
        return self._store.run(verb)

    def history_entries(
        self,
        *,
        outcome: Outcome | None = None,
        channel: str | None = None,
        error: str | None = None,
        finished_from: int | None = None,
        finished_until: int | None = None,
    ) -> Iterator[HistoryEntry]:
        """Iterate over all finished messages, the newest first, page by page; as `history`."""
        verb = history_of(
            self.name,
            PAGE_ROWS,
            outcome=outcome,
            channel=channel,
            error=error,
            finished_from=finished_from,
            finished_until=finished_until,
        )
        for entry in entries_of(self._store, verb):
            yield entry

    def clear(
        self, which: Literal["done", "failed", "all"], *, limit: int | None = None
    ) -> o.Cleared:
        """Remove history, the oldest first: of messages that are `done`, that ended otherwise
        (`failed`), or `all`; at most `limit` of them.

        Cost: a transaction for each 10,000, so that others never wait long.
        """
        limits.choice(which, "which", ("done", "failed", "all"))
        limits.optional_whole(limit, "limit", 0, limits.ID_MAX)
        return clear_in_parts(self._store, v.Clear(self.name, which, limit))

    def events(
        self, *, after: str | None = None, idle_seconds: float | None = None
    ) -> Iterator[Event]:
        """Iterate over what happens in the queue from now on (the first step of the iteration),
        or after a cursor.

        Forever, or until nothing has come for `idle_seconds`. Each event has the `cursor` to go on
        after it, also in another process and after days (events stay for one). A queue set to
        `hints` says only that something has changed (kind `changed`).
        Raises: UsageError if the queue's setting `events` is `off`; Unavailable if the database is
                away: go on after the last cursor.
        """
        if after is not None:
            limits.utf8(after, "a cursor")
        if idle_seconds is not None:
            limits.milliseconds(idle_seconds, "idle_seconds", limits.DELAY_SECONDS_MAX)
        for event in EventReader(self._shared, self.name, after).events(idle_seconds):
            yield event

    def events_cursor(self) -> str:
        """A cursor for now: `events(after=…)` misses nothing that happens after this call."""
        return (self._store.run(v.Events(self.name))).cursor

    def redrive(
        self,
        target: str | None = None,
        *,
        channel: str | None = None,
        died_from: int | None = None,
        died_until: int | None = None,
        error: str | None = None,
        per_second: int | None = None,
        max_redrives: int = 3,
        dry_run: bool = False,
        progress: Callable[[Redrive], object] | None = None,
    ) -> Redrive:
        """Move dead messages back and return when all have been looked at; as `redrive_start`.

        progress: called with the redrive as it begins, after each step and at the end. If you
                  break off, housekeeping goes on with the redrive; `redrive_cancel`
                  stops it, `redrive_resume` waits for it again.
        """
        begun = self.redrive_start(
            target,
            channel=channel,
            died_from=died_from,
            died_until=died_until,
            error=error,
            per_second=per_second,
            max_redrives=max_redrives,
            dry_run=dry_run,
        )
        return run_to_end(self._store, begun, progress)

    def redrive_start(
        self,
        target: str | None = None,
        *,
        channel: str | None = None,
        died_from: int | None = None,
        died_until: int | None = None,
        error: str | None = None,
        per_second: int | None = None,
        max_redrives: int = 3,
        dry_run: bool = False,
    ) -> Redrive:
        """Start a redrive of this queue's messages; commonly it is a dead-letter queue.

        It then goes on by `redrive_step`, `redrive_resume`, or the housekeeping of receivers.

        target:       the queue that they go to; None: each to the queue that it died in.
        channel:      only what was sent to that channel.
        died_from:    only those that died then or later, and before `died_until`; milliseconds
                      since 1970 by the database's clock.
        error:        only those with this text in their last error.
        per_second:   at most this many; None: as fast as it goes.
        max_redrives: skip those redriven this often already: they would only die again.
        dry_run:      only count what would be moved; answers with state `dry_run`.
        """
        verb = v.RedriveStart(
            self.name,
            target,
            RedriveFilter(channel, died_from, died_until, error),
            per_second,
            max_redrives,
            dry_run,
        )
        return self._store.run(checked_redrive(verb))

    def stats(self) -> QueueStats:
        """Counts of this queue."""
        (stats,) = self._store.run(v.Stats(self.name))
        return stats

    def channels(self, limit: int = 20) -> tuple[ChannelStats, ...]:
        """The channels with the most unfinished messages, and what blocks them."""
        limits.whole(limit, "limit", 1, limits.PEEK_MESSAGES_MAX)
        return self._store.run(v.StatsOfChannels(self.name, limit))

    def purge(self, *, channel: str | None = None, state: State | None = None) -> o.Purged:
        """Cancel unfinished messages, all or of one channel or state; leased ones if named."""
        limits.state_name(state)
        limits.optional_channel(channel)
        return self._store.run(v.Purge(self.name, channel, state))

    def create(self, **settings: Any) -> o.CreateOutcome:
        """Make the queue; keywords are the fields of QueueSettings.

        Outcomes: Created; AlreadyExists with its settings, which are left as they are.
        """
        return self._store.run(v.QueueCreate(self.name, QueueSettings().changed(settings)))

    def settings(self) -> QueueSettings:
        """The queue's settings now."""
        return (self._store.run(v.QueueGet(self.name))).settings

    def update(self, **changes: Any) -> QueueSettings:
        """Change some settings of the live queue; the others stay.

        policy: a whole Policy, or a mapping of only the fields that change: `{"weight": 2}`.
        """
        return (self._store.run(v.QueueUpdate(self.name, changes))).settings

    def delete(self) -> o.Deleted:
        """Remove the queue with its unfinished messages, settings and policies."""
        return self._store.run(v.QueueDelete(self.name))

    def pause(self, *, reason: str | None = None) -> None:
        """Hand out nothing until `resume`; sends are still taken, running messages may end.

        reason: for people, shown in `stats` and `settings`.
        """
        self.update(paused=True, pause_reason=reason)

    def resume(self) -> None:
        """Hand out messages again."""
        self.update(paused=False, pause_reason=None)

    def within(self, connection: object) -> JoinedQueue:
        """This queue in your own transaction: what the handle does is committed with your rows.

        connection: of psycopg, psycopg2, asyncpg, SQLAlchemy, Django, sqlite3 or aiosqlite, or an
                    object as `turnabout.adapters` describes it; of this face's colour.
        """
        from turnabout._sync.joined import JoinedQueue

        return JoinedQueue(self._shared, self.name, self._store.within(connection))

    def channel(self, name: str) -> Channel:
        """A handle to a channel's policy. Touches nothing."""
        return Channel(self._store, self.name, limits.channel_name(name))

    def policies(self) -> tuple[ChannelPolicy, ...]:
        """Channels with a policy of their own, by name."""
        return self._store.run(v.PolicyList(self.name))
