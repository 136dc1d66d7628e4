"""What a report counts, against plain Python over the same rows; and reports of a database."""

from __future__ import annotations

import random
from collections import Counter, defaultdict
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest

from turnabout.pipeline.reports import tables
from turnabout.pipeline.reports.tables import CHANNEL, COLUMNS
from turnabout.pipeline.schema import ddl

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

START = datetime(2026, 5, 1, 10, 30, tzinfo=UTC)


def log_row(number: int, channel: str, minute: float, **more: Any) -> tuple[Any, ...]:
    """A row of the log; waits and handling in milliseconds."""
    sent = START + timedelta(minutes=minute)
    wait, handle = more.get("wait", 100), more.get("handle", 50)
    leased = None if wait is None else sent + timedelta(milliseconds=wait)
    ended = sent if leased is None else leased + timedelta(milliseconds=handle)
    return (
        *("", "mail", channel, number, more.get("outcome", "done")),
        *(more.get("attempt", 1), more.get("failures", 0), 0, sent, leased, ended),
        more.get("error"),
    )


def frame(spark: SparkSession, rows: list[tuple[Any, ...]]) -> DataFrame:
    return tables.narrow(spark.createDataFrame(rows, ddl(COLUMNS)))


def test_hours_failures_and_fairness_are_what_plain_python_says(spark: SparkSession) -> None:
    draw = random.Random(5)
    rows = [
        log_row(
            n,
            draw.choice("aab"),
            draw.uniform(0, 90),
            wait=draw.randrange(900),
            handle=draw.randrange(900),
        )
        for n in range(200)
    ]
    told = "no mailbox for user-%d: 0x%x"
    dead = {"outcome": "dead", "attempt": 3, "failures": 3}
    rows += [log_row(1000 + n, "a", n, error=told % (n, n * 99), **dead) for n in range(3)]
    rows += [
        log_row(1010, "", 1.0, **dead),  # died without a word
        log_row(1011, "c", 1.0, wait=None, outcome="cancelled"),
        log_row(1012, "a", 200.0, wait=123_456, handle=0),
    ]
    narrowed = frame(spark, rows).cache()
    hours = tables.hours(narrowed, 0, 10**15).cache()
    found = {(row["channel"], row["hour"].hour): row for row in hours.collect()}
    groups: dict[tuple[str, int], list[tuple[Any, ...]]] = defaultdict(list)
    for row in rows:
        groups[row[2], row[10].hour].append(row)
    assert found.keys() == groups.keys()
    for key, some in groups.items():
        row = found[key]
        assert row["messages"] == len(some)
        outcomes = Counter(one[4] for one in some)
        assert {name: row[name] for name in ("done", "dead", "cancelled")} == {
            name: outcomes[name] for name in ("done", "dead", "cancelled")
        }
        assert row["attempts"] == sum(one[5] for one in some)
        waits = sorted(_ms(one[9] - one[8]) for one in some if one[9])
        if key == ("c", 10):
            assert row["wait_p50_ms"] is row["wait_max_ms"] is row["handle_mean_ms"] is None
        elif key != ("a", 13):
            assert row["wait_p50_ms"] == pytest.approx(_quantile(waits, 0.5))
            assert row["wait_p99_ms"] == pytest.approx(_quantile(waits, 0.99))
            assert row["wait_max_ms"] == waits[-1]
            assert row["wait_mean_ms"] == pytest.approx(sum(waits) / len(waits))
    late = found["a", 13]
    assert (late["wait_p50_ms"], late["wait_max_ms"]) == (123_000, 123_456)  # three digits
    kinds = {row["error"]: row for row in tables.failures(narrowed).collect()}
    assert set(kinds) == {"no mailbox for user-#: #hex", ""}
    kind = kinds["no mailbox for user-#: #hex"]
    assert (kind["messages"], kind["dead"], kind["channels"]) == (3, 3, 1)
    assert (kind["example_id"], kind["example"]) == (1002, told % (2, 198))
    fair = {row["hour"].hour: row for row in tables.fairness(hours).collect()}
    done = [found[c, 11]["done"] for c in "ab"]
    assert fair[11]["jain_done"] == pytest.approx(sum(done) ** 2 / (2 * sum(d * d for d in done)))
    assert fair[11]["share_max"] == pytest.approx(max(done) / sum(done))
    assert (fair[13]["channels"], fair[13]["jain_wait"], fair[13]["slowest"]) == (1, 1.0, "a")
    whole = {row["channel"]: row for row in tables.merged(hours, CHANNEL).collect()}
    waits = [_ms(row[9] - row[8]) for row in rows if row[2] == "b"]
    assert whole["b"]["wait_mean_ms"] == pytest.approx(sum(waits) / len(waits))
    narrowed.unpersist()
    hours.unpersist()


def _ms(length: timedelta) -> int:
    return round(length.total_seconds() * 1000)


def _quantile(values: list[int], part: float) -> float:
    place = part * (len(values) - 1)
    low = int(place)
    high = min(low + 1, len(values) - 1)
    return values[low] + (values[high] - values[low]) * (place - low)


def test_kinds_of_errors(spark: SparkSession) -> None:
    said = {
        "Traceback …\n  line 7\nValueError: bad id 4711\n\n": "ValueError: bad id #",
        "at 10.0.0.7:5432 after 1.5 s": "at # after # s",
        "job 6ba7b810-9dad-11d1-80b4-00c04fd430c8 died": "job #id died",
        "digest deadbeef01 not found, decade": "digest #hex not found, decade",
        "object at 0x7f3a": "object at #hex",
        "plain": "plain",
        "": "",
    }
    rows = [log_row(n, "a", 0.0, error=text) for n, text in enumerate(said)]
    from pyspark.sql import functions as f

    narrowed = frame(spark, rows)
    kinds = narrowed.select("error", tables.kind_of(f.col("error")).alias("kind")).collect()
    assert {row["error"]: row["kind"] for row in kinds} == said
