"""A call costs the same however much waits, and however many channels there are."""

from __future__ import annotations

from collections.abc import Iterable

from benchmarks.plan import AnyBase, Bench, Cell, Place, Section
from benchmarks.records import Record, Slice, Target, slowdown

CHANNELS = 100
MESSAGES = 2_000


def cells(bench: Bench) -> list[Cell]:
    """A cell per store and batch; the first one of a store fills the bases."""
    plan = bench.plan
    filling = 2 * plan.large / 60_000
    return [
        Cell(
            plan.rounds * 3 * 0.7 + (filling if batch == plan.batches[0] else 0),
            lambda place=place, batch=batch: _measure(bench, place, batch),
        )
        for place in bench.places
        for batch in plan.batches
    ]


def _measure(bench: Bench, place: Place, batch: int) -> Iterable[Record]:
    plan = bench.plan
    shapes = {
        "small": (plan.small, CHANNELS),
        "large": (plan.large, CHANNELS),
        "wide": (plan.large, plan.many_channels),
    }

    def run(key: str) -> Slice:
        backlog, channels = shapes[key]

        def prepare(base: AnyBase) -> None:
            base.make_queue()
            base.fill(backlog, channels)

        base = bench.base(place, key, prepare)
        if key == "small":
            base.fill(backlog, channels)
        most = min(MESSAGES, MESSAGES * batch // 10 or 1, plan.small // 2)
        return bench.run(
            base, place, "ours", "drain", batch=batch, most=most, seconds=10, channels=channels
        )

    slices = bench.turns({key: lambda key=key: run(key) for key in shapes})
    yield slowdown(
        "growth",
        place.name,
        f"batch {batch}, backlog {plan.large:,} against {plan.small:,}",
        slices["small"],
        slices["large"],
        target=Target(1.3, at_least=False),
    )
    yield slowdown(
        "growth",
        place.name,
        f"batch {batch}, {plan.many_channels:,} channels against {CHANNELS}",
        slices["large"],
        slices["wide"],
        target=Target(1.5, at_least=False),
    )


SECTION = Section(
    "growth",
    "time of receive and ack, by backlog and channels; times the smaller one",
    ("smaller", "larger"),
    cells,
)
