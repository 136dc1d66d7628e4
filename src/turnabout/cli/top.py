"""`top`: a live table of queues and their busiest channels. Rich is loaded on a terminal only."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import click

from turnabout.cli import _show
from turnabout.cli._app import App, command, pass_app
from turnabout.cli._kinds import DURATION, QUEUE
from turnabout.cli.stats import BLOCKED
from turnabout.words.entities import ChannelStats, QueueStats

if TYPE_CHECKING:
    from rich.console import RenderableType

    from turnabout import Turnabout

HEADS = (
    "QUEUE / CHANNEL", "", "READY", "LEASED", "SCHEDULED", "OLDEST", "SENT/S", "DONE/S", "HELD",
)  # fmt: skip
LEFT = 2


@dataclass(frozen=True, slots=True)
class Row:
    """A queue, how fast it moves, and its busiest channels."""

    queue: QueueStats
    sent_per_second: float | None
    done_per_second: float | None
    channels: tuple[ChannelStats, ...]


class Watch:
    """Looks at the queues again and again; rates are changes since the last look."""

    def __init__(self, turnabout: Turnabout, queue: str | None, channels: int) -> None:
        self._turnabout = turnabout
        self._queue = queue
        self._channels = channels
        self._before: dict[str, tuple[float, QueueStats]] = {}

    def look(self) -> list[Row]:
        """All rows as they are now, the busiest queues first."""
        if self._queue is None:
            counts = self._turnabout.stats()
        else:
            counts = (self._turnabout.queue(self._queue).stats(),)
        rows = [self._row(one) for one in counts]
        return sorted(rows, key=lambda row: -(row.queue.ready + row.queue.leased))

    def _row(self, now: QueueStats) -> Row:
        at = time.monotonic()
        then, before = self._before.get(now.queue, (at, now))
        self._before[now.queue] = (at, now)
        passed = at - then
        channels: tuple[ChannelStats, ...] = ()
        if self._channels and now.scheduled + now.ready + now.leased:
            channels = self._turnabout.queue(now.queue).channels(self._channels)
        if not passed:
            return Row(now, None, None, channels)
        sent, done = now.sent - before.sent, now.done - before.done
        return Row(now, max(0, sent) / passed, max(0, done) / passed, channels)


@command(
    "top",
    short_help="A live table of queues and their busiest channels.",
    examples=[
        "turnabout top",
        "turnabout top emails -n 20 --interval 1s",
        "turnabout top --once",
        "turnabout top --json --count 60 --interval 10s > load.jsonl",
    ],
    json_form='one line for each look: {"at", "queues": [{"queue", …, "sent_per_second",\n'
    '  "done_per_second", "channels": [{"channel", …}]}]}; the rest as in `turnabout stats`',
)
@click.argument("queue", type=QUEUE, required=False)
@click.option(
    "-n", "--channels", type=click.IntRange(0, 1000), help="Channels of each queue. [default: 5, "
    "or 20 for one queue]",
)  # fmt: skip
@click.option(
    "--interval", type=DURATION, default="2s", show_default=True, help="Time between two looks."
)
@click.option("--count", type=click.IntRange(1), help="End after so many looks.")
@click.option("--once", is_flag=True, help="One look, as plain text.")
@pass_app
def top(
    app: App,
    queue: str | None,
    channels: int | None,
    interval: float,
    count: int | None,
    once: bool,
) -> None:
    """Watch all queues, or QUEUE: what is ready, leased and scheduled, how old the oldest ready
    message is, how fast it moves, and what holds a channel back. Ctrl-C ends.

    Where the output is not a terminal there is one look, unless --count says more.
    """
    if channels is None:
        channels = 5 if queue is None else 20
    interval = max(0.1, interval)
    is_live = _show.is_terminal() and not once and not app.as_json
    looks = 1 if once else count or (None if is_live else 1)
    with app.open() as turnabout:
        watch = Watch(turnabout, queue, channels)
        if is_live:
            _live(watch, interval, looks, app.place)
        else:
            _plain(app, watch, interval, looks or 1)


def _plain(app: App, watch: Watch, interval: float, looks: int) -> None:
    for number in range(looks):
        if number:
            time.sleep(interval)
        rows = watch.look()
        if app.as_json:
            app.document({"at": round(time.time() * 1000), "queues": [_row_json(r) for r in rows]})
        elif rows:
            _show.out(_show.table(HEADS, _cells(rows), left=LEFT))
        else:
            _show.note("No queues yet.")
        _show.flush()


def _live(watch: Watch, interval: float, looks: int | None, place: str) -> None:
    from rich.console import Console, Group
    from rich.live import Live
    from rich.text import Text

    console = Console(highlight=False)
    number = 0
    with Live(console=console, screen=looks is None, auto_refresh=False) as live:
        while True:
            number += 1
            clock = time.strftime("%H:%M:%S")
            title = Text(f"{place}   {clock}   every {_show.duration(interval)}   Ctrl-C ends\n")
            live.update(Group(title, _table(watch.look(), console.height - 4)), refresh=True)
            if number == looks:
                return
            try:
                time.sleep(interval)
            except KeyboardInterrupt:
                return


def _table(rows: Sequence[Row], height: int) -> RenderableType:
    """The rows as a table of Rich, cut to the height of the screen."""
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    for i, head in enumerate(HEADS):
        table.add_column(head, justify="left" if i < LEFT or head == "HELD" else "right")
    cells = _cells(rows)
    for line in cells[: max(1, height)]:
        is_queue = not line[0].startswith(" ")
        style = "bold" if is_queue else "yellow" if line[-1] else ""
        table.add_row(*(Text(cell, style=style) for cell in line))
    if len(cells) > height:
        table.add_row(
            Text(f"… {_show.plural(len(cells) - height, 'more line')}: name a QUEUE", style="dim")
        )
    return table


def _cells(rows: Sequence[Row]) -> list[list[str]]:
    lines: list[list[str]] = []
    most_of_all = max((row.queue.ready for row in rows), default=0)
    for row in rows:
        queue = row.queue
        lines.append(
            [
                _show.clean(queue.queue),
                _show.bar(queue.ready / most_of_all if most_of_all else 0),
                *_counts(queue),
                _rate(row.sent_per_second),
                _rate(row.done_per_second),
                "paused" if queue.paused else "",
            ]
        )
        most = max((channel.ready for channel in row.channels), default=0)
        for channel in row.channels:
            lines.append(  # noqa: PERF401  (a nested comprehension would hide the order)
                [
                    f"  {_show.channel(channel.channel)}",
                    _show.bar(channel.ready / most if most else 0),
                    *_counts(channel),
                    "",
                    "",
                    "" if channel.blocked is None else BLOCKED[channel.blocked],
                ]
            )
    return lines


def _counts(what: QueueStats | ChannelStats) -> list[str]:
    counts = [_show.count(n) for n in (what.ready, what.leased, what.scheduled)]
    return [*counts, _show.milliseconds(what.oldest_ready_ms)]


def _rate(rate: float | None) -> str:
    return "–" if rate is None else _show.count(round(rate, 1))


def _row_json(row: Row) -> dict[str, Any]:
    return asdict(row.queue) | {
        "sent_per_second": row.sent_per_second,
        "done_per_second": row.done_per_second,
        "channels": [asdict(channel) for channel in row.channels],
    }
