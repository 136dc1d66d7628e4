"""What events cost, and what a NOTIFY in each sender's transaction would: many clients at once."""

from __future__ import annotations

from collections.abc import Iterable

import psycopg

from benchmarks.jobs import Action, Side
from benchmarks.plan import AnyBase, Bench, Cell, Place, Section, has_server
from benchmarks.records import Record, Slice, Target, speed

LEVELS = ("off", "hints", "all")
CLIENTS = 8
CHANNELS = 100
BATCH = 10


def cells(bench: Bench) -> list[Cell]:
    """A cell per store and action, and one for NOTIFY where there is such a thing."""
    plan = bench.plan
    clients = min(CLIENTS, plan.receivers_max)
    found = [
        Cell(
            plan.rounds * len(LEVELS) * (plan.slice_seconds(place) + 0.3),
            lambda place=place, action=action: _measure(bench, place, action, clients),
        )
        for place in bench.places
        for action in ("put", "drain")
    ]
    found += [
        Cell(
            plan.rounds * 2 * (plan.slice_seconds(place) + 0.3),
            lambda place=place: _loud(bench, place, clients),
        )
        for place in bench.places
        if has_server(place)
    ]
    return found


def _measure(bench: Bench, place: Place, action: Action, clients: int) -> Iterable[Record]:
    plan = bench.plan

    def run(level: str) -> Slice:
        base = bench.base(place, f"events {level}", lambda base: base.make_queue(events=level))
        if action == "put":
            base.empty()
            return bench.run(
                base, place, "ours", "put", batch=1, clients=clients, channels=CHANNELS
            )
        base.fill(plan.backlog, CHANNELS)
        most = int(plan.backlog * 0.9 / clients)
        return bench.run(base, place, "ours", "drain", batch=BATCH, clients=clients, most=most)

    slices = bench.turns({level: lambda level=level: run(level) for level in LEVELS})
    what = "single sends" if action == "put" else f"receive and ack, batch {BATCH}"
    for level, least in (("hints", 0.9), ("all", 0.4)):
        yield speed(
            "events",
            place.name,
            f"{what}, {clients} client{'' if clients == 1 else 's'}, events {level}",
            slices["off"],
            slices[level],
            target=Target(least),
            note="against events off",
        )


def _loud(bench: Bench, place: Place, clients: int) -> Iterable[Record]:
    def run(side: Side) -> Slice:
        base: AnyBase = bench.base(place, "events off", lambda base: base.make_queue())
        base.empty()
        with psycopg.connect(base.url, autocommit=True) as ear:
            ear.execute("listen bench")
            return bench.run(base, place, side, "put", batch=1, clients=clients, channels=CHANNELS)

    slices = bench.turns({side: lambda side=side: run(side) for side in ("bare", "loud")})
    yield speed(
        "events",
        place.name,
        f"single sends, {clients} client{'' if clients == 1 else 's'}, a NOTIFY in each",
        slices["bare"],
        slices["loud"],
        note="what others do, and we do not",
    )


SECTION = Section(
    "events", "what events cost; and a NOTIFY in each send", ("without", "with"), cells
)
