"""Processor time of our blocking path in the client, against psycopg calling the same function."""

from __future__ import annotations

from collections.abc import Iterable

from benchmarks.jobs import Job
from benchmarks.plan import AnyBase, Bench, Cell, Place, Section, has_server
from benchmarks.records import Record, Spread, Target

CHANNELS = 10
BACKLOG = 1_000


def cells(bench: Bench) -> list[Cell]:
    """A cell per batch; PostgreSQL only, as SQLite has no calls to compare with."""
    rounds = bench.plan.rounds
    return [
        Cell(rounds * 1.3, lambda place=place, batch=batch: _measure(bench, place, batch))
        for place in bench.places
        if has_server(place)
        for batch in bench.plan.batches
    ]


def _measure(bench: Bench, place: Place, batch: int) -> Iterable[Record]:
    def prepare(base: AnyBase) -> None:
        base.make_queue()
        base.fill(BACKLOG, CHANNELS)

    base = bench.base(place, "client", prepare)
    bare: list[dict[str, float]] = []
    ours: list[dict[str, float]] = []
    for _ in range(bench.plan.rounds):
        for side, into in (("bare", bare), ("ours", ours)):
            job = Job(base.url, side, "split", batch, bench.plan.seconds, channels=CHANNELS)
            into.append(bench.crew.split(job, base))
    for verb in ("send", "receive", "ack"):
        pairs = [(b[verb], o[verb]) for b, o in zip(bare, ours, strict=True)]
        yield Record(
            "client",
            place.name,
            f"{verb} {batch}",
            Spread.of([b for b, _ in pairs]).median,
            Spread.of([o for _, o in pairs]).median,
            Spread.of([o / b for b, o in pairs]),
            target=Target(2, at_least=False),
        )


SECTION = Section(
    "client",
    "client processor time a call; times a bare psycopg call of the same function",
    ("bare, µs", "ours, µs"),
    cells,
    "",
)
