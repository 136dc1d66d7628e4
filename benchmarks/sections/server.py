"""The server: requests a second, against a handler of the same framework that does nothing.

Each request sends, receives or acks one message, and its answer comes after the commit: both stores
are durable here, whatever the rest of the run is. The base is a route
of Starlette's that answers `{}`, the least that the framework can do.
"""

from __future__ import annotations

from collections.abc import Iterable

from benchmarks.jobs import Action, Job
from benchmarks.on_server import EMPTY, ServerBase
from benchmarks.plan import AnyBase, Bench, Cell, Place, Section
from benchmarks.records import Record, Slice, Target, speed

ACTIONS: tuple[Action, ...] = ("send", "receive", "ack")
ACKS_A_SECOND = 12_000
"""More than are ever acked: so many are leased before."""


def cells(bench: Bench) -> list[Cell]:
    """A cell per store and number of connections; each has the empty handlers in its turns."""
    plan = bench.plan
    return [
        Cell(
            3 + plan.rounds * 4 * (plan.server_seconds + 0.5),
            lambda place=place, connections=connections: _measure(bench, place, connections),
        )
        for place in bench.places
        for connections in plan.connections
    ]


def _measure(bench: Bench, place: Place, connections: int) -> Iterable[Record]:
    plan = bench.plan
    base = _durable(place)
    servers: list[ServerBase] = []
    try:
        base.make_queue()
        servers.append(ServerBase(EMPTY))
        servers.append(ServerBase(base.url, base))
        empty, ours = servers
        most = int(ACKS_A_SECOND * plan.server_seconds)

        def run(action: Action) -> Slice:
            server = empty if action == "nothing" else ours
            if action in ("receive", "ack"):
                base.fill(most, 1)
            job = Job(
                server.url, "ours", action, 1, plan.server_seconds, most, connections=connections
            )
            return bench.crew.work(job, 1, server)

        actions: tuple[Action, ...] = ("nothing", "send", "receive", "ack")
        slices = bench.turns({action: lambda action=action: run(action) for action in actions})
    finally:
        for server in servers:
            server.close()
        base.close()
    many = "" if connections == 1 else "s"
    for action in ACTIONS:
        yield speed(
            "server",
            place.name,
            f"{action}, {connections} connection{many}",
            slices["nothing"],
            slices[action],
            target=Target(0.3) if connections == 64 else None,
        )


def _durable(place: Place) -> AnyBase:
    """A base that is on disk when it says so."""
    before, place.durable = place.durable, True
    try:
        return place.base()
    finally:
        place.durable = before


SECTION = Section(
    "server",
    "requests to the server (synchronous full, synchronous_commit on), against an empty handler",
    ("empty", "ours"),
    cells,
)
