"""Channels that may not go are in nobody's way."""

from __future__ import annotations

from collections.abc import Iterable

from benchmarks.plan import AnyBase, Bench, Cell, Place, Section
from benchmarks.records import Record, Slice, Target, slowdown

CHANNELS = 100
BACKLOG = 20_000
CLIENTS = 2


def cells(bench: Bench) -> list[Cell]:
    """A cell per store and batch; the first one of a store makes the channels."""
    plan = bench.plan
    return [
        Cell(
            plan.rounds * 3 * (plan.slice_seconds(place) + 0.4)
            + (plan.many_channels / 2_500 if batch == plan.batches[0] else 0),
            lambda place=place, batch=batch: _measure(bench, place, batch),
        )
        for place in bench.places
        for batch in plan.batches
    ]


def _measure(bench: Bench, place: Place, batch: int) -> Iterable[Record]:
    plan = bench.plan
    backlog = min(BACKLOG, plan.backlog)

    def run(blocked: int) -> Slice:
        def prepare(base: AnyBase) -> None:
            base.make_queue()
            if blocked:
                base.add_blocked(blocked)

        base = bench.base(place, f"blocked {blocked}", prepare)
        base.fill(backlog + blocked, CHANNELS)  # the blocked ones have one each
        most = int(backlog * 0.9 / CLIENTS)
        return bench.run(
            base, place, "ours", "drain", batch=batch, clients=CLIENTS, most=most, seconds=0.3
        )

    slices = bench.turns({n: lambda n=n: run(n) for n in (0, 1, plan.many_channels)})
    at = f"batch {batch}, {CLIENTS} receivers"
    for blocked, note in ((1, "what one limit costs"), (plan.many_channels, "")):
        yield slowdown(
            "limited",
            place.name,
            f"{at}, {blocked:,} blocked channel{'' if blocked == 1 else 's'} beside",
            slices[0],
            slices[blocked],
            target=Target(1.25, at_least=False),
            note=note,
        )


SECTION = Section(
    "limited",
    "time of receive and ack beside channels that wait for a rate or a slot; times that without",
    ("without", "with"),
    cells,
)
