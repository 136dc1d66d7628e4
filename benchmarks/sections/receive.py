"""Receive and ack, against the barest lease and delete."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from benchmarks.plan import AnyBase, Bench, Cell, Place, Section, has_server, receivers
from benchmarks.records import Record, Slice, Target, speed

HISTORY_AT = ((10, 4), (100, 1), (100, 4))
Key = tuple[str, int]


def cells(bench: Bench) -> list[Cell]:
    """A cell per batch and number of receivers: in it, all numbers of channels in turn."""
    plan = bench.plan
    return [
        Cell(
            plan.rounds * (len(plan.channels) + 2) * (plan.slice_seconds(place) + 0.5),
            lambda place=place, batch=batch, clients=clients: _measure(
                bench, place, batch, clients
            ),
        )
        for place in bench.places
        for batch in plan.batches
        for clients in receivers(bench, place)
    ]


def _measure(bench: Bench, place: Place, batch: int, clients: int) -> Iterable[Record]:
    plan = bench.plan
    middle = plan.channels[len(plan.channels) // 2]
    sides: dict[Key, Callable[[], Slice]] = {}

    def run(key: Key) -> Slice:
        kind, channels = key
        base = _base(bench, place, "history" if kind == "history" else "plain", channels)
        side = "ours" if kind == "history" else kind
        if side == "raw":
            base.fill_raw(plan.backlog)
        else:
            base.fill(plan.backlog, channels)
        most = int(plan.backlog * 0.9 / clients)
        return bench.run(
            base, place, side, "drain", batch=batch, clients=clients, most=most, channels=channels
        )

    keys = [("raw", plan.channels[0]), *(("ours", channels) for channels in plan.channels)]
    if has_server(place):
        keys.append(("bare", middle))
    if (batch, clients) in HISTORY_AT or plan.rounds == 1:
        keys.append(("history", middle))
    for key in keys:
        sides[key] = lambda key=key: run(key)
    slices = bench.turns(sides)
    yield from _records(place, batch, clients, slices)


def _records(
    place: Place, batch: int, clients: int, slices: dict[Key, list[Slice]]
) -> Iterable[Record]:
    (raw,) = (found for (kind, _), found in slices.items() if kind == "raw")
    at = f"batch {batch}, {clients} receiver{'' if clients == 1 else 's'}"
    for (kind, channels), ours in slices.items():
        case = f"{at}, {channels:,} channel{'' if channels == 1 else 's'}"
        match kind:
            case "ours":
                target = _target(place, batch)
                yield speed("receive", place.name, case, raw, ours, target=target)
            case "bare":
                yield speed("receive", place.name, f"{case}, SQL only", raw, ours)
            case "history":
                without = slices["ours", channels]
                yield speed(
                    "receive",
                    place.name,
                    f"{case}, history on",
                    without,
                    ours,
                    target=Target(0.67),
                    note="against ours without history",
                )


def _target(place: Place, batch: int) -> Target | None:
    if has_server(place):
        return Target(1.5 if batch == 1 and place.durable else 1.1 if batch == 100 else 1.0)
    return Target(1.0) if batch == 100 else None


def _base(bench: Bench, place: Place, kind: str, channels: int) -> AnyBase:
    return bench.base(
        place, f"{kind} {channels}", lambda base: base.make_queue(history=kind == "history")
    )


SECTION = Section("receive", "receive and ack, against the raw limit", ("raw", "ours"), cells)
