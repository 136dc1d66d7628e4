"""What the run prints: the machine, a table per section, and how far it has come."""

from __future__ import annotations

import os
import platform
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from benchmarks.plan import Section
from benchmarks.records import Record

CLEAR_LINE = "\r\x1b[K"


def machine() -> str:
    """Processor, cores, memory, versions, and how busy it is."""
    model = platform.processor() or platform.machine()
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.exists():
        names = [line for line in cpuinfo.read_text().splitlines() if line.startswith("model name")]
        model = names[0].partition(":")[2].strip() if names else model
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    return (
        f"{model}, {os.cpu_count()} cores, {memory:.0f} GiB, {platform.system()},"
        f" Python {platform.python_version()}, load {os.getloadavg()[0]:.1f}"
    )


def table(section: Section, records: Sequence[Record]) -> str:
    """An aligned table with a title."""
    base, ours = section.columns
    head = ["", f"{base}{section.unit}", f"{ours}{section.unit}", "ratio", "by CPU"]
    head += ["CPU µs each: client + server", "target", "", ""]
    rows = [head, *(_cells(record) for record in records)]
    used = [i for i in range(len(head)) if any(row[i] for row in rows[1:])]
    widths = {i: max(len(row[i]) for row in rows) for i in used}
    lines = [
        "  ".join(
            row[i].rjust(widths[i]) if i in (1, 2) else row[i].ljust(widths[i]) for i in used
        ).rstrip()
        for row in rows
    ]
    lines.insert(1, "-" * max(map(len, lines)))
    return "\n".join([f"\n{section.name}: {section.title}", *lines])


def summary(records: Sequence[Record]) -> str:
    """How many targets were reached, and which were not."""
    aimed = [record for record in records if record.verdict]
    others = [record for record in aimed if record.verdict != "reached"]
    lines = [f"\n{len(aimed) - len(others)} of {len(aimed)} targets reached."]
    lines += [
        f"  {r.verdict}: {r.section}, {r.store} {r.case}: {r.figure:.2f}, wanted {r.target}"
        for r in others
    ]
    return "\n".join(lines)


def _cells(record: Record) -> list[str]:
    costs = [record.base_us, record.ours_us]
    return [
        f"{record.store} {record.case}".strip(),
        _figure(record.base),
        _figure(record.ours),
        str(record.ratio or ""),
        "" if record.cpu is None else f"{record.cpu.median:.2f}",
        " → ".join(_cost(*cost) for cost in costs if cost is not None),
        str(record.target or ""),
        record.verdict,
        record.note,
    ]


def _cost(client: float, server: float | None) -> str:
    return _figure(client) if server is None else f"{_figure(client)} + {_figure(server)}"


def _figure(value: float | None) -> str:
    if value is None:
        return ""
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


class Progress:
    """One line on a terminal's error stream; nothing where it is no terminal."""

    def __init__(self) -> None:
        self._begun = time.monotonic()
        self._shown = sys.stderr.isatty()
        self._planned = 0.0
        self._done = 0.0

    def plan(self, seconds: float) -> None:
        """So much more is to be done, by estimate."""
        self._planned += seconds

    def step(self, name: str, done: int, count: int) -> None:
        """A section stands at `done` of `count`."""
        if not self._shown:
            return
        spent = time.monotonic() - self._begun
        pace = spent / self._done if self._done else 1.0
        left = max(self._planned - self._done, 0.0) * pace
        text = f"{name}: {done} of {count}; {_clock(spent)} so far, about {_clock(left)} to go"
        print(CLEAR_LINE + text, end="", file=sys.stderr, flush=True)

    def finished(self, seconds: float) -> None:
        """A cell that was estimated at so much is done."""
        self._done += seconds

    def clear(self) -> None:
        """Make room for a table."""
        if self._shown:
            print(CLEAR_LINE, end="", file=sys.stderr, flush=True)


def _clock(seconds: float) -> str:
    return f"{int(seconds) // 60}:{int(seconds) % 60:02}"
