"""Messages that are leased, and not acked for long, are in nobody's way."""

from __future__ import annotations

from collections.abc import Iterable

from benchmarks.plan import AnyBase, Bench, Cell, Place, Section
from benchmarks.records import Record, Slice, Target, slowdown

CHANNELS = 100
BACKLOG = 20_000
CLIENTS = 2


def cells(bench: Bench) -> list[Cell]:
    """A cell per store and batch."""
    plan = bench.plan
    return [
        Cell(
            plan.rounds * 2 * (plan.slice_seconds(place) + 0.4) + 3,
            lambda place=place, batch=batch: _measure(bench, place, batch),
        )
        for place in bench.places
        for batch in plan.batches
    ]


def _measure(bench: Bench, place: Place, batch: int) -> Iterable[Record]:
    plan = bench.plan
    backlog = min(BACKLOG, plan.backlog)

    def run(leased: int) -> Slice:
        def prepare(base: AnyBase) -> None:
            base.make_queue()
            if leased:
                base.fill(leased, CHANNELS)
                base.lease(leased)

        base = bench.base(place, f"leased {leased}", prepare)
        base.fill(backlog, CHANNELS)
        most = int(backlog * 0.9 / CLIENTS)
        return bench.run(
            base, place, "ours", "drain", batch=batch, clients=CLIENTS, most=most, seconds=0.3
        )

    slices = bench.turns({n: lambda n=n: run(n) for n in (0, plan.backlog)})
    yield slowdown(
        "inflight",
        place.name,
        f"batch {batch}, {CLIENTS} receivers, {plan.backlog:,} leased beside",
        slices[0],
        slices[plan.backlog],
        target=Target(1.2, at_least=False),
    )


SECTION = Section(
    "inflight",
    "time of receive and ack beside leased messages; times that without",
    ("without", "with"),
    cells,
)
