"""A new tenant beside one that floods, and how even the shares are."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from contextlib import ExitStack

import turnabout
from benchmarks.library import PAYLOAD, QUEUE
from benchmarks.plan import AnyBase, Bench, Cell, Place, Section
from benchmarks.records import Record, Spread, Target

BATCH = 10
TENANTS = 100
NEWCOMERS = ("a-newcomer", "z-newcomer")  # before and after the flood, by name


def cells(bench: Bench) -> list[Cell]:
    """Two cells per store: the newcomer, the shares."""
    plan = bench.plan
    filling = plan.large / 60_000
    return [
        cell
        for place in bench.places
        for cell in (
            Cell(filling + 1, lambda place=place: _newcomer(bench, place)),
            Cell(filling / 10 + 1, lambda place=place: _shares(bench, place)),
        )
    ]


def _newcomer(bench: Bench, place: Place) -> Iterable[Record]:
    """After how many receives a single message of a new tenant is handed out."""

    def prepare(base: AnyBase) -> None:
        base.make_queue()
        base.fill_flood(bench.plan.large, 0, 1.0)

    base = bench.base(place, "flood", prepare)
    for receivers in (1, 4):
        waits: list[int] = []
        with ExitStack() as stack:
            queues = [
                stack.enter_context(turnabout.connect(base.url)).queue(QUEUE)
                for _ in range(receivers)
            ]
            for attempt in range(10):
                for queue in queues:
                    _work(queue, BATCH)
                name = NEWCOMERS[attempt % 2]
                queues[0].send(PAYLOAD, channel=f"{name}-{attempt}")
                waits.append(_calls_until(queues, name))
        yield Record(
            "fairness",
            place.name,
            f"receives until a newcomer's message comes, {receivers} receiver"
            f"{'s' * (receivers > 1)}, beside {bench.plan.large:,}",
            None,
            max(waits),
            target=Target(receivers, at_least=False),
            note=f"batch {BATCH}; {len(waits)} newcomers, the slowest",
        )


def _calls_until(queues: Sequence[turnabout.Queue], channel: str) -> int:
    for calls in range(1, 1_001):
        if any(name.startswith(channel) for name in _work(queues[calls % len(queues)], BATCH)):
            return calls
    return 1_000


def _work(queue: turnabout.Queue, batch: int) -> list[str]:
    messages = queue.receive(batch)
    queue.ack([message.receipt for message in messages])
    return [message.channel for message in messages]


def _shares(bench: Bench, place: Place) -> Iterable[Record]:
    """How even 100 channels are served while one of them holds nine messages of ten."""
    backlog = bench.plan.backlog

    def prepare(base: AnyBase) -> None:
        base.make_queue()
        base.fill_flood(backlog, TENANTS - 1, 0.9)

    base = bench.base(place, "shares", prepare)
    with turnabout.connect(base.url) as connection:
        queue = connection.queue(QUEUE)
        for batch in (BATCH, 100):
            served: Counter[str] = Counter()
            # A fifth of what the small ones have, so that none of them runs dry.
            while served.total() < backlog // 50:
                served.update(_work(queue, batch))
            counts = list(served.values())
            index = sum(counts) ** 2 / (TENANTS * sum(count**2 for count in counts))
            yield Record(
                "fairness",
                place.name,
                f"Jain index over {TENANTS} channels, one holds 90 %, batch {batch}",
                None,
                index,
                Spread.of([index]),
                note=f"largest share {max(counts) / sum(counts):.1%}",
            )


SECTION = Section("fairness", "who waits for whom", ("", "value"), cells, "")
