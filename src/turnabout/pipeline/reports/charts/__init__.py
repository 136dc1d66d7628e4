"""Charts as inline SVG: bars, lines, bands of quantiles, ranges, heat maps.

Where things lie is worked out here; `charts.svg.j2` draws them. `axes` has scales and round ticks,
`units` says numbers and times in words.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any, Final, Generic, TypeVar

from markupsafe import Markup

from turnabout.pipeline.reports.charts import axes, units
from turnabout.pipeline.reports.charts.axes import Scale
from turnabout.pipeline.reports.templates import render

__all__ = ["Band", "ChartRow", "Series", "bands", "heat_map", "lines", "ranges", "stacks"]

V = TypeVar("V")

WIDTH: Final = 560.0
HEIGHT: Final = 220.0
LEFT: Final = 58.0
RIGHT: Final = 10.0
TOP: Final = 10.0
BOTTOM: Final = 26.0
ROW: Final = 19.0
NAMES: Final = 128.0
KEY: Final = 26.0
CHAR_WIDTH: Final = 7.0
SHADES: Final = 7
SIZES: Final = {
    "width": WIDTH,
    "left": LEFT,
    "right": RIGHT,
    "top": TOP,
    "bottom": BOTTOM,
    "row": ROW,
    "names": NAMES,
    "key": KEY,
}


@dataclass(frozen=True)
class Series:
    """Values by step of time, None where there is none; `kind` is the class that colours it."""

    name: str
    kind: str
    values: Sequence[float | None]


@dataclass(frozen=True)
class Band:
    """Quantiles by step of time, from the lowest on, in milliseconds."""

    names: Sequence[str]
    values: Sequence[Sequence[float] | None]


@dataclass(frozen=True)
class ChartRow(Generic[V]):
    """A row of a chart of ranges: quantiles of one channel, in milliseconds. Or of a heat map: a
    value for each step of time, None where there is none.
    """

    name: str
    values: Sequence[V]


def stacks(title: str, starts: Sequence[int], step_ms: int, series: Sequence[Series]) -> Markup:
    """Bars over time, a part for each series, the first one at the bottom."""
    most = max(sum(s.values[i] or 0 for s in series) for i in range(len(starts)))
    if not most:
        return _drawn("nothing", title, 80)
    x, y = _time(starts, step_ms), axes.linear(most, HEIGHT - BOTTOM, TOP)
    bars: list[tuple[str, float, float, float]] = []
    for i, start in enumerate(starts):
        below = 0.0
        for s in series:
            if (value := s.values[i] or 0) > 0:
                bars.append((s.kind, x.at(start), y.at(below + value), y.at(below)))
                below += value
    texts = [
        [f"{s.name}: {units.count(s.values[i] or 0)}" for s in series if s.values[i]]
        for i in range(len(starts))
    ]
    return _over_time(title, starts, step_ms, _ticks(y, units.short), texts, bars=bars)


def bands(title: str, starts: Sequence[int], step_ms: int, band: Band) -> Markup:
    """Quantiles over time: areas between them, the lowest as a line; logarithmic."""
    known = [values for values in band.values if values is not None]
    if not known:
        return _drawn("nothing", title, 80)
    x = _time(starts, step_ms)
    low, high = min(values[0] for values in known), max(values[-1] for values in known)
    y = axes.durations(low, high, HEIGHT - BOTTOM, TOP)
    paths: list[tuple[str, str]] = []
    for run in _runs(band.values):
        points = [(starts[i] + step_ms / 2, values) for i, values in run]
        if len(run) == 1:  # a step alone has no neighbour to be joined with
            points = [(starts[run[0][0]] + edge, run[0][1]) for edge in (0, step_ms)]
        places = [
            [(x.at(middle), y.at(values[q])) for middle, values in points]
            for q in range(len(band.names))
        ]
        for q in range(len(places) - 1, 0, -1):
            area = [*places[q], *reversed(places[q - 1])]
            paths.append((f"band b{q}", f"{_path(area)}Z"))
        paths += [(f"line l{q}", _path(places[q])) for q in range(len(places) - 1, -1, -1)]
    texts = [_said(band.names, values or ()) for values in band.values]
    return _over_time(title, starts, step_ms, _ticks(y, units.duration), texts, paths=paths)


def lines(title: str, starts: Sequence[int], step_ms: int, series: Sequence[Series]) -> Markup:
    """Values between 0 and 1 over time, a line for each series."""
    if not any(value is not None for s in series for value in s.values):
        return _drawn("nothing", title, 80)
    x = _time(starts, step_ms)
    y = Scale(0.0, 1.0, HEIGHT - BOTTOM, TOP, (0.0, 0.25, 0.5, 0.75, 1.0))
    paths: list[tuple[str, str]] = []
    dots: list[tuple[str, float, float]] = []
    for s in series:
        for run in _runs(s.values):
            points = [(x.at(starts[i] + step_ms / 2), y.at(value)) for i, value in run]
            if len(points) > 1:
                paths.append((f"line {s.kind}", _path(points)))
            if len(starts) <= 60:
                dots += [(s.kind, left, top) for left, top in points]
    texts = [
        [f"{s.name}: {value:.3f}" for s in series if (value := s.values[i]) is not None]
        for i in range(len(starts))
    ]
    return _over_time(title, starts, step_ms, _ticks(y, units.short), texts, paths=paths, dots=dots)


def ranges(title: str, rows: Sequence[ChartRow[float]], names: Sequence[str]) -> Markup:
    """A row each: from the lowest to the highest quantile, thick up to the middle one."""
    if not rows:
        return _drawn("nothing", title, 80)
    low, high = min(row.values[0] for row in rows), max(row.values[-1] for row in rows)
    x = axes.durations(low, high, NAMES, WIDTH - 66)
    drawn = [
        (
            *(row.name, TOP + ROW * (number + 0.5), [x.at(value) for value in row.values]),
            units.duration(row.values[-1]),
            f"{row.name}: {', '.join(_said(names, row.values, ' '))}",
        )
        for number, row in enumerate(rows)
    ]
    ticks = _ticks(x, units.duration)
    return _drawn("ranges", title, TOP + ROW * len(rows) + BOTTOM, ticks=ticks, rows=drawn)


def heat_map(
    title: str, starts: Sequence[int], step_ms: int, rows: Sequence[ChartRow[float | None]]
) -> Markup:
    """A cell for each row and step of time; darker is longer, by its logarithm. Milliseconds."""
    known = [value for row in rows for value in row.values if value is not None]
    if not known:
        return _drawn("nothing", title, 80)
    x = axes.time(starts[0], starts[-1] + step_ms, NAMES, WIDTH - RIGHT, most=5)
    low, high = max(min(known), 1.0), max(*known, 2.0)
    cells: list[tuple[int, float, float, str]] = []
    for number, row in enumerate(rows):
        for start, value in zip(starts, row.values, strict=True):
            if value is not None:
                said = f"{row.name}\n{units.step(start, step_ms)}\n{units.duration(value)}"
                cells.append((_shade(value, low, high), x.at(start), TOP + ROW * number, said))
    return _drawn(
        "heat map",
        title,
        TOP + ROW * len(rows) + BOTTOM + KEY,
        x=x,
        marks=_marks(x),
        width=x.at(starts[0] + step_ms) - x.at(starts[0]),
        names=[(row.name, TOP + ROW * (number + 0.5)) for number, row in enumerate(rows)],
        cells=cells,
        shades=SHADES,
        lowest=units.duration(low),
        highest=units.duration(high),
    )


# --- parts ---------------------------------------------------------------------------------------


def _drawn(kind: str, title: str, height: float, **parts: Any) -> Markup:
    return render("charts.svg.j2", kind=kind, title=title, height=height, s=SIZES, **parts)


def _over_time(
    title: str,
    starts: Sequence[int],
    step_ms: int,
    ticks: Sequence[tuple[float, str]],
    texts: Iterable[Sequence[str]],
    **parts: Any,
) -> Markup:
    """A chart of what happened by step; each step can be pointed at, and says its text then."""
    x = _time(starts, step_ms)
    width = x.at(starts[0] + step_ms) - x.at(starts[0])
    hits = [
        (x.at(start), "\n".join([units.step(start, step_ms), *words]))
        for start, words in zip(starts, texts, strict=True)
        if words
    ]
    more = {"bars": (), "paths": (), "dots": (), **parts, "gap": 1.0 if width > 3 else 0.0}
    axes = {"x": x, "marks": _marks(x), "ticks": ticks}
    return _drawn("over time", title, HEIGHT, hits=hits, width=width, **axes, **more)


def _ticks(scale: Scale, say: Callable[[float], str]) -> list[tuple[float, str]]:
    return [(scale.at(tick), say(tick)) for tick in scale.ticks]


def _said(names: Sequence[str], values: Sequence[float], between: str = ": ") -> list[str]:
    pairs = zip(names, values, strict=bool(values))
    return [f"{name}{between}{units.duration(value)}" for name, value in pairs]


def _path(points: Sequence[tuple[float, float]]) -> str:
    return "M" + " L".join(f"{x:.1f} {y:.1f}" for x, y in points)


def _time(starts: Sequence[int], step_ms: int) -> Scale:
    return axes.time(starts[0], starts[-1] + step_ms, LEFT, WIDTH - RIGHT)


def _marks(x: Scale) -> list[tuple[float, str, str]]:
    """The ticks of a time axis: places, words, and how these stand there; `""`: there is no room.

    The last word may stand before its tick, where the one before it is.
    """
    every = axes.every_of(x)
    words = [(x.at(tick), units.clock(int(tick), every)) for tick in x.ticks]
    marks = [(at, word, "middle") for at, word in words]
    if words and words[-1][0] + _wide(words[-1][1]) / 2 > WIDTH:
        marks[-1] = (*words[-1], "end")
        begins = words[-1][0] - _wide(words[-1][1])
        if len(words) > 1 and begins < words[-2][0] + _wide(words[-2][1]) / 2 + CHAR_WIDTH:
            marks[-2] = (*words[-2], "")
    return marks


def _wide(word: str) -> float:
    """About how wide a word is beside an axis."""
    return len(word) * CHAR_WIDTH


def _shade(value: float, low: float, high: float) -> int:
    if high <= low:
        return 0
    part = math.log(max(value, low) / low) / math.log(high / low)
    return min(int(part * SHADES), SHADES - 1)


def _runs(values: Sequence[V | None]) -> list[list[tuple[int, V]]]:
    """Values that follow one another, with their places; without what is missing between them."""
    found = [(i, value) for i, value in enumerate(values) if value is not None]
    runs = groupby(enumerate(found), lambda pair: pair[1][0] - pair[0])
    return [[one for _, one in run] for _, run in runs]
