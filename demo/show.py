"""How the demo looks: a live picture on a terminal, a line now and then in a log.

The last words, the table and the verdict, are the same in both.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from rich import box
from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from demo.ledger import DemoLedger
from demo.recording import Recording
from demo.verdict import Verdict

LOG_SECONDS = 2.0


@dataclass(frozen=True, slots=True)
class Scene:
    """The picture at one moment of the work."""

    title: str
    done: int
    total: int
    seconds: float
    carriers: Mapping[str, tuple[int, int]]
    """Done and total of each carrier, the biggest first."""
    redelivered: int = 0
    share: float | None = None

    @property
    def rate(self) -> float:
        """Flights a second, so far."""
        return self.done / self.seconds if self.seconds > 0 else 0.0

    @property
    def line(self) -> str:
        """The moment in one line."""
        parts = [
            f"{self.title}: {self.done:,} of {self.total:,}",
            f"{self.rate:,.0f}/s",
            f"{self.seconds:.1f} s",
        ]
        if self.share is not None:
            parts.append(f"least share {self.share:.0%}")
        if self.redelivered:
            parts.append(f"{self.redelivered:,} handed out again")
        return " · ".join(parts)


class Show:
    """Shows steps and scenes. Use it in a `with` block, so that the cursor comes back."""

    def __init__(self, console: Console, *, live: bool = False, record: Path | None = None) -> None:
        self.console = console
        self._recording = None if record is None else Recording(record)
        self._live: Live | None = None
        if live:
            self._live = Live(console=console, auto_refresh=False, transient=True)
        self._shown_at = time.monotonic()

    def __enter__(self) -> Self:
        if self._live is not None:
            self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._live is not None:
            self._live.stop()
        if self._recording is not None:
            self._recording.save()

    def step(self, text: str) -> None:
        """Something that stays to be read."""
        self._print(Text(text), soft_wrap=not self.console.is_terminal)
        self._shown_at = time.monotonic()

    def scene(self, scene: Scene) -> None:
        """How it stands. A log gets this every few seconds."""
        if self._recording is not None:
            self._recording.scene(_picture(scene))
        if self._live is not None:
            self._live.update(_picture(scene), refresh=True)
        elif time.monotonic() - self._shown_at >= LOG_SECONDS:
            self._shown_at = time.monotonic()
            self.console.print(Text(f"  {scene.line}"), soft_wrap=True)

    def end(self, verdict: Verdict, ledger: DemoLedger) -> None:
        """The last words: the same on a terminal and in a log."""
        if self._live is not None:
            self._live.stop()
        self._print(_table(verdict, ledger))
        wide = not self.console.is_terminal  # a log's lines are as long as they are
        self._print(Text(LEGEND, style="dim"))
        self._print(_words(verdict), soft_wrap=wide)

    def _print(self, what: RenderableType, *, soft_wrap: bool = False) -> None:
        self.console.print(what, soft_wrap=soft_wrap)
        if self._recording is not None:
            self._recording.line(what)


def _picture(scene: Scene) -> RenderableType:
    table = Table(box=None, padding=(0, 1), show_header=False, expand=True)
    table.add_column(no_wrap=True)
    table.add_column(ratio=1)
    table.add_column(justify="right", no_wrap=True)
    for name, (done, total) in {"all": (scene.done, scene.total), **scene.carriers}.items():
        is_through = done >= total
        table.add_row(
            Text(name, style="green" if is_through else ""),
            ProgressBar(total=max(total, 1), completed=done),
            Text("through" if is_through else f"{done:,} of {total:,}"),
        )
    return Group(Text(scene.line, style="bold"), table)


def _table(verdict: Verdict, ledger: DemoLedger) -> Table:
    """How each carrier was served, and what the work found out about it."""
    sums: dict[str, list[float]] = {}
    for row, (speed, late) in ledger.results.items():
        entry = sums.setdefault(ledger.carrier_of(row), [0.0, 0, 0.0, 0])
        if speed is not None:
            entry[0] += speed
            entry[1] += 1
        if late is not None:
            entry[2] += late
            entry[3] += 1
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0))
    for heading in ("carrier", "flights", "first", "last", "place", "ideal", "FIFO"):
        table.add_column(heading, justify="left" if heading == "carrier" else "right", no_wrap=True)
    for heading in ("late min", "km/h"):
        table.add_column(heading, justify="right", no_wrap=True)
    in_a_row = 0
    for service in verdict.services:
        in_a_row += service.flights
        speed, fast, late, flown = sums.get(service.carrier, [0.0, 0, 0.0, 0])
        table.add_row(
            service.carrier,
            f"{service.flights:,}",
            f"{service.first_seconds:.2f} s",
            f"{service.last_seconds:.2f} s",
            f"{service.last_place:,}",
            f"{service.fair_place:,}",
            f"{in_a_row:,}",
            f"{late / flown:.0f}" if flown else "-",
            f"{speed / fast:.0f}" if fast else "-",
        )
    return table


LEGEND = (
    "first, last: seconds until the carrier's first and last flight was handed out. place: how "
    "many flights of all carriers had been handed out by then; ideal: dealt in perfect turn; "
    "FIFO: in a queue without channels. late min, km/h: what the work found out."
)


def _words(verdict: Verdict) -> Text:
    """The verdict, a line for each check."""
    text = Text("\n")
    for check in verdict.checks:
        text.append(" ok  " if check.good else " NO  ", style="green" if check.good else "bold red")
        text.append(f"{check.text}\n")
    text.append(
        "Verdict: every promise was kept." if verdict.good else "Verdict: a promise was broken.",
        style="bold green" if verdict.good else "bold red",
    )
    return text
