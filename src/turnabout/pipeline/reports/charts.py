"""Charts over time as inline SVG: bars of counts, and of the quantiles of a time.

Where things lie is worked out here; `chart.svg.j2` draws them. `axes` has scales and round ticks.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, Final

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from turnabout.cli import _show
from turnabout.pipeline.reports import axes, units
from turnabout.pipeline.reports.axes import Scale

SIZES: Final = {"width": 560, "height": 200, "left": 58, "right": 550, "top": 10, "bottom": 174}
CHAR_WIDTH: Final = 7
QUANTILES: Final = ("p50", "p90", "p99")

Rows = Sequence[Mapping[str, Any] | None]
"""The measures of each step of time; None: there was nothing."""
Bar = tuple[Sequence[str], Sequence[tuple[str, float, float]]]
"""A step's words, and its parts: the class that colours one, and its values at both ends."""


def stacks(title: str, starts: range, rows: Rows, kinds: Sequence[str]) -> Markup:
    """Bars of counts, a part for each kind, the first one at the bottom."""
    bars: list[Bar] = []
    most = 0
    for row in rows:
        words, parts, upto = list[str](), list[tuple[str, float, float]](), 0
        for kind in kinds:
            if row is not None and (number := row[kind]):
                words.append(f"{kind}: {_show.count(number)}")
                parts.append((kind, upto, upto + number))
                upto += number
        bars.append((words, parts))
        most = max(most, upto)
    y = axes.linear(most, SIZES["bottom"], SIZES["top"])
    return _drawn(title, starts, y, units.short, bars)


def quantiles(title: str, starts: range, rows: Rows, time: str) -> Markup:
    """Bars from the median of a time to its p90, and on to its p99, on a logarithmic axis."""
    bars: list[Bar] = []
    known: list[int] = []
    for row in rows:
        if row is None or row[f"{time}_p50_ms"] is None:
            bars.append(((), ()))
            continue
        p50, p90, p99 = times = [row[f"{time}_{name}_ms"] for name in QUANTILES]
        words = [f"{q}: {_show.milliseconds(ms)}" for q, ms in zip(QUANTILES, times, strict=True)]
        bars.append((words, [("p99", p90, p99), ("p90", p50, p90), ("p50", p50, p50)]))
        known += times
    y = axes.durations(min(known, default=1), max(known, default=1), SIZES["bottom"], SIZES["top"])
    return _drawn(title, starts, y, _show.milliseconds, bars)


def _drawn(
    title: str, starts: range, y: Scale, say: Callable[[Any], str], bars: Sequence[Bar]
) -> Markup:
    """A chart; each step with something in it can be pointed at, and says what then."""
    until = starts[-1] + starts.step
    x = axes.time(starts[0], until, SIZES["left"], SIZES["right"])
    seconds = until - starts[0] < 10 * units.MINUTE
    steps = [
        (
            x.at(start),
            "\n".join([units.between(start, start + starts.step, seconds=seconds), *words]),
            [(kind, y.at(high), y.at(low)) for kind, low, high in parts],
        )
        for start, (words, parts) in zip(starts, bars, strict=True)
        if parts
    ]
    wide = (SIZES["right"] - SIZES["left"]) / len(starts)
    ticks = [(y.at(tick), say(tick)) for tick in y.ticks]
    words = {"title": title, "ticks": ticks, "marks": marks(x), "steps": steps, "wide": wide}
    return render("chart.svg.j2", **SIZES, **words, gap=1 if wide > 3 else 0)


def marks(x: Scale) -> list[tuple[float, str]]:
    """The ticks of a time axis with their words: none where one would not fit beside the edge."""
    every = int(x.ticks[1] - x.ticks[0]) if len(x.ticks) > 1 else units.SECOND
    words = [(x.at(tick), units.clock(int(tick), every)) for tick in x.ticks]
    room = SIZES["width"]
    return [(at, word if at + len(word) * CHAR_WIDTH / 2 <= room else "") for at, word in words]


# --- templates ------------------------------------------------------------------------------------


def render(name: str, **values: Any) -> Markup:
    """A template of this folder with these values, which are escaped: safe to be put into another
    one as it is.
    """
    return Markup(_environment().get_template(name).render(**values))  # noqa: S704 - it has escaped


@cache
def _environment() -> Environment:
    return Environment(
        loader=FileSystemLoader(Path(__file__).parent),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=_shown,
    )


def _shown(value: Any) -> Any:
    """Numbers have one digit behind the point. Text is without what may stand in no document: a
    channel's name may hold any character.
    """
    if isinstance(value, float):
        return f"{value:.1f}".removesuffix(".0")
    return _show.clean(value, lines=True) if type(value) is str else value
