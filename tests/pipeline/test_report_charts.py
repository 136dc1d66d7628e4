"""Charts: where things lie, what stands beside an axis, and that no name gets out of its text."""

from __future__ import annotations

from itertools import pairwise
from xml.etree import ElementTree as ET

import pytest
from markupsafe import Markup

from tests.support.each import each
from turnabout.pipeline.reports import axes, charts, page, units
from turnabout.pipeline.reports.charts import Series
from turnabout.pipeline.reports.units import DAY, HOUR, MINUTE, SECOND

HOSTILE = "</title><script>alert('1')</script>\x00\ud800\"&"
STARTS = [n * HOUR for n in range(5)]


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
    assert axes.durations(0, 0, 0.0, 100.0).ticks == (1, 2)


def test_times_have_the_ticks_of_a_clock() -> None:
    scale = axes.time(5 * MINUTE, 5 * MINUTE + 6 * HOUR, 0.0, 100.0)
    assert scale.ticks == tuple(n * HOUR for n in range(1, 7))
    assert axes.step_of(24 * HOUR) == 15 * MINUTE
    assert axes.step_of(40) == 10
    assert axes.step_of(100_000 * DAY) == axes.TIME_TICKS[-1]
    assert units.clock(DAY, HOUR) == "2 Jan"
    assert units.clock(DAY + HOUR, HOUR) == "01:00"
    assert units.clock(1_000, SECOND) == "00:00:01"


@each(
    ("ms", "said"),
    [
        (None, "–"),
        (0, "0 ms"),
        (0.25, "0.2 ms"),
        (999.4, "999 ms"),
        (999.6, "1 s"),
        (1_230, "1.23 s"),
        (59_949, "59.9 s"),
        (59_960, "1 min"),
        (125_000, "2 min 5 s"),
        (3 * HOUR + 4 * MINUTE, "3 h 4 min"),
        (51 * HOUR, "2 d 3 h"),
    ],
)
def test_a_duration_in_words(ms: float | None, said: str) -> None:
    assert units.duration(ms) == said


def test_shares_are_whole_only_when_they_are() -> None:
    said = [units.share(part) for part in (None, 0, 0.0002, 0.25, 0.9996, 1)]
    assert said == ["–", "0 %", "<0.1 %", "25 %", ">99.9 %", "100 %"]
    assert [units.short(n) for n in (0, 0.25, 1500, 2e6)] == ["0", "0.25", "1.5k", "2M"]


def test_bars_are_as_high_as_their_numbers_and_stand_on_one_another() -> None:
    done, dead = [4, 0, 2, 1, 1], [4, 0, 0, 0, 0]
    chart = charts.stacks("all", STARTS, HOUR, [Series("done", done), Series("dead", dead)])
    low, high = rects(chart, "done"), rects(chart, "dead")
    assert [len(low), len(high)] == [4, 1]  # nothing is drawn for 0
    assert float(low[0]["height"]) == pytest.approx(2 * float(low[1]["height"]), abs=0.2)
    top = float(high[0]["y"]) + float(high[0]["height"])
    assert top == pytest.approx(float(low[0]["y"]), abs=0.2)
    assert "1 Jan 00:00–01:00\ndone: 4\ndead: 4" in texts(chart)
    assert len(rects(chart, "hit")) == 4


def test_bands_have_gaps_where_nothing_is() -> None:
    values = [[1, 10, 100], None, [2, 20, 200], [3, 30, 300], None]
    chart = charts.bands("wait", STARTS, HOUR, ("p50", "p90", "p99"), values)
    kinds = [e.get("class") for e in ET.fromstring(chart).iter("path")]
    assert kinds.count("line l0") == 2  # before the gap, and after it
    assert kinds.count("band b1") == 2
    assert any("p50: 2 ms\np90: 20 ms\np99: 200 ms" in text for text in texts(chart))


def test_a_share_is_a_bar_up_to_twice_what_is_fair() -> None:
    rows = [("a" * 50, 0.5, "a: got 5"), ("b", 1.0, "b"), ("c", 9.0, "c")]
    chart = charts.shares("fair", rows)
    wide = [float(bar["width"]) for bar in rects(chart, "done")]
    assert wide[1] == pytest.approx(2 * wide[0])
    assert wide[2] == pytest.approx(2 * wide[1])
    assert {"a: got 5", "900 %"} <= {*texts(chart)}
    boxes = [e.attrib for e in ET.fromstring(chart).iter("foreignObject")]
    ends = [float(box["x"]) + float(box["width"]) for box in boxes]  # a name is cut off there
    assert max(ends) < min(float(bar["x"]) for bar in rects(chart, "done"))
    assert "text-overflow: ellipsis" in page._asset("page.css")


def test_nothing_to_show_is_said() -> None:
    for chart in (
        charts.stacks("t", STARTS, HOUR, [Series("done", [0] * 5)]),
        charts.bands("t", STARTS, HOUR, ("p50",), [None] * 5),
        charts.shares("t", []),
    ):
        assert "Nothing to show." in texts(chart)


def test_no_name_gets_out_of_its_text() -> None:
    for chart in (
        charts.shares(HOSTILE, [(HOSTILE, 1.0, HOSTILE)]),
        charts.stacks(HOSTILE, STARTS, HOUR, [Series(HOSTILE, [1] * 5)]),
    ):
        chart.encode()  # no half of a surrogate pair
        assert "<script" not in chart
        assert not [e for e in ET.fromstring(chart).iter() if e.tag == "script"]


@each("seconds", range(50, 61))
def test_words_beside_a_time_axis_do_not_touch(seconds: int) -> None:
    start = 14 * HOUR + 3 * SECOND
    scale = axes.time(start, start + seconds * SECOND, charts.LEFT, charts.WIDTH - charts.RIGHT)
    spans: list[tuple[float, float]] = []
    for at, word, anchor in charts._marks(scale):
        if anchor:
            left = at - charts._wide(word) / (1 if anchor == "end" else 2)
            spans.append((left, left + charts._wide(word)))
    assert len(spans) >= len(scale.ticks) - 1
    assert all(end + charts.CHAR_WIDTH <= begin for (_, end), (begin, _) in pairwise(spans))
    assert spans[-1][1] <= charts.WIDTH
