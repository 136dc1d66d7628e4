"""Requests that wait for a message: what they cost while nothing comes, and how soon it comes."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable
from pathlib import Path

import turnabout.aio
from benchmarks.jobs import Job
from benchmarks.library import QUEUE
from benchmarks.on_server import ServerBase
from benchmarks.over_http import Crowd
from benchmarks.plan import Bench, Cell, Place, Section
from benchmarks.records import Record, Spread, Target

WAIT_SECONDS = 50
MEGABYTES = 100.0
CORE = 0.05
ARRIVALS = 20


def cells(bench: Bench) -> list[Cell]:
    """A cell per store."""
    plan = bench.plan
    return [
        Cell(8 + plan.parked / 200, lambda place=place: _measure(bench, place))
        for place in bench.places
    ]


def _measure(bench: Bench, place: Place) -> Iterable[Record]:
    plan = bench.plan
    base = place.base()
    try:
        base.make_queue()
        server = ServerBase(base.url, base)
        try:
            found = asyncio.run(_park(server, base.url, plan.parked, plan.parked_seconds))
        finally:
            server.close()
    finally:
        base.close()
    memory, share, arrivals = found
    at = f"{plan.parked:,} waiting requests"

    def record(case: str, ours: float, target: float | None) -> Record:
        aimed = None if target is None else Target(target, at_least=False)
        return Record("parked", place.name, f"{at}: {case}", None, ours, target=aimed)

    yield record("megabytes of the server's memory", memory, MEGABYTES)
    yield record("share of a processor, with its database's", share, CORE)
    yield record("milliseconds from a send to the first of them", Spread.of(arrivals).median, None)


async def _park(
    server: ServerBase, url: str, count: int, seconds: float
) -> tuple[float, float, list[float]]:
    before = _megabytes(server.pid)
    crowd = Crowd(Job(server.url, "ours", "receive", 1, seconds, connections=count))
    await crowd.connect()
    try:
        waiting = await crowd.park(WAIT_SECONDS)
        await asyncio.sleep(1.0)
        spent, begun = _spent(server), time.monotonic()
        await asyncio.sleep(seconds)
        share = (_spent(server) - spent) / 1e9 / (time.monotonic() - begun)
        memory = _megabytes(server.pid) - before
        for answer in waiting:
            if answer.done():
                answer.result()  # raises what the server said instead
                raise RuntimeError("a request did not wait")
        arrivals: list[float] = []
        async with turnabout.aio.connect(url) as mq:
            for place in range(min(ARRIVALS, count)):
                begun = time.monotonic()
                await mq.queue(QUEUE).send(b"x")
                await waiting[place]  # who asked first gets it
                arrivals.append((time.monotonic() - begun) * 1000)
    finally:
        crowd.close()
    return memory, share, arrivals


def _spent(server: ServerBase) -> int:
    return sum(server.server_ns().values())


def _megabytes(pid: int) -> float:
    status = Path(f"/proc/{pid}/status").read_text()
    (line,) = (line for line in status.splitlines() if line.startswith("VmRSS:"))
    return int(line.split()[1]) / 1024


SECTION = Section(
    "parked",
    "requests that wait for a message, each on its connection",
    ("", "measured"),
    cells,
    "",
)
