"""Spark: one session for the run, and the streams and jobs that are measured in it."""

from __future__ import annotations

import os
import statistics
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from benchmarks.library import PAYLOAD, QUEUE

PARTS = ("latestOffset", "queryPlanning", "walCommit", "addBatch", "commitOffsets")
"""What Spark says a batch is made of; latestOffset leases and acknowledges, addBatch reads."""


@dataclass(frozen=True, slots=True)
class Streamed:
    """A stream that ended: its batches after the first, which loads code."""

    rows: int
    seconds: float
    batch_ms: float
    parts: Mapping[str, float]
    """Milliseconds of a batch, medians."""

    @property
    def rate(self) -> float:
        """Messages a second."""
        return self.rows / self.seconds if self.seconds else 0.0

    @property
    def profile(self) -> str:
        """Where the time of a batch goes."""
        parts = [f"{name} {self.parts[name]:.0f}" for name in PARTS if name in self.parts]
        return f"a batch {self.batch_ms:.0f} ms: {', '.join(parts)}"


@cache
def session() -> Any:
    """Spark on two cores; started once, and warm when it is handed out."""
    source = str(Path(__file__).parents[1] / "src")
    os.environ["PYTHONPATH"] = os.pathsep.join([source, os.environ.get("PYTHONPATH", "")])
    from pyspark.sql import SparkSession

    from turnabout.pipeline import session as start

    running = SparkSession.getActiveSession() is not None  # a test's
    spark = start("benchmarks", master=None if running else "local[2]")
    spark.range(1_000).selectExpr("sum(id)").collect()
    return spark


def stream(url: str, *, most: int, **options: str) -> Streamed:
    """Read all there is in batches of `most`, and throw it away."""
    reader = session().readStream.format("turnabout").options(url=url, **options)
    frame = reader.option("maxOffsetsPerTrigger", str(most)).load()
    with tempfile.TemporaryDirectory(prefix="turnabout-bench-") as folder:
        writer = frame.writeStream.format("noop").option("checkpointLocation", folder)
        query = writer.trigger(availableNow=True).start()
        query.awaitTermination()
        progress = [entry for entry in query.recentProgress if entry["numInputRows"]]
    counted = progress[1:] or progress
    took = [entry["durationMs"]["triggerExecution"] for entry in counted]
    names = {name for entry in counted for name in entry["durationMs"]}
    return Streamed(
        rows=sum(entry["numInputRows"] for entry in counted),
        seconds=sum(took) / 1000,
        batch_ms=statistics.median(took),
        parts={
            name: statistics.median(entry["durationMs"].get(name, 0) for entry in counted)
            for name in names
        },
    )


def sink(url: str, count: int) -> float:
    """Send so many by a batch write; messages a second."""
    frame = session().range(0, count, 1, 2)
    value = frame.selectExpr(
        f"'{PAYLOAD.decode()}' as value", "concat('tenant-', id % 100) as channel"
    )
    begun = time.monotonic()
    value.write.format("turnabout").options(url=url, queue=QUEUE).mode("append").save()
    return count / (time.monotonic() - begun)


@contextmanager
def archived(url: str) -> Iterator[tuple[int, float, Path]]:
    """Archive all there is into a new lake: rows, seconds, and the lake while it is needed."""
    from turnabout.pipeline import archive

    with tempfile.TemporaryDirectory(prefix="turnabout-bench-") as folder:
        lake = Path(folder) / "lake"
        begun = time.monotonic()
        done = archive(session(), url, lake)
        yield done.rows, time.monotonic() - begun, lake


def reported(*, url: str | None = None, lake: Path | None = None) -> tuple[int, float]:
    """Report on a database or a lake: messages, seconds."""
    from turnabout.pipeline import report

    with tempfile.TemporaryDirectory(prefix="turnabout-bench-") as folder:
        begun = time.monotonic()
        done = report(url, lake=lake, out=folder)
        return done.messages, time.monotonic() - begun
