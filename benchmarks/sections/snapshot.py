"""An old snapshot held open by somebody else: everything that passes leaves a corpse behind."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Sequence

from benchmarks.jobs import Side
from benchmarks.plan import Bench, Cell, Place, Section, has_server
from benchmarks.records import Record, Slice, Spread, Target, speed

CLIENTS = 4
BACKLOG = 1_000
CHANNELS = (1, 100)


def cells(bench: Bench) -> list[Cell]:
    """A cell per store, batch and number of channels; large batches only on SQLite, whose
    snapshots hold up the log and nothing else.
    """
    plan = bench.plan
    return [
        Cell(
            plan.passing / (2_000 if batch < 100 else 8_000) * 1.5,
            lambda place=place, batch=batch, channels=channels: _measure(
                bench, place, batch, channels
            ),
        )
        for place in bench.places
        for batch in plan.batches
        if batch == 100 or (batch == 10 and (has_server(place) or plan.rounds == 1))
        for channels in CHANNELS
    ]


def _measure(bench: Bench, place: Place, batch: int, channels: int) -> Iterable[Record]:
    # Without, with, without: a fresh base each time, as a snapshot leaves its corpses behind.
    passing, short = bench.plan.passing, bench.plan.passing // 4
    about = (bench, place, batch, channels)
    before = _pass(*about, side="ours", messages=short)
    held = _pass(*about, side="ours", messages=passing, held=True)
    raw = _pass(*about, side="raw", messages=short)
    raw_held = _pass(*about, side="raw", messages=short, held=True)
    after = _pass(*about, side="ours", messages=short)

    at = f"batch {batch}, {CLIENTS} connections, {channels} channel{'s' * (channels > 1)}"
    passed = f"{held.messages:,} passed"
    yield _record(place, at, [before, after], [held, held], passed, target=Target(0.7))
    yield _record(place, f"{at}: raw", [raw], [raw_held], "the raw limit, with it")
    note = "both without, with sends"
    yield _record(place, f"{at}: ours for raw", [raw, raw], [before, after], note)
    if held.marks:
        yield Record(
            "snapshot",
            place.name,
            f"{at}: last eighth over first",
            None,
            held.flat,
            Spread.of([held.flat]),
            target=Target(0.7),
            note=f"without it: {Spread.of([before.flat, after.flat])}",
        )


def _pass(
    bench: Bench,
    place: Place,
    batch: int,
    channels: int,
    *,
    side: Side,
    messages: int,
    held: bool = False,
) -> Slice:
    """So many messages are sent, received and acked, beside an old snapshot or not."""
    base = place.base()
    with contextlib.ExitStack() as stack:
        stack.callback(base.close)
        base.make_queue()
        base.fill(BACKLOG, channels)
        base.fill_raw(BACKLOG)
        if held:
            stack.enter_context(base.old_snapshot())
        return bench.run(
            base,
            place,
            side,
            "churn",
            batch=batch,
            clients=CLIENTS,
            most=messages // CLIENTS,
            channels=channels,
            seconds=bench.plan.passing_seconds,
        )


def _record(
    place: Place,
    case: str,
    base: Sequence[Slice],
    ours: Sequence[Slice],
    note: str,
    *,
    target: Target | None = None,
) -> Record:
    return speed("snapshot", place.name, case, base, ours, target=target, note=note)


SECTION = Section(
    "snapshot",
    "send, receive and ack while an old snapshot is held open, against without",
    ("without", "with"),
    cells,
)
