"""`stats`: counts of queues and their busiest channels; and `top`, which looks again and again."""

from __future__ import annotations

import shutil
import time
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

import click

from turnabout.cli import _show
from turnabout.cli._app import App
from turnabout.cli._declare import argument, command, option
from turnabout.cli._json import items, lines
from turnabout.cli._kinds import DURATION, QUEUE
from turnabout.words.entities import ChannelStats, QueueStats
from turnabout.words.fairness import FairShares
from turnabout.words.value import Value

if TYPE_CHECKING:
    from turnabout import Turnabout

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
    """A queue, its busiest channels, and what each got of the service, the worst off first."""

    queue: QueueStats
    channels: tuple[ChannelStats, ...]
    fairness: FairShares


def queue_name(one: QueueStats) -> str:
    """Show a name, with a mark if it is paused."""
    return _show.clean(one.queue) + (" (paused)" if one.paused else "")


def leased(one: QueueStats | ChannelStats) -> str:
    """Show a count, and how many of the leases ran out."""
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


SHARES: _show.Columns = (
    ("STARVED", "channel", _show.channel),
    ("READY", "ready", _show.count),
    ("OLDEST", "oldest_ready_ms", _show.milliseconds),
    ("WEIGHT", "weight", _show.count),
    ("GOT", "got", _show.count),
    ("FAIR SHARE", "fair", lambda fair: _show.count(round(fair or 0))),
)


def fairness(shares: FairShares) -> str:
    """The verdict, and the starved channels."""
    well, text = shares.verdict()
    starved = [one for one in shares.channels if one.starved]
    table = f"\n\n{_show.table(SHARES, starved)}" if starved else ""
    return ("" if well else _show.bad("! ")) + text + table


@command(
    "stats",
    "turnabout stats",
    "turnabout stats emails",
    "turnabout stats --json | jq '.items[] | select(.oldest_ready_seconds > 60)'",
    json=items(QueueStats),
)
@argument("queue", QUEUE, required=False)
@option("-n --channels limit", "At most this many channels.", click.IntRange(1, 1000), 20)
def stats(app: App, queue: str | None, limit: int) -> None:
    """Show what is in the queues, or in QUEUE and its busiest channels.

    sent = scheduled + ready + leased + done + dead + cancelled + expired. With QUEUE, it says
    whether a channel is starved: got less than its fair share of the last five minutes, and no
    limit of its own holds it. --json then prints {"queue": {…}, "channels": [{"channel",
    "scheduled", "ready", "leased", "oldest_ready_seconds", "blocked", "ran_out"?}], "fairness"}.
    """
    with app.open() as turnabout:
        if queue is None:
            app.show(
                turnabout.stats(), QUEUES, "No queues yet: `turnabout send QUEUE …` makes one."
            )
            return
        handle = turnabout.queue(queue)
        counts, channels, shares = handle.stats(), handle.channels(limit), handle.fairness(limit)
    text = _show.table(QUEUES, [counts])
    if counts.pause_reason is not None:
        text += f"\npaused: {_show.clean(counts.pause_reason)}"
    if channels:
        text += f"\n\n{_show.table(channels_of(channels), channels)}"
        text += f"\n\n{fairness(shares)}"
    app.say(QueueAndChannels(counts, tuple(channels), shares), text)


# --- top ------------------------------------------------------------------------------------------

HEADS = ("QUEUE / CHANNEL", "", *(title for title, *_ in WAITING), "SENT/S", "DONE/S", "HELD")
RIGHT = range(2, len(HEADS) - 1)


class TopRow(Value):
    """A queue, how fast it moves, and its busiest channels."""

    queue: QueueStats
    sent_per_second: float | None
    done_per_second: float | None
    channels: tuple[ChannelStats, ...]


class Look(Value):
    """Rows of one moment."""

    at: int
    queues: tuple[TopRow, ...]


def looks(turnabout: Turnabout, queue: str | None, limit: int) -> Iterator[list[TopRow]]:
    """Look at the queues again and again: the busiest first, each with at most `limit` channels.
    Rates are changes since the last look.
    """
    last: dict[str, tuple[float, QueueStats]] = {}
    while True:
        rows: list[TopRow] = []
        for now in turnabout.stats() if queue is None else [turnabout.queue(queue).stats()]:
            at = time.monotonic()
            then, before = last.get(now.queue, (at, now))
            last[now.queue] = (at, now)
            sent = _per_second(now.sent - before.sent, at - then)
            done = _per_second(now.done - before.done, at - then)
            has_channels = limit and now.scheduled + now.ready + now.leased
            channels = turnabout.queue(now.queue).channels(limit) if has_channels else ()
            rows.append(TopRow(now, sent, done, channels))
        yield sorted(rows, key=lambda row: -(row.queue.ready + row.queue.leased))


