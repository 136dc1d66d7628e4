"""Bounds of numbers and lists on the wire.

Most values check themselves when they are made; said here as well, a wrong one is refused with its
place, and the OpenAPI document knows the bounds. Those of verbs are checked nowhere else.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from msgspec import Meta

from turnabout.words import limits
from turnabout.words.prepare import PER_SECOND_MAX
from turnabout.words.schedules import EVERY_MS_MIN
from turnabout.words.verb import IDS
from turnabout.words.verbs import VOCABULARY

_DELAY = Meta(ge=0, le=limits.DELAY_SECONDS_MAX)
_SPAN = Meta(ge=0.001, le=limits.DELAY_SECONDS_MAX)
_LEASE = Meta(ge=0.001, le=limits.LEASE_SECONDS_MAX)
_INSTANT = Meta(ge=0, le=limits.FOREVER_MS)
_PAGE = Meta(ge=1, le=limits.PEEK_MESSAGES_MAX)
_ID = Meta(ge=1, le=limits.ID_MAX)
_WHOLE = Meta(ge=1, le=limits.INTEGER_MAX)
WAIT = Meta(ge=0, le=limits.WAIT_SECONDS_MAX)
"""Bounds of a request's `wait_seconds`."""

RANGES: Mapping[str, Meta] = {
    **{
        f"{kind.__name__}.{field}": Meta(max_length=kind.items.max)
        for kind in VOCABULARY
        if kind.items is not None
        for field in kind.items.fields
    },
    "Outgoing.priority": Meta(ge=limits.PRIORITY_MIN, le=limits.PRIORITY_MAX),
    "Outgoing.delay_ms": _DELAY,
    "Outgoing.due_at": _INSTANT,
    "Outgoing.ttl_ms": _SPAN,
    "Outgoing.dedup_window_ms": _SPAN,
    "Receive.max_messages": Meta(ge=1, le=limits.RECEIVE_MESSAGES_MAX),
    "Receive.lease_ms": _LEASE,
    "Shard.index": Meta(ge=0, le=1_023),
    "Shard.count": Meta(ge=1, le=1_024),
    "Turn.served": Meta(ge=0, le=limits.ID_MAX),
    "Extend.lease_ms": Meta(ge=0, le=limits.LEASE_SECONDS_MAX),
    "Note.progress": Meta(ge=0, le=1),
    "Deferral.delay_ms": _DELAY,
    "Failure.delay_ms": _DELAY,
    "Peek.limit": _PAGE,
    "Peek.after_id": Meta(ge=0, le=limits.ID_MAX),
    "Stats.limit": _PAGE,
    "StatsOfChannels.limit": _PAGE,
    "Fairness.window_ms": _SPAN,
    "Fairness.offset": Meta(ge=0, le=limits.INTEGER_MAX),
    "Fairness.limit": _PAGE,
    "LeasedMessage.id": _ID,
    "LeasedMessage.for_ms": Meta(ge=0),
    "WorkerState.up_ms": Meta(ge=0),
    "WorkerState.concurrency": _WHOLE,
    "WorkerState.handled": Meta(ge=0, le=limits.ID_MAX),
    "WorkerState.failed": Meta(ge=0, le=limits.ID_MAX),
    "History.limit": _PAGE,
    "History.finished_from": _INSTANT,
    "History.finished_until": _INSTANT,
    "Clear.limit": Meta(ge=0, le=limits.ID_MAX),
    "Events.limit": _PAGE,
    "RedriveStart.per_second": Meta(ge=1, le=PER_SECOND_MAX),
    "RedriveStart.max_redrives": Meta(ge=0, le=limits.INTEGER_MAX),
    "RedriveFilter.died_from": _INSTANT,
    "RedriveFilter.died_until": _INSTANT,
    "RedriveStep.id": _ID,
    "RedriveCancel.id": _ID,
    "RedriveList.limit": _PAGE,
    "QueueList.limit": _PAGE,
    "PolicyList.limit": _PAGE,
    "ScheduleList.limit": _PAGE,
    "ScheduleSet.next_at": _INSTANT,
    "ScheduleFire.due_at": _INSTANT,
    "ScheduleFire.next_at": _INSTANT,
    "Schedule.every_ms": Meta(ge=EVERY_MS_MIN / 1000, le=limits.DELAY_SECONDS_MAX),
    "Policy.max_concurrency": _WHOLE,
    "Policy.paused_until": _INSTANT,
    "PolicySet.pause_ms": _DELAY,
    "Policy.max_size": _WHOLE,
    "Policy.weight": Meta(ge=1, le=1_000),
    "Rate.count": Meta(ge=1, le=1_000_000),
    "Rate.per_seconds": Meta(ge=0.001, le=86_400),
    "Rate.burst": Meta(ge=1, le=1_000_000),
    "QueueSettings.max_attempts": _WHOLE,
    "QueueSettings.max_messages": _WHOLE,
    "PollQuery.wait_seconds": WAIT,
}
"""Bounds by class and field; for a duration in `_ms`, in seconds."""

MEMBERS: Mapping[str, Meta] = {
    f"{kind.__name__}.{IDS.field}": _ID for kind in VOCABULARY if kind.items is IDS
}
"""Bounds of the members of a list."""


def _text(value: object) -> str:
    limits.utf8(value, "text")
    assert isinstance(value, str)
    return value


CHECKS: Mapping[str, Callable[[object], Any]] = {
    "queue": limits.queue_name,
    "target": limits.queue_name,
    "schedule": limits.queue_name,
    "channel": limits.channel_name,
    "error": _text,
    "cursor": _text,
    "find": _text,
    "worker": limits.worker_text,
    "after": _text,
}
"""Checks of a verb's fields by name: its class does not make them."""
