"""`stats`: counts of all queues, or of one and its busiest channels."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

import click

from turnabout.cli import _show
from turnabout.cli._app import App, command, pass_app
from turnabout.cli._kinds import QUEUE
from turnabout.words.entities import ChannelStats, QueueStats

BLOCKED = {
    "paused": "paused",
    "concurrency": "at its max_concurrency",
    "rate": "at its rate",
    "fifo": "behind its head (FIFO)",
    "exhausted": "its head has no attempts left: `turnabout retry` or `cancel`",
}
CHANNEL_SHAPE = '{"channel", "scheduled", "ready", "leased", "oldest_ready_ms", "blocked"}'
QUEUE_SHAPE = (
    '{"queue", "scheduled", "ready", "leased", "sent", "done", "dead", "cancelled",\n'
    '  "expired", "oldest_ready_ms", "paused", "pause_reason"}'
)


@command(
    "stats",
    short_help="Counts of all queues, or of one and its channels.",
    examples=[
        "turnabout stats",
        "turnabout stats emails",
        "turnabout stats --json | jq '.queues[] | select(.oldest_ready_ms > 60000)'",
    ],
    json_form=f'{{"queues": [{QUEUE_SHAPE}]}}\n'
    f'with QUEUE, the queue also has "channels":\n  [{CHANNEL_SHAPE}]',
)
@click.argument("queue", type=QUEUE, required=False)
@click.option(
    "-n", "--channels", "limit", type=click.IntRange(1, 1000), default=20, show_default=True,
    help="How many channels at most.",
)  # fmt: skip
@pass_app
def stats(app: App, queue: str | None, limit: int) -> None:
    """Show what is in the queues, or in QUEUE and its busiest channels.

    sent = scheduled + ready + leased + done + dead + cancelled + expired.
    """
    with app.open() as turnabout:
        if queue is None:
            _show_queues(app, turnabout.stats())
            return
        handle = turnabout.queue(queue)
        counts, channels = handle.stats(), handle.channels(limit)
    if app.as_json:
        channels_json = [asdict(channel) for channel in channels]
        app.document({"queues": [asdict(counts) | {"channels": channels_json}]})
        return
    _show.out(queue_table([counts]))
    if counts.pause_reason is not None:
        _show.out(f"paused: {_show.clean(counts.pause_reason)}")
    if channels:
        _show.out("")
        _show.out(channel_table(channels))


def _show_queues(app: App, counts: Sequence[QueueStats]) -> None:
    if app.as_json:
        app.document({"queues": [asdict(one) for one in counts]})
    elif counts:
        _show.out(queue_table(counts))
    else:
        _show.note("No queues yet: `turnabout send QUEUE …` makes one.")


def queue_table(counts: Sequence[QueueStats]) -> str:
    """Queues as aligned lines."""
    heads = (
        "QUEUE", "READY", "LEASED", "SCHEDULED", "OLDEST",
        "SENT", "DONE", "DEAD", "CANCELLED", "EXPIRED",
    )  # fmt: skip
    rows: list[list[str]] = []
    for one in counts:
        numbers = [one.sent, one.done, one.dead, one.cancelled, one.expired]
        rows.append(
            [
                _show.clean(one.queue) + (" (paused)" if one.paused else ""),
                *(_show.count(n) for n in (one.ready, one.leased, one.scheduled)),
                _show.milliseconds(one.oldest_ready_ms),
                *(_show.count(n) for n in numbers),
            ]
        )
    return _show.table(heads, rows)


def channel_table(channels: Sequence[ChannelStats]) -> str:
    """Channels as aligned lines, with bars of what is ready and why it waits."""
    most = max((channel.ready for channel in channels), default=0)
    heads = ("CHANNEL", "", "READY", "LEASED", "SCHEDULED", "OLDEST", "HELD")
    return _show.table(heads, [_channel_row(channel, most) for channel in channels], left=2)


def _channel_row(channel: ChannelStats, most: int) -> list[Any]:
    return [
        _show.channel(channel.channel),
        _show.bar(channel.ready / most if most else 0, 8),
        *(_show.count(n) for n in (channel.ready, channel.leased, channel.scheduled)),
        _show.milliseconds(channel.oldest_ready_ms),
        "" if channel.blocked is None else BLOCKED[channel.blocked],
    ]
