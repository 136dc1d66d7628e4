"""`AsyncSchedules`: messages sent at given times, and the firing of those due."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Any

from turnabout._async.shared import Shared
from turnabout.store import AsyncStore
from turnabout.words import limits
from turnabout.words import outcomes as o
from turnabout.words.errors import Forbidden, TurnaboutError, Unavailable, Uncertain, UsageError
from turnabout.words.prepare import message_of
from turnabout.words.schedules import (
    Fold,
    Gap,
    Missed,
    Overlap,
    Schedule,
    ScheduledMessage,
    ScheduleEntry,
    schedule_of,
)
from turnabout.words.value import replace
from turnabout.words.verbs import ScheduleDelete, ScheduleFire, ScheduleList, ScheduleSet

if TYPE_CHECKING:
    from datetime import datetime  # slow to load

STEPS_MAX = 100
"""Due times of one schedule in one go: a long backlog is sent in parts, one look after another."""
SCHEDULES_MAX = 100
"""Schedules in one go, where somebody waits for messages meanwhile."""


class AsyncSchedules:
    """The schedules of a store: messages that are sent at given times, by any running process."""

    def __init__(self, shared: Shared) -> None:
        self._shared = shared
        self._store = shared.store

    async def set(
        self,
        name: str,
        queue: str,
        message: Any,
        *,
        cron: str | None = None,
        every_seconds: float | None = None,
        at: datetime | int | None = None,
        zone: str = "UTC",
        anchor: datetime | int = 0,
        missed: Missed = "once",
        overlap: Overlap = "allow",
        gap: Gap = "after",
        fold: Fold = "first",
        paused: bool | None = None,
    ) -> ScheduleEntry:
        """Make or replace the schedule of that name. A program may call this at each start:
        without a change it does nothing, and due times missed meanwhile still count.

        message:       a payload, as for `Queue.send`; or `turnabout.message(…)`, for a channel,
                       headers and all the rest. One of cron, every_seconds and at says when.
        cron:          five fields: minute, hour, day of the month, month, day of the week; in the
                       time zone `zone`, such as `Europe/Berlin`. Needs the extra `cron`.
        every_seconds: counted from `anchor`; unless given, from the start of 1970 in UTC.
        at:            once; a datetime with a time zone, or milliseconds since 1970.
        missed:        of due times that passed while nothing ran, `skip` drops those older
                       than a minute, `once` sends one message for all, `all` sends each.
        overlap:       `skip` sends nothing while the previous message is unfinished.
        gap, fold:     cron where clocks are changed. A time that is passed over: `after` runs at
                       the first one after the gap, `skip` not at all. One that comes twice:
                       `first` or `both`. Crons for every hour go by the time that passes.
        paused:        unless given, as it was; due times that pass meanwhile count as missed.
        Raises:        UsageError for an invalid expression or zone, or one that is never due.
        """
        schedule = schedule_of(
            name,
            queue,
            message_of(message, self._shared.max_payload_bytes),
            cron=cron,
            zone=zone,
            every_seconds=every_seconds,
            anchor=anchor,
            at=at,
            missed=missed,
            overlap=overlap,
            gap=gap,
            fold=fold,
            paused=False if paused is None else paused,
        )
        return await self._set(schedule, keeps_pause=paused is None)

    async def _set(self, schedule: Schedule, *, keeps_pause: bool) -> ScheduleEntry:
        from turnabout.timing import first_due

        first_due(schedule, 0, None)  # refused before anything is asked
        before = await self.get(schedule.name)
        if before is not None and keeps_pause:
            schedule = replace(schedule, paused=before.schedule.paused)
        self._shared.watch.found(any_there=True)
        if before is None:
            # First without a due time, for what the database's clock says.
            before = await self._store.run(ScheduleSet(schedule, None))
        next_at = first_due(schedule, before.now, before)
        if before.schedule == schedule and (before.next_at is not None or next_at is None):
            return before
        return await self._store.run(ScheduleSet(schedule, next_at))

    async def get(self, name: str) -> ScheduleEntry | None:
        """The schedule of that name with its next due time, or None."""
        found = await self._store.run(ScheduleList(schedule=limits.queue_name(name)))
        return next((entry for entry in found if entry.schedule.name == name), None)

    async def list(self, *, queue: str | None = None) -> tuple[ScheduleEntry, ...]:
        """Iterate over all schedules by name, or over those that send to one queue."""
        if queue is not None:
            limits.queue_name(queue)
        return await self._store.run(ScheduleList(queue))

    async def next(self, name: str, limit: int = 10) -> tuple[int, ...]:
        """The coming due times of a schedule, in milliseconds since 1970; those due now come first.

        Raises: UsageError if there is no such schedule.
        """
        from turnabout.timing import upcoming

        limits.whole(limit, "limit", 1, limits.PEEK_MESSAGES_MAX)
        entry = await self._need(name)
        if entry.next_at is None:
            return ()
        return tuple(islice(upcoming(entry.schedule, entry.next_at - 1), limit))

    async def delete(self, name: str) -> bool:
        """Remove the schedule; False if there is none. Messages that it has sent stay."""
        return await self._store.run(ScheduleDelete(limits.queue_name(name)))

    async def pause(self, name: str) -> ScheduleEntry:
        """Send nothing until `resume`. Raises: UsageError if there is no such schedule."""
        return await self._change(name, paused=True)

    async def resume(self, name: str) -> ScheduleEntry:
        """Send again; due times that passed since the pause count as missed."""
        return await self._change(name, paused=False)

    async def fire_due(
        self, *, on_error: Callable[[TurnaboutError], object] | None = None
    ) -> tuple[ScheduledMessage, ...]:
        """Send what is due now, of all schedules; returns what this call has sent.

        Workers and receivers do this by themselves, once a second; `turnabout schedule run` does
        it where there are none. However many of them run, each due time is sent once.
        on_error: called with the error of a schedule that could not be fired, such as a missing
                  package; by default the first such error is raised, after all other schedules.
        """
        due = await self._store.run(ScheduleList(due=True))
        sent, errors = await _fire_all(self._store, due)
        for error in errors:
            if on_error is None:
                raise error
            on_error(error)
        return tuple(sent)

    async def _change(self, name: str, *, paused: bool) -> ScheduleEntry:
        entry = await self._need(name)
        if entry.schedule.paused == paused:
            return entry
        changed = replace(entry.schedule, paused=paused)
        return await self._store.run(ScheduleSet(changed, entry.next_at))

    async def _need(self, name: str) -> ScheduleEntry:
        entry = await self.get(name)
        if entry is None:
            raise UsageError(f"there is no schedule {name!r}; `list` tells those that there are")
        return entry


async def fire_when_due(shared: Shared) -> None:
    """Fire what is due, if it is time to look. For receivers, so it hardly ever raises."""
    watch = shared.watch
    if not watch.must_look():
        return
    try:
        due = await shared.store.run(ScheduleList(due=True, limit=SCHEDULES_MAX))
        if watch.is_idle:
            any_there = due or await shared.store.run(ScheduleList(limit=1))
            watch.found(any_there=bool(any_there))
        _, errors = await _fire_all(shared.store, due)
    except (Unavailable, Uncertain):
        return  # the next look will do
    except Forbidden:
        watch.stop_for_a_while()
        return
    if len(due) == SCHEDULES_MAX:
        watch.found(any_there=True, more_due=True)
    if errors and watch.must_complain():
        complain(errors)


async def _fire_all(
    store: AsyncStore, due: Sequence[ScheduleEntry]
) -> tuple[list[ScheduledMessage], list[TurnaboutError]]:
    """The messages sent, and errors of schedules: the others must not wait for those."""
    sent: list[ScheduledMessage] = []
    errors: list[TurnaboutError] = []
    for entry in due:
        try:
            sent += await fire(store, entry)
        except (Forbidden, UsageError) as error:
            errors.append(error)
    return sent, errors


async def fire(
    store: AsyncStore, entry: ScheduleEntry, *, refused: bool = False
) -> list[ScheduledMessage]:
    """Catch up with one schedule, up to a bound. If another process is faster, it goes on."""
    from turnabout.timing import firings

    name = entry.schedule.name
    steps = firings(entry, entry.now, STEPS_MAX)
    verbs = [ScheduleFire(name, step.due_at, step.next_at, step.skip, refused) for step in steps]
    # Most times one is due: then without what a transaction of many costs.
    alone = len(verbs) == 1
    outcomes = [await store.run(verbs[0])] if alone else await store.run_transaction(verbs)
    return [
        ScheduledMessage(name, entry.schedule.queue, step.due_at, outcome.id)
        for step, outcome in zip(steps, outcomes, strict=True)
        if isinstance(outcome, o.Fired) and outcome.id is not None
    ]


def complain(errors: Sequence[TurnaboutError]) -> None:
    import logging

    log = logging.getLogger("turnabout.schedules")
    for error in errors:
        log.warning("a schedule that is due was not fired here: %s", error)
