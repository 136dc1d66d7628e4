"""The data pipeline on Spark against a plain Python loop that does the same, and its jobs."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterable, Sequence

import turnabout
from benchmarks import on_spark
from benchmarks.library import QUEUE, Library
from benchmarks.plan import AnyBase, Bench, Cell, Place, Section, has_server
from benchmarks.records import Record, Spread, Target

CHANNELS = 100
BATCH = 20_000
PLAIN_BATCH = 1_000
"""What a plain loop takes at once: the most that a receive gives."""
SMALL_BATCHES = 8
JOB_SECONDS = 60.0


def cells(bench: Bench) -> list[Cell]:
    """A cell for each kind of work, by store."""
    each = bench.plan.rounds * bench.plan.streamed / 15_000
    return [
        Cell(seconds, lambda run=run, place=place: run(bench, place))
        for place in bench.places
        for seconds, run in (
            (20 + 2 * each, _lease_stream),
            (5 + each, _log_stream),
            (10, _micro_batch),
            (30 + bench.plan.large / 5_000, _jobs),
            (2 + each, _sink),
        )
        if has_server(place) or run in (_log_stream, _jobs)  # what Spark does with a file
    ]


def _lease_stream(bench: Bench, place: Place) -> Iterable[Record]:
    base = bench.base(place, "streams", _prepare)
    messages = bench.plan.streamed
    batch = _batch(bench)
    # Spark loads code at the first batch of each kind.
    base.fill(batch, CHANNELS)
    on_spark.stream(base.url, most=batch, **_lease("warm"))
    profiles: list[on_spark.Streamed] = []

    def lease() -> float:
        base.fill(messages, CHANNELS)
        profiles.append(on_spark.stream(base.url, most=batch, **_lease("bench")))
        return profiles[-1].rate

    def loop() -> float:
        base.fill(messages, CHANNELS)
        return _drained(base.url)

    rates = _turns(bench, {"lease": lease, "loop": loop})
    yield _ratio(
        place,
        f"lease stream, {batch:,} a batch, against receive and ack by {PLAIN_BATCH:,}",
        rates["loop"],
        rates["lease"],
        target=Target(1.5),
        note=profiles[-1].profile,
    )


def _log_stream(bench: Bench, place: Place) -> Iterable[Record]:
    base = bench.base(place, "streams", _prepare)
    messages, batch = bench.plan.streamed, _batch(bench)
    base.fill(messages, CHANNELS)
    _drained(base.url)
    profiles: list[on_spark.Streamed] = []

    def log() -> float:
        profiles.append(on_spark.stream(base.url, most=batch, mode="log"))
        return profiles[-1].rate

    rates = _turns(bench, {"log": log, "loop": lambda: _listed(base.url, messages)})
    case = f"log stream, {batch:,} a batch, against pages"
    yield _ratio(place, case, rates["loop"], rates["log"], note=profiles[-1].profile)


def _sink(bench: Bench, place: Place) -> Iterable[Record]:
    base = bench.base(place, "sink", _prepare)
    messages = bench.plan.streamed
    on_spark.sink(base.url, _batch(bench))  # Spark loads code at the first one
    sides = {
        "sink": lambda: on_spark.sink(base.url, messages),
        "loop": lambda: _sent(base.url, messages),
    }
    rates = _turns(bench, sides)
    yield _ratio(place, "sink against send_many", rates["loop"], rates["sink"])


def _micro_batch(bench: Bench, place: Place) -> Iterable[Record]:
    base = bench.base(place, "streams", _prepare)
    _drained(base.url)
    base.fill(SMALL_BATCHES, 1)
    small = on_spark.stream(base.url, most=1, **_lease("small"))
    case = "a micro-batch of 1 message, ms"
    yield Record("pipeline", place.name, case, None, small.batch_ms, note=small.profile)


def _batch(bench: Bench) -> int:
    """At least four batches: the first one loads code, and is not counted."""
    return min(BATCH, max(bench.plan.streamed // 4, 1))


def _jobs(bench: Bench, place: Place) -> Iterable[Record]:
    base = bench.base(place, "jobs", _prepare)
    rows = bench.plan.large
    base.fill(rows, CHANNELS)
    _drained(base.url)
    with on_spark.archived(base.url) as (archived, seconds, lake):
        yield _seconds(place, f"archive of {archived:,} rows, s", seconds, archived)
        made = {
            "the history": on_spark.reported(url=base.url),
            "the lake": on_spark.reported(lake=lake),
        }
    for source, (messages, seconds) in made.items():
        yield _seconds(place, f"report of {messages:,} rows of {source}, s", seconds, messages)


def _prepare(base: AnyBase) -> None:
    base.make_queue(history=True)


def _lease(name: str) -> dict[str, str]:
    return {"mode": "lease", "subscribe": QUEUE, "subscription": name}


def _drained(url: str) -> float:
    """Receive, look at the payload, ack, until nothing is left; messages a second."""
    done = size = 0
    with turnabout.connect(url) as mq:
        queue = mq.queue(QUEUE)
        begun = time.monotonic()
        while messages := queue.receive(PLAIN_BATCH):
            size += sum(len(message.payload) for message in messages)
            queue.ack([message.receipt for message in messages])
            done += len(messages)
        return done / (time.monotonic() - begun)


def _listed(url: str, most: int) -> float:
    """Read finished messages page by page; messages a second."""
    done = 0
    with turnabout.connect(url) as mq:
        begun = time.monotonic()
        for _ in mq.queue(QUEUE).history_entries():
            done += 1
            if done >= most:
                break
        return done / (time.monotonic() - begun)


def _sent(url: str, count: int) -> float:
    library = Library(url, CHANNELS)
    try:
        begun = time.monotonic()
        for first in range(0, count, PLAIN_BATCH):
            library.put(min(PLAIN_BATCH, count - first))
        return count / (time.monotonic() - begun)
    finally:
        library.close()


def _turns(bench: Bench, sides: dict[str, Callable[[], float]]) -> dict[str, list[float]]:
    """All sides in turn, round by round."""
    rates: dict[str, list[float]] = {side: [] for side in sides}
    for _ in range(min(bench.plan.rounds, 3)):
        for side, run in sides.items():
            rates[side].append(run())
    return rates


def _ratio(
    place: Place,
    case: str,
    base: Sequence[float],
    ours: Sequence[float],
    *,
    target: Target | None = None,
    note: str = "",
) -> Record:
    ratio = Spread.of([o / b for b, o in zip(base, ours, strict=True)])
    medians = statistics.median(base), statistics.median(ours)
    return Record("pipeline", place.name, case, *medians, ratio, target=target, note=note)


def _seconds(place: Place, case: str, seconds: float, rows: int) -> Record:
    target = Target(JOB_SECONDS, at_least=False)
    note = f"{rows / seconds:,.0f} rows/s"
    return Record("pipeline", place.name, case, None, seconds, target=target, note=note)


SECTION = Section(
    "pipeline", "Spark's streams, sink and jobs, against a plain loop", ("loop", "ours"), cells
)
