"""Charts: where things lie, what stands beside an axis, and that no name gets out of its text."""

from __future__ import annotations

from itertools import pairwise
from xml.etree import ElementTree as ET

import pytest
from markupsafe import Markup

from tests.support.each import each
from turnabout.pipeline.reports import axes, charts, units
from turnabout.pipeline.reports.units import DAY, HOUR, MINUTE, SECOND

HOSTILE = "</title><script>alert('1')</script>\x00\ud800\"&"
EDGES = charts.SIZES["left"], charts.SIZES["right"]
STARTS = range(0, 5 * HOUR, HOUR)


def texts(chart: Markup) -> list[str]:
    return [e.text or "" for e in ET.fromstring(chart).iter() if e.tag in ("text", "title")]


def rects(chart: Markup, kind: str) -> list[dict[str, str]]:
    return [e.attrib for e in ET.fromstring(chart).iter("rect") if e.get("class") == kind]


@each(
    ("high", "ticks"),
    [
        (0.0, (0, 0.2, 0.4, 0.6, 0.8, 1.0)),
        (1.0, (0, 0.2, 0.4, 0.6, 0.8, 1.0)),
        (7.0, (0, 2, 4, 6, 8)),
        (10.0, (0, 2, 4, 6, 8, 10)),
        (12_345.0, (0, 5000, 10_000, 15_000)),
    ],
)
def test_values_have_round_ticks_up_to_the_highest(high: float, ticks: tuple[float, ...]) -> None:
    scale = axes.linear(high, 100.0, 0.0)
    assert scale.ticks == pytest.approx(ticks)
    assert scale.at(0) == 100.0
    assert scale.at(high) >= 0.0


def test_durations_are_logarithmic_between_round_ones() -> None:
    scale = axes.durations(30, 40 * MINUTE, 0.0, 100.0)
    assert scale.ticks == (10, 100, SECOND, 10 * SECOND, MINUTE, 10 * MINUTE, HOUR)[::2]
    assert scale.at(10) == 0.0
    assert scale.at(10**12) == 100.0
    middle = (scale.low * scale.high) ** 0.5
    assert scale.at(middle) == pytest.approx(50.0)
    assert axes.durations(0, 0, 0.0, 100.0).ticks == (1, 10)
    assert axes.durations(0, 10**15, 0.0, 1.0).at(10**15) == 1.0


def test_times_have_the_ticks_of_a_clock() -> None:
    scale = axes.time(5 * MINUTE, 5 * MINUTE + 6 * HOUR, 0.0, 100.0)
    assert scale.ticks == tuple(n * HOUR for n in range(1, 7))
    assert axes.step_of(24 * HOUR) == 15 * MINUTE
    assert axes.step_of(40) == 10
    assert axes.step_of(100_000 * DAY) == axes.TIME_TICKS[-1]
    assert units.clock(DAY, HOUR) == "2 Jan"
    assert units.clock(DAY + HOUR, HOUR) == "01:00"
    assert units.clock(1_000, SECOND) == "00:00:01"


def test_shares_are_whole_only_when_they_are() -> None:
    said = [units.share(part) for part in (None, 0, 0.0002, 0.25, 0.9996, 1)]
    assert said == ["–", "0 %", "<0.1 %", "25 %", ">99.9 %", "100 %"]
    assert [units.short(n) for n in (0, 0.25, 1500, 2e6)] == ["0", "0.25", "1.5k", "2M"]


def test_bars_are_as_high_as_their_numbers_and_stand_on_one_another() -> None:
    counts = [{"done": n, "dead": 4 if n == 4 else 0} for n in (4, 0, 2, 1)]
    chart = charts.stacks("all", STARTS, [*counts, None], ["done", "dead"])
    low, high = rects(chart, "done"), rects(chart, "dead")
    assert [len(low), len(high)] == [3, 1]  # nothing is drawn for 0
    assert float(low[0]["height"]) == pytest.approx(2 * float(low[1]["height"]), abs=0.2)
    top = float(high[0]["y"]) + float(high[0]["height"])
    assert top == pytest.approx(float(low[0]["y"]), abs=0.2)
    assert "1 Jan 1970 00:00–01:00\ndone: 4\ndead: 4" in texts(chart)
    assert len(rects(chart, "hit")) == 3


def test_waits_are_bars_from_the_median_on() -> None:
    names = ("wait_p50_ms", "wait_p90_ms", "wait_p99_ms")
    values = [(1, 10, 100), None, (2, 20, 200), (30, 30, 30), (None, None, None)]
    rows = [None if some is None else dict(zip(names, some, strict=True)) for some in values]
    chart = charts.quantiles("wait", STARTS, rows, "wait")
    assert [len(rects(chart, kind)) for kind in ("p50", "p90", "p99", "hit")] == [3, 3, 3, 3]
    median, upper = rects(chart, "p50")[0], rects(chart, "p90")[0]
    assert float(upper["y"]) + float(upper["height"]) == pytest.approx(float(median["y"]), abs=0.2)
    assert "p50: 1ms\np90: 10ms\np99: 100ms" in "\n".join(texts(chart))


def test_nothing_to_show_is_said() -> None:
    for chart in (
        charts.stacks("t", STARTS, [None] * 5, ["done"]),
        charts.quantiles("t", STARTS, [None] * 5, "wait"),
    ):
        assert "Nothing to show." in texts(chart)


def test_no_name_gets_out_of_its_text() -> None:
    chart = charts.stacks(HOSTILE, STARTS, [{HOSTILE: 1}] * 5, [HOSTILE])
    chart.encode()  # no half of a surrogate pair
    assert "<script" not in chart
    assert not [e for e in ET.fromstring(chart).iter() if e.tag == "script"]


@each("seconds", range(50, 61))
def test_words_beside_a_time_axis_do_not_touch(seconds: int) -> None:
    start = 14 * HOUR + 3 * SECOND
    scale = axes.time(start, start + seconds * SECOND, *EDGES)
    spans: list[tuple[float, float]] = []
    for at, word in charts.marks(scale):
        if word:
            half = len(word) * charts.CHAR_WIDTH / 2
            spans.append((at - half, at + half))
    assert len(spans) >= len(scale.ticks) - 1
    assert all(end + charts.CHAR_WIDTH <= begin for (_, end), (begin, _) in pairwise(spans))
    assert spans[-1][1] <= charts.SIZES["width"]
