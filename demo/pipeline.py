"""The second half of the demo: what was processed goes into a lake, and a report is made of it.

Like the first half it ends in checks that are computed from the data: the lake's rows are counted
and compared with what the workers wrote down, not with what the archive says of itself.
"""

from __future__ import annotations

import contextlib
import os
import sys
import time
import webbrowser
from collections.abc import Generator, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from demo.show import Scene, Show
from demo.verdict import VerdictCheck
from turnabout.words.errors import UsageError
from turnabout.words.extras import install_hint

if TYPE_CHECKING:
    from turnabout.pipeline.results import Reported


@dataclass(frozen=True, slots=True)
class Archive:
    """The findings in the lake, by looking at its rows."""

    rows: int
    ids: int
    """Different ones."""
    channels: Mapping[str, int]
    """Rows that say done, by channel."""


@dataclass(frozen=True, slots=True)
class PipelineRun:
    """The checks, where everything is, and how long each part took."""

    checks: tuple[VerdictCheck, ...]
    page: Path
    lake: Path
    seconds: Mapping[str, float]


def need() -> None:
    """Refuse now what would fail after the first half. Raises: UsageError, JavaNotFound."""
    try:
        from turnabout.pipeline import need_spark
        from turnabout.pipeline.spark import java

        need_spark()
    except ImportError as error:
        raise UsageError(
            f"--pipeline needs Apache Spark: {install_hint('spark-jre')} ({error})"
        ) from error
    java.find()


def run(
    url: str, queue: str, folder: Path, *, done: int, carriers: Mapping[str, int], show: Show
) -> PipelineRun:
    """Archive the queue (of a namespace of its own), report on the lake, and look at both.

    `done` is what the queue counts; `carriers` what the workers wrote down, by carrier.
    """
    namespace = queue.partition("/")[0]
    lake, seconds = folder / "lake", dict[str, float]()
    with _timed(show, "Starting Spark", seconds):
        from turnabout.pipeline import archive, read_lake, report, session

        spark = session("demo")
    with _timed(show, f"Archiving to {lake}", seconds):
        begun = time.monotonic()

        def archived(so_far: Any) -> None:
            show.scene(Scene("archived", so_far.rows, done, time.monotonic() - begun, {}))

        # So few in a commit that there is something to see, and several commits to read.
        archive(
            url,
            lake,
            spark=spark,
            archive=namespace,
            namespace=namespace,
            max_rows=max(done // 4, 1),
            progress=archived,
        )
    with _timed(show, "Making the report from the lake", seconds):
        begun = time.monotonic()

        def reported(messages: int, part: float) -> None:
            share = round(messages * part)
            show.scene(Scene("reported", share, messages, time.monotonic() - begun, {}))

        made = report(
            lake=lake, archive=namespace, namespace=namespace, out=folder, progress=reported
        )
    with _timed(show, "Counting what is in the lake", seconds):
        rows: Any = read_lake(spark, lake, archive=namespace)
        ids = rows.selectExpr("count(1)", "count(distinct message_id)").first()
        by_channel = rows.where("outcome = 'done'").groupBy("channel").count().collect()
        there = Archive(ids[0], ids[1], {row[0]: row[1] for row in by_channel})
    checks = judge(there, made, done, carriers)
    return PipelineRun(tuple(checks), made.page, lake, seconds)


def judge(
    there: Archive, made: Reported, done: int, carriers: Mapping[str, int]
) -> Iterable[VerdictCheck]:
    """Whether the lake and the report say what the workers wrote down."""
    whole = there.rows == done
    more = "" if whole else ": a transaction that stays open holds the log back, or rows are lost"
    yield VerdictCheck(
        whole, f"archived: {there.rows:,} rows in the lake, {done:,} messages done{more}"
    )
    yield VerdictCheck(
        there.ids == there.rows, f"each once: {there.ids:,} different ids in {there.rows:,} rows"
    )
    wrong = [name for name, number in carriers.items() if there.channels.get(name) != number]
    wrong += sorted(set(there.channels) - set(carriers))
    yield VerdictCheck(
        not wrong,
        f"the lake differs from what the workers wrote down for {', '.join(wrong)}"
        if wrong
        else f"the lake has what the workers wrote down, for all {len(carriers)} carriers",
    )
    yield _fair(made, carriers)


def _fair(made: Reported, carriers: Mapping[str, int]) -> VerdictCheck:
    if len(made.queues) != 1 or made.messages != sum(carriers.values()):
        text = f"the report is about {made.messages:,} other messages"
        return VerdictCheck(good=False, text=text)
    queue = made.queues[0]
    if queue.starved:
        text = f"the report says that {', '.join(queue.starved)} starved"
    elif queue.fairness is None:
        text = "the report says that no carrier waited for others for long"
    else:
        text = f"the report says that each carrier got at least {queue.fairness:.0%} of its share"
    return VerdictCheck(good=not queue.starved, text=text)


def show_page(page: Path, *, is_terminal: bool) -> bool:
    """Open the page where somebody can see it; whether that was so."""
    has_display = sys.platform == "darwin" or any(
        os.environ.get(name) for name in ("DISPLAY", "WAYLAND_DISPLAY")
    )
    return is_terminal and has_display and webbrowser.open(page.as_uri())


@contextlib.contextmanager
def _timed(show: Show, title: str, seconds: dict[str, float]) -> Generator[None]:
    show.step(f"{title} …")
    begun = time.monotonic()
    yield
    seconds[title.partition(" to ")[0]] = time.monotonic() - begun
    show.step(f"  {time.monotonic() - begun:.1f} s")
