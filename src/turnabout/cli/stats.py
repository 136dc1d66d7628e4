"""`stats`: counts of all queues, or of one and its busiest channels."""

from __future__ import annotations

from collections.abc import Sequence

import click

from turnabout.cli import _json, _show
from turnabout.cli._app import App
from turnabout.cli._declare import argument, command, option
from turnabout.cli._kinds import QUEUE
from turnabout.words.entities import ChannelStats, QueueStats
from turnabout.words.value import Value

BLOCKED = {
    "paused": "paused",
    "concurrency": "at its max_concurrency",
    "rate": "at its rate",
    "queue_concurrency": "the queue is at its queue_max_concurrency",
    "queue_rate": "the queue is at its queue_rate",
    "fifo": "behind its head (FIFO)",
    "exhausted": "its head has no attempts left: `turnabout retry` or `cancel`",
}


class QueueAndChannels(Value):
    """A queue and its busiest channels."""

    queue: QueueStats
    channels: tuple[ChannelStats, ...]


def queue_name(one: QueueStats) -> str:
    """With a mark if it is paused."""
    return _show.clean(one.queue) + (" (paused)" if one.paused else "")


def leased(one: QueueStats | ChannelStats) -> str:
    """How many, and of how many the lease ran out."""
    return _show.count(one.leased) + (
        f" ({_show.count(one.ran_out)} ran out)" if one.ran_out else ""
    )


def blocked(one: ChannelStats) -> str:
    """The reason that holds it back."""
    return "" if one.blocked is None else BLOCKED[one.blocked]


WAITING: _show.Columns = (
    ("READY", "ready", _show.count),
    ("LEASED", leased, str),
    ("SCHEDULED", "scheduled", _show.count),
    ("OLDEST", "oldest_ready_ms", _show.milliseconds),
)
"""Columns of queues and of channels."""
QUEUES: _show.Columns = (
    ("QUEUE", queue_name, str),
    *WAITING,
    *((s.upper(), s, _show.count) for s in ("sent", "done", "dead", "cancelled", "expired")),
)


def channels_of(channels: Sequence[ChannelStats]) -> _show.Columns:
    """The columns of channels, with bars of what is ready beside the busiest of these."""
    most = max((channel.ready for channel in channels), default=0)
    return (
        ("CHANNEL", "channel", _show.channel),
        ("", "ready", lambda ready: _show.bar(ready / most if most else 0, 8)),
        *WAITING,
        ("HELD", blocked, str),
    )


@command(
    "stats",
    "turnabout stats",
    "turnabout stats emails",
    "turnabout stats --json | jq '.items[] | select(.oldest_ready_seconds > 60)'",
    json=_json.items(QueueStats),
)
@argument("queue", QUEUE, required=False)
@option("-n --channels limit", "At most this many channels.", click.IntRange(1, 1000), 20)
def stats(app: App, queue: str | None, limit: int) -> None:
    """Show what is in the queues, or in QUEUE and its busiest channels.

    sent = scheduled + ready + leased + done + dead + cancelled + expired. With QUEUE, --json
    prints {"queue": {…}, "channels": [{"channel", "scheduled", "ready", "leased",
    "oldest_ready_seconds", "blocked", "ran_out"?}]}.
    """
    with app.open() as turnabout:
        if queue is None:
            app.show(
                turnabout.stats(), QUEUES, "No queues yet: `turnabout send QUEUE …` makes one."
            )
            return
        handle = turnabout.queue(queue)
        counts, channels = handle.stats(), handle.channels(limit)
    text = _show.table(QUEUES, [counts])
    if counts.pause_reason is not None:
        text += f"\npaused: {_show.clean(counts.pause_reason)}"
    if channels:
        text += f"\n\n{_show.table(channels_of(channels), channels)}"
    app.say(QueueAndChannels(counts, tuple(channels)), text)
