"""For blocking callers. Generated from `_async/admin.py` by `tools/unasync.py`: do not edit."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Literal

from turnabout._sync.channel import Channel
from turnabout._sync.events import EventReader
from turnabout._sync.history import PAGE_ROWS, clear_in_parts, entries_of
from turnabout._sync.redrives import run_to_end, user_and_host
from turnabout._sync.shared import Shared
from turnabout.words import limits
from turnabout.words import outcomes as o
from turnabout.words import verbs as v
from turnabout.words.entities import (
    ChannelPolicy,
    ChannelStats,
    Peeked,
    QueueStats,
    State,
)
from turnabout.words.fairness import FairShares, ShareOrder, share_order
from turnabout.words.policy import QueueSettings
from turnabout.words.prepare import checked_redrive, history_of
from turnabout.words.records import (
    Event,
    HistoryEntry,
    HistoryPage,
    Outcome,
    Redrive,
    RedriveFilter,
)
from turnabout.words.workers import WorkerEntry


class QueueAdmin:
    """The half of `Queue` that is not about single messages."""

    def __init__(self, shared: Shared, name: str) -> None:
        self._shared = shared
        self._store = shared.store
        self.name = name

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.name}>"

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
        ids: Sequence[int] | None = None,
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
            ids=ids,
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
        ids: Sequence[int] | None = None,
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
        ids:          only these messages, at most 1,000.
        per_second:   at most this many; None: as fast as it goes.
        max_redrives: skip those redriven this often already: they would only die again.
        dry_run:      only count what would be moved; answers with state `dry_run`.
        """
        verb = v.RedriveStart(
            self.name,
            target,
            RedriveFilter(
                channel, died_from, died_until, error, None if ids is None else tuple(ids)
            ),
            per_second,
            max_redrives,
            dry_run,
            user_and_host(),
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

    def fairness(
        self,
        limit: int = 20,
        *,
        window_seconds: float = 300,
        sort: ShareOrder = "fairness",
        find: str | None = None,
        offset: int = 0,
    ) -> FairShares:
        """Compare each channel's part of the service of the last minutes with its fair share.

        The worst off come first. `verdict()` of the answer says whether anybody is starved.
        """
        limits.whole(limit, "limit", 1, limits.PEEK_MESSAGES_MAX)
        share_order(sort)
        if find is not None:
            limits.utf8(find, "find")
        limits.whole(offset, "offset", 0, limits.INTEGER_MAX)
        window = limits.milliseconds(window_seconds, "window_seconds", limits.DELAY_SECONDS_MAX)
        verb = v.Fairness(self.name, window, sort, find, offset, limit)
        return self._store.run(verb)

    def workers(self) -> tuple[WorkerEntry, ...]:
        """List the workers of this queue that have reported within a minute, and what they do."""
        return self._store.run(v.WorkerList(self.name))

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

    def channel(self, name: str) -> Channel:
        """A handle to a channel's policy. Touches nothing."""
        return Channel(self._store, self.name, limits.channel_name(name))

    def policies(self) -> tuple[ChannelPolicy, ...]:
        """Channels with a policy of their own, by name."""
        return self._store.run(v.PolicyList(self.name))