def _per_second(messages: int, seconds: float) -> float | None:
    """The rate; None at a first look. Not below 0: a queue may be deleted and made again."""
    return max(0, messages) / seconds if seconds else None


@command(
    "top",
    "turnabout top",
    "turnabout top emails -n 20 --interval 1s",
    "turnabout top --once",
    "turnabout top --json --count 60 --interval 10s > load.jsonl",
    json=lines(Look),
)
@argument("queue", QUEUE, required=False)
@option("-n --channels", "Channels of each queue. [default: 5; of one queue, 20]",
        click.IntRange(0, 1000))  # fmt: skip
@option("--interval", "Time between two looks.", DURATION, "2s")
@option("--count", "End after this many looks.", click.IntRange(1))
@option("--once", "One look, as plain text.", bool)
def top(
    app: App,
    queue: str | None,
    channels: int | None,
    interval: float,
    count: int | None,
    once: bool,
) -> None:
    """Watch all queues, or QUEUE, and their busiest channels. Ctrl-C ends.

    It shows what is ready, leased and scheduled, how old the oldest ready message is, how fast it
    moves, and what holds a channel back. Where the output is not a terminal there is one look,
    unless --count says more.
    """
    if channels is None:
        channels = 5 if queue is None else 20
    is_live = _show.is_terminal() and not once and not app.as_json
    most = 1 if once else count or (None if is_live else 1)
    with app.open() as turnabout, _screen(is_live and most is None):
        for number, rows in enumerate(looks(turnabout, queue, channels), 1):
            if is_live:
                _show.out(_picture(app.place, interval, rows))
            elif app.as_json or rows:
                look = Look(round(time.time() * 1000), tuple(rows))
                app.say(look, _show.grid(HEADS, _cells(rows), RIGHT))
            else:
                _show.note("No queues yet.")
            _show.flush()
            if number == most:
                return
            time.sleep(max(0.1, interval))


@contextmanager
def _screen(is_live: bool) -> Generator[None]:
    """The terminal's other screen, until Ctrl-C; what stood there before comes back."""
    if not is_live:
        yield
        return
    click.echo("\x1b[?1049h", nl=False)
    try:
        yield
    except KeyboardInterrupt:
        pass
    finally:
        click.echo("\x1b[?1049l", nl=False)


def _picture(place: str, interval: float, rows: Sequence[TopRow]) -> str:
    """A cleared screen with the rows, as many as it has lines for."""
    head, *lines = _show.grid(HEADS, _cells(rows), RIGHT).splitlines()
    height = max(1, shutil.get_terminal_size().lines - 5)
    every = f"every {_show.duration(interval)}   Ctrl-C ends"
    screen = [f"\x1b[H\x1b[J{place}   {time.strftime('%H:%M:%S')}   {every}", "", head]
    screen += [line if line.startswith(" ") else _show.bold(line) for line in lines[:height]]
    if len(lines) > height:
        more = _show.plural(len(lines) - height, "more line")
        screen.append(_show.dim(f"… {more}: name a QUEUE"))
    return "\n".join(screen)


def _cells(rows: Sequence[TopRow]) -> list[list[str]]:
    lines: list[list[str]] = []
    most_of_all = max((row.queue.ready for row in rows), default=0)
    for row in rows:
        rates = [_rate(row.sent_per_second), _rate(row.done_per_second)]
        held = "paused" if row.queue.paused else ""
        lines.append([_show.clean(row.queue.queue), *_counts(row.queue, most_of_all), *rates, held])
        most = max((channel.ready for channel in row.channels), default=0)
        lines += [
            [f"  {_show.channel(one.channel)}", *_counts(one, most), "", "", blocked(one)]
            for one in row.channels
        ]
    return lines


def _counts(what: QueueStats | ChannelStats, most: int) -> list[str]:
    cells = [_show.cell(what, of, how) for _, of, how in WAITING]
    return [_show.bar(what.ready / most if most else 0), *cells]


def _rate(rate: float | None) -> str:
    return "–" if rate is None else _show.count(round(rate, 1))
