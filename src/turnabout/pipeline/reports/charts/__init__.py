"""Charts as inline SVG: bars, lines, bands of quantiles, ranges, heat maps. No libraries.

They have classes and no colours: the page's style sheet gives those, for light, dark and paper.
Each part that can be pointed at has a title. `svg` makes elements, `axes` has scales and round
ticks, `units` says numbers and times in words.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import inf
from typing import Final, Generic, TypeVar

from turnabout.pipeline.reports.charts import axes, units
from turnabout.pipeline.reports.charts.axes import Scale
from turnabout.pipeline.reports.charts.svg import Svg, path, tag

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
NAME_CHARS: Final = 17
CHAR_WIDTH: Final = 7.0
SHADES: Final = 7
NOTHING: Final = "Nothing to show."


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


def stacks(title: str, starts: Sequence[int], step_ms: int, series: Sequence[Series]) -> Svg:
    """Bars over time, a part for each series, the first one at the bottom."""
    sums = [sum(s.values[i] or 0 for s in series) for i in range(len(starts))]
    if not any(sums):
        return _nothing(title)
    x, y = _time(starts, step_ms), axes.linear(max(sums), HEIGHT - BOTTOM, TOP)
    parts = [_value_axis(y, units.short), _time_axis(x, HEIGHT)]
    width = x.at(starts[0] + step_ms) - x.at(starts[0])
    gap = 1.0 if width > 3 else 0.0
    for i, start in enumerate(starts):
        below = 0.0
        for s in series:
            value = s.values[i] or 0
            if value <= 0:
                continue
            bottom, top = y.at(below), y.at(below + value)
            parts.append(
                tag(
                    "rect",
                    class_=s.kind,
                    x=x.at(start) + gap / 2,
                    y=top,
                    width=max(width - gap, 0.6),
                    # What is there is seen, however little.
                    height=max(bottom - top, 0.7),
                )
            )
            below += value
    texts = [
        [f"{s.name}: {units.count(s.values[i] or 0)}" for s in series if s.values[i]]
        for i in range(len(starts))
    ]
    parts += _hits(x, starts, step_ms, texts)
    return _chart(title, HEIGHT, parts)


def bands(title: str, starts: Sequence[int], step_ms: int, band: Band) -> Svg:
    """Quantiles over time: areas between them, the lowest as a line; logarithmic."""
    known = [values for values in band.values if values is not None]
    if not known:
        return _nothing(title)
    x = _time(starts, step_ms)
    low, high = min(values[0] for values in known), max(values[-1] for values in known)
    y = axes.durations(low, high, HEIGHT - BOTTOM, TOP)
    parts = [_value_axis(y, units.duration), _time_axis(x, HEIGHT)]
    half = step_ms / 2
    for run in _runs(band.values):
        points = [(starts[i] + half, _of(band.values, i)) for i in run]
        if len(run) == 1:  # a step alone has no neighbour to be joined with
            points = [(starts[run[0]] + edge, points[0][1]) for edge in (0, step_ms)]
        places = [
            [(x.at(middle), y.at(values[q])) for middle, values in points]
            for q in range(len(band.names))
        ]
        for q in range(len(places) - 1, 0, -1):
            area = [*places[q], *reversed(places[q - 1])]
            parts.append(tag("path", class_=f"band b{q}", d=path(area, closed=True)))
        parts += [
            tag("path", class_=f"line l{q}", d=path(places[q]))
            for q in range(len(places) - 1, -1, -1)
        ]
    texts = [
        []
        if values is None
        else [
            f"{name}: {units.duration(value)}"
            for name, value in zip(band.names, values, strict=True)
        ]
        for values in band.values
    ]
    parts += _hits(x, starts, step_ms, texts)
    return _chart(title, HEIGHT, parts)


def lines(title: str, starts: Sequence[int], step_ms: int, series: Sequence[Series]) -> Svg:
    """Values between 0 and 1 over time, a line for each series."""
    if not any(value is not None for s in series for value in s.values):
        return _nothing(title)
    x = _time(starts, step_ms)
    y = Scale(0.0, 1.0, HEIGHT - BOTTOM, TOP, (0.0, 0.25, 0.5, 0.75, 1.0))
    parts = [_value_axis(y, units.short), _time_axis(x, HEIGHT)]
    for s in series:
        for run in _runs(s.values):
            points = [(x.at(starts[i] + step_ms / 2), y.at(s.values[i] or 0.0)) for i in run]
            if len(points) > 1:
                parts.append(tag("path", class_=f"line {s.kind}", d=path(points)))
            if len(starts) <= 60:
                parts += [
                    tag("circle", class_=f"dot {s.kind}", cx=px, cy=py, r=2.5) for px, py in points
                ]
    texts = [
        [f"{s.name}: {value:.3f}" for s in series if (value := s.values[i]) is not None]
        for i in range(len(starts))
    ]
    parts += _hits(x, starts, step_ms, texts)
    return _chart(title, HEIGHT, parts)


def ranges(title: str, rows: Sequence[ChartRow[float]], names: Sequence[str]) -> Svg:
    """A row each: from the lowest to the highest quantile, thick up to the middle one."""
    if not rows:
        return _nothing(title)
    height = TOP + ROW * len(rows) + BOTTOM
    low, high = min(row.values[0] for row in rows), max(row.values[-1] for row in rows)
    x = axes.durations(low, high, NAMES, WIDTH - 66)
    parts = [_across(x, height)]
    for number, row in enumerate(rows):
        middle = TOP + ROW * (number + 0.5)
        places = [x.at(value) for value in row.values]
        said = ", ".join(
            f"{name} {units.duration(value)}" for name, value in zip(names, row.values, strict=True)
        )
        parts += [
            _name(row.name, middle),
            tag("line", class_="far", x1=places[0], x2=places[-1], y1=middle, y2=middle),
            tag("line", class_="near", x1=places[0], x2=places[1], y1=middle, y2=middle),
            tag("circle", class_="dot mid", cx=places[0], cy=middle, r=4),
            tag("circle", class_="dot end", cx=places[-1], cy=middle, r=3),
            tag("text", units.duration(row.values[-1]), class_="value", x=WIDTH - 58, y=middle + 4),
            _hit(0, middle - ROW / 2, WIDTH, ROW, f"{row.name}: {said}"),
        ]
    return _chart(title, height, parts)


def heat_map(
    title: str, starts: Sequence[int], step_ms: int, rows: Sequence[ChartRow[float | None]]
) -> Svg:
    """A cell for each row and step of time; darker is longer, by its logarithm. Milliseconds."""
    known = [value for row in rows for value in row.values if value is not None]
    if not known:
        return _nothing(title)
    height = TOP + ROW * len(rows) + BOTTOM + 26
    x = axes.time(starts[0], starts[-1] + step_ms, NAMES, WIDTH - RIGHT, most=5)
    low, high = max(min(known), 1.0), max(*known, 2.0)
    width = x.at(starts[0] + step_ms) - x.at(starts[0])
    parts: list[Svg] = []
    for number, row in enumerate(rows):
        top = TOP + ROW * number
        parts.append(_name(row.name, top + ROW / 2))
        for start, value in zip(starts, row.values, strict=True):
            if value is None:
                continue
            said = f"{row.name}\n{units.step(start, step_ms)}\n{units.duration(value)}"
            parts.append(
                tag(
                    "rect",
                    tag("title", said),
                    class_=f"cell h{_shade(value, low, high)}",
                    x=x.at(start) + 0.5,
                    y=top + 0.5,
                    width=max(width - 1, 0.8),
                    height=ROW - 1,
                )
            )
    bottom = TOP + ROW * len(rows)
    parts += [_time_axis(x, bottom + BOTTOM), _key(low, high, bottom + BOTTOM + 8)]
    return _chart(title, height, parts)


# --- parts ---------------------------------------------------------------------------------------


def _chart(title: str, height: float, parts: Sequence[Svg]) -> Svg:
    return tag(
        "svg",
        *parts,
        class_="chart",
        viewBox=f"0 0 {WIDTH:.0f} {height:.0f}",
        role="img",
        aria_label=title,
    )


def _nothing(title: str) -> Svg:
    text = tag("text", NOTHING, class_="none", x=WIDTH / 2, y=40, text_anchor="middle")
    return _chart(title, 80, [text])


def _time(starts: Sequence[int], step_ms: int) -> Scale:
    return axes.time(starts[0], starts[-1] + step_ms, LEFT, WIDTH - RIGHT)


def _time_axis(x: Scale, height: float) -> Svg:
    base = height - BOTTOM
    every = axes.every_of(x)
    parts = [tag("line", class_="axis", x1=x.start, x2=x.end, y1=base, y2=base)]
    words = [(x.at(tick), units.clock(int(tick), every)) for tick in x.ticks]
    ends = words[-1][0] if words and words[-1][0] + _wide(words[-1][1]) / 2 > WIDTH else inf
    for at, word in words:
        parts.append(tag("line", class_="tick", x1=at, x2=at, y1=base, y2=base + 4))
        anchor = "end" if at == ends else "middle"
        # The last one may stand before its tick, where the one before it is.
        if [at, ends] == [place for place, _ in words[-2:]] and (
            ends - _wide(words[-1][1]) < at + _wide(word) / 2 + CHAR_WIDTH
        ):
            continue
        parts.append(tag("text", word, x=at, y=base + 18, text_anchor=anchor))
    return tag("g", *parts)


def _wide(word: str) -> float:
    """About how wide a word is beside an axis."""
    return len(word) * CHAR_WIDTH


def _value_axis(y: Scale, say: Callable[[float], str]) -> Svg:
    parts: list[Svg] = []
    for tick in y.ticks:
        at = y.at(tick)
        parts += [
            tag("line", class_="grid", x1=LEFT, x2=WIDTH - RIGHT, y1=at, y2=at),
            tag("text", say(tick), x=LEFT - 7, y=at + 4, text_anchor="end"),
        ]
    return tag("g", *parts)


def _across(x: Scale, height: float) -> Svg:
    base = height - BOTTOM
    parts: list[Svg] = []
    for tick in x.ticks:
        at = x.at(tick)
        parts += [
            tag("line", class_="grid", x1=at, x2=at, y1=TOP, y2=base),
            tag("text", units.duration(tick), x=at, y=base + 18, text_anchor="middle"),
        ]
    return tag("g", *parts)


def _name(name: str, middle: float) -> Svg:
    cut = name if len(name) <= NAME_CHARS else f"{name[: NAME_CHARS - 1]}…"
    return tag("text", cut, class_="name", x=NAMES - 8, y=middle + 4, text_anchor="end")


def _hits(
    x: Scale, starts: Sequence[int], step_ms: int, texts: Sequence[Sequence[str]]
) -> list[Svg]:
    """Something to point at for each step, as high as the chart."""
    found: list[Svg] = []
    for start, words in zip(starts, texts, strict=True):
        if words:
            left, right = x.at(start), x.at(start + step_ms)
            said = "\n".join([units.step(start, step_ms), *words])
            found.append(_hit(left, TOP, right - left, HEIGHT - BOTTOM - TOP, said))
    return found


def _hit(x: float, y: float, width: float, height: float, said: str) -> Svg:
    return tag("rect", tag("title", said), class_="hit", x=x, y=y, width=width, height=height)


def _key(low: float, high: float, top: float) -> Svg:
    """The shades of a heat map and what they mean."""
    size = 22.0
    left = WIDTH - RIGHT - 74 - size * SHADES
    cells = [
        tag("rect", class_=f"cell h{n}", x=left + size * n, y=top, width=size - 1, height=10)
        for n in range(SHADES)
    ]
    ends = [
        tag("text", units.duration(low), x=left - 8, y=top + 9, text_anchor="end"),
        tag("text", units.duration(high), x=left + size * SHADES + 7, y=top + 9),
    ]
    return tag("g", *cells, *ends)


def _shade(value: float, low: float, high: float) -> int:
    if high <= low:
        return 0
    part = math.log(max(value, low) / low) / math.log(high / low)
    return min(int(part * SHADES), SHADES - 1)


def _runs(values: Sequence[object | None]) -> list[list[int]]:
    """Places of values that follow one another, without what is missing between them."""
    runs: list[list[int]] = []
    for i, value in enumerate(values):
        if value is None:
            continue
        if runs and runs[-1][-1] == i - 1:
            runs[-1].append(i)
        else:
            runs.append([i])
    return runs


def _of(values: Sequence[Sequence[float] | None], place: int) -> Sequence[float]:
    found = values[place]
    assert found is not None
    return found
