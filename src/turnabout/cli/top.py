"""`top`: a live table of queues and their busiest channels. Rich is loaded on a terminal only."""

from __future__ import annotations

import itertools
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from turnabout.cli import _show
from turnabout.cli._app import App
from turnabout.cli._declare import argument, command, option
from turnabout.cli._json import lines
from turnabout.cli._kinds import DURATION, QUEUE
from turnabout.cli.stats import WAITING, blocked
from turnabout.words.entities import ChannelStats, QueueStats
from turnabout.words.value import Value

if TYPE_CHECKING:
    from rich.console import RenderableType

    from turnabout import Turnabout

HEADS = ("QUEUE / CHANNEL", "", *(title for title, *_ in WAITING), "SENT/S", "DONE/S", "HELD")
RIGHT = range(2, len(HEADS) - 1)


class TopRow(Value):
    """A queue, how fast it moves, and its busiest channels."""

    queue: QueueStats
    sent_per_second: float | None
    done_per_second: float | None
    channels: tuple[ChannelStats, ...]


class Look(Value):
    """All rows at one time."""

    at: int
    queues: tuple[TopRow, ...]


class TopWatch:
    """Looks at the queues again and again; rates are changes since the last look."""

    def __init__(self, turnabout: Turnabout, queue: str | None, channels: int) -> None:
        self._turnabout = turnabout
        self._queue = queue
        self._channels = channels
        self._before: dict[str, tuple[float, QueueStats]] = {}

    def look(self) -> list[TopRow]:
        """All rows as they are now, the busiest queues first."""
        if self._queue is None:
            counts = self._turnabout.stats()
        else:
            counts = (self._turnabout.queue(self._queue).stats(),)
        rows = [self._row(one) for one in counts]
        return sorted(rows, key=lambda row: -(row.queue.ready + row.queue.leased))

    def _row(self, now: QueueStats) -> TopRow:
        at = time.monotonic()
        then, before = self._before.get(now.queue, (at, now))
        self._before[now.queue] = (at, now)
        passed = at - then
        channels: tuple[ChannelStats, ...] = ()
        if self._channels and now.scheduled + now.ready + now.leased:
            channels = self._turnabout.queue(now.queue).channels(self._channels)
        if not passed:
            return TopRow(now, None, None, channels)
        sent, done = now.sent - before.sent, now.done - before.done
        return TopRow(now, max(0, sent) / passed, max(0, done) / passed, channels)


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
    interval = max(0.1, interval)
    is_live = _show.is_terminal() and not once and not app.as_json
    looks = 1 if once else count or (None if is_live else 1)
    with app.open() as turnabout:
        watch = TopWatch(turnabout, queue, channels)
        if is_live:
            _live(watch, interval, looks, app.place)
        else:
            _plain(app, watch, interval, looks or 1)


def _plain(app: App, watch: TopWatch, interval: float, looks: int) -> None:
    for number in range(looks):
        if number:
            time.sleep(interval)
        rows = watch.look()
        if app.as_json or rows:
            look = Look(round(time.time() * 1000), tuple(rows))
            app.say(look, _show.grid(HEADS, _cells(rows), RIGHT))
        else:
            _show.note("No queues yet.")
        _show.flush()


def _live(watch: TopWatch, interval: float, looks: int | None, place: str) -> None:
    from rich.console import Console, Group
    from rich.live import Live
    from rich.text import Text

    console = Console(highlight=False)
    with Live(console=console, screen=looks is None, auto_refresh=False) as live:
        for number in itertools.count(1):
            clock = time.strftime("%H:%M:%S")
            title = Text(f"{place}   {clock}   every {_show.duration(interval)}   Ctrl-C ends\n")
            live.update(Group(title, _table(watch.look(), console.height - 4)), refresh=True)
            if number == looks:
                return
            try:
                time.sleep(interval)
            except KeyboardInterrupt:
                return


def _table(rows: Sequence[TopRow], height: int) -> RenderableType:
    """The rows as a table of Rich, cut to the height of the screen."""
    from rich.text import Text

    cells = _cells(rows)
    head, *lines = _show.grid(HEADS, cells, RIGHT).splitlines()
    table = Text.from_ansi(head)
    for line, cell in list(zip(lines, cells, strict=True))[: max(1, height)]:
        style = "yellow" if cell[0].startswith(" ") and cell[-1] else ""
        table.append(f"\n{line}", style if cell[0].startswith(" ") else "bold")
    if len(cells) > height:
        hidden = _show.plural(len(cells) - height, "more line")
        table.append(f"\n… {hidden}: name a QUEUE", "dim")
    return table


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
