"""Charts as inline SVG: stacked bars and quantiles over time, and shares by channel.

Where things lie is worked out here; `charts.svg.j2` draws them. `axes` has scales and round ticks,
`units` says numbers and times in words.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any, Final, TypeVar

from markupsafe import Markup

from turnabout.pipeline.reports import axes, units
from turnabout.pipeline.reports.axes import Scale
from turnabout.pipeline.reports.templates import render

V = TypeVar("V")

WIDTH: Final = 560.0
HEIGHT: Final = 200.0
LEFT: Final = 58.0
RIGHT: Final = 10.0
TOP: Final = 10.0
BOTTOM: Final = 26.0
ROW: Final = 19.0
NAMES: Final = 128.0
CHAR_WIDTH: Final = 7.0
SIZES: Final = {
    "width": WIDTH,
    "left": LEFT,
    "right": RIGHT,
    "top": TOP,
    "bottom": BOTTOM,
    "row": ROW,
    "names": NAMES,
}


@dataclass(frozen=True)
class Series:
    """Values by step of time; `kind` is the class that colours them."""

    kind: str
    values: Sequence[float]


def stacks(title: str, starts: Sequence[int], step_ms: int, series: Sequence[Series]) -> Markup:
    """Bars over time, a part for each series, the first one at the bottom."""
    most = max(sum(s.values[i] for s in series) for i in range(len(starts)))
    if not most:
        return _drawn("nothing", title, 80)
    x, y = _time(starts, step_ms), axes.linear(most, HEIGHT - BOTTOM, TOP)
    bars: list[tuple[str, float, float, float]] = []
    for i, start in enumerate(starts):
        below = 0.0
        for s in series:
            if (value := s.values[i]) > 0:
                bars.append((s.kind, x.at(start), y.at(below + value), y.at(below)))
                below += value
    texts = [
        [f"{s.kind}: {units.count(s.values[i])}" for s in series if s.values[i]]
        for i in range(len(starts))
    ]
    return _over_time(title, starts, step_ms, _ticks(y, units.short), texts, bars=bars)


def bands(
    title: str,
    starts: Sequence[int],
    step_ms: int,
    names: Sequence[str],
    steps: Sequence[Sequence[float] | None],
) -> Markup:
    """Quantiles over time, the lowest first: areas between them; logarithmic. Milliseconds."""
    known = [values for values in steps if values is not None]
    if not known:
        return _drawn("nothing", title, 80)
    x = _time(starts, step_ms)
    low, high = min(values[0] for values in known), max(values[-1] for values in known)
    y = axes.durations(low, high, HEIGHT - BOTTOM, TOP)
    paths: list[tuple[str, str]] = []
    for run in _runs(steps):
        points = [(starts[i] + step_ms / 2, values) for i, values in run]
        if len(run) == 1:  # a step alone has no neighbour to be joined with
            points = [(starts[run[0][0]] + edge, run[0][1]) for edge in (0, step_ms)]
        places = [
            [(x.at(middle), y.at(values[q])) for middle, values in points]
            for q in range(len(names))
        ]
        for q in range(len(places) - 1, 0, -1):
            area = [*places[q], *reversed(places[q - 1])]
            paths.append((f"band b{q}", f"{_path(area)}Z"))
        paths += [(f"line l{q}", _path(places[q])) for q in range(len(places) - 1, -1, -1)]
    texts = [
        [f"{name}: {units.duration(ms)}" for name, ms in zip(names, values or (), strict=False)]
        for values in steps
    ]
    return _over_time(title, starts, step_ms, _ticks(y, units.duration), texts, paths=paths)


def shares(title: str, rows: Sequence[tuple[str, float, str]]) -> Markup:
    """A bar for each name: its part of its fair share, cut at twice that, which a line marks."""
    if not rows:
        return _drawn("nothing", title, 80)
    x = Scale(0.0, 2.0, NAMES, WIDTH - 58, (0.0, 0.5, 1.0, 1.5, 2.0))
    drawn = [
        (name, TOP + ROW * (number + 0.5), x.at(ratio), units.share(ratio), note)
        for number, (name, ratio, note) in enumerate(rows)
    ]
    ticks = [(x.at(tick), units.share(tick)) for tick in x.ticks]
    height = TOP + ROW * len(rows) + BOTTOM
    return _drawn("shares", title, height, ticks=ticks, rows=drawn, fair=x.at(1))


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
    more = {"bars": (), "paths": (), **parts, "gap": 1.0 if width > 3 else 0.0}
    axes = {"x": x, "marks": _marks(x), "ticks": ticks}
    return _drawn("over time", title, HEIGHT, hits=hits, width=width, **axes, **more)


def _ticks(scale: Scale, say: Callable[[float], str]) -> list[tuple[float, str]]:
    return [(scale.at(tick), say(tick)) for tick in scale.ticks]


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


def _runs(values: Sequence[V | None]) -> list[list[tuple[int, V]]]:
    """Values that follow one another, with their places; without what is missing between them."""
    found = [(i, value) for i, value in enumerate(values) if value is not None]
    runs = groupby(enumerate(found), lambda pair: pair[1][0] - pair[0])
    return [[one for _, one in run] for _, run in runs]
