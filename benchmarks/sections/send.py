"""Sends, single and many, against the barest insert."""

from __future__ import annotations

from collections.abc import Iterable

from benchmarks.jobs import Side
from benchmarks.plan import AnyBase, Bench, Cell, Place, Section, has_server
from benchmarks.records import Record, Slice, Target, speed

SENDERS = (1, 4)
CHANNELS = (1, 100)


def cells(bench: Bench) -> list[Cell]:
    """A cell per batch and number of senders."""
    plan = bench.plan
    return [
        Cell(
            plan.rounds * 4 * (plan.slice_seconds(place) + 0.15),
            lambda place=place, batch=batch, senders=senders: _measure(
                bench, place, batch, senders
            ),
        )
        for place in bench.places
        for batch in (1, 100)
        for senders in SENDERS
        if senders <= plan.receivers_max
    ]


def _prepare(base: AnyBase) -> None:
    base.make_queue()


def _measure(bench: Bench, place: Place, batch: int, senders: int) -> Iterable[Record]:
    base = bench.base(place, "send", _prepare)

    def run(side: Side, channels: int) -> Slice:
        base.empty()
        return bench.run(base, place, side, "put", batch=batch, clients=senders, channels=channels)

    sides = {("raw", 1): lambda: run("raw", 1)}
    for channels in CHANNELS:
        sides["ours", channels] = lambda channels=channels: run("ours", channels)
    if has_server(place):
        sides["bare", CHANNELS[-1]] = lambda: run("bare", CHANNELS[-1])
    slices = bench.turns(sides)
    many = "" if senders == 1 else "s"
    for (side, channels), ours in slices.items():
        if side == "raw":
            continue
        kind = "SQL only, " if side == "bare" else ""
        yield speed(
            "send",
            place.name,
            f"{kind}{'single' if batch == 1 else f'many of {batch}'}, {senders} sender{many},"
            f" {channels} channel{'' if channels == 1 else 's'}",
            slices["raw", 1],
            ours,
            target=_target(place, batch, channels) if side == "ours" else None,
        )


def _target(place: Place, batch: int, channels: int) -> Target | None:
    if has_server(place):
        return Target(0.8)
    if batch == 1:
        return None
    return Target(0.6 if channels == 1 else 0.35)


SECTION = Section("send", "messages sent, against a bare insert", ("raw", "ours"), cells)
