"""How much is measured, what with, and in which order: the plan, the stores, the turns."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import TypeVar

from benchmarks.crew import Crew
from benchmarks.jobs import Action, Job, Side
from benchmarks.on_postgres import PostgresBase, PostgresPlace
from benchmarks.on_sqlite import SqliteBase, SqlitePlace
from benchmarks.records import Record, Slice

Place = PostgresPlace | SqlitePlace
AnyBase = PostgresBase | SqliteBase
K = TypeVar("K")


@dataclass(frozen=True, slots=True)
class Plan:
    """Sizes of everything. `quick` and `tiny` say less, but take less time."""

    rounds: int = 5
    seconds: float = 0.5
    sqlite_seconds: float = 0.25
    batches: Sequence[int] = (1, 10, 100)
    receivers_max: int = 8
    backlog: int = 100_000
    large: int = 1_000_000
    many_channels: int = 100_000
    imports: int = 9
    connections: Sequence[int] = (1, 8, 64)
    server_seconds: float = 1.0
    parked: int = 2_000
    parked_seconds: float = 5.0
    streamed: int = 100_000

    def slice_seconds(self, place: Place) -> float:
        """How long a slice lasts. SQLite is quick enough to empty its backlog in a second."""
        return self.sqlite_seconds if isinstance(place, SqlitePlace) else self.seconds


QUICK = Plan(
    rounds=2,
    seconds=0.3,
    sqlite_seconds=0.15,
    batches=(1, 100),
    receivers_max=4,
    backlog=30_000,
    large=100_000,
    many_channels=10_000,
    imports=5,
    connections=(64,),
    server_seconds=0.5,
    parked_seconds=3.0,
    streamed=60_000,
)
TINY = Plan(
    rounds=1,
    seconds=0.05,
    sqlite_seconds=0.05,
    batches=(10,),
    receivers_max=1,
    backlog=1_500,
    large=1_000,
    many_channels=50,
    imports=1,
    connections=(4,),
    server_seconds=0.1,
    parked=20,
    parked_seconds=0.1,
    streamed=200,
)


@dataclass
class Bench:
    """What a section works with."""

    plan: Plan
    places: Sequence[Place]
    crew: Crew
    open_bases: ExitStack = field(default_factory=ExitStack)
    _bases: dict[tuple[str, str], AnyBase] = field(default_factory=dict)

    def base(self, place: Place, key: str, prepare: Callable[[AnyBase], None]) -> AnyBase:
        """The base of that name, made and prepared at its first use in a section."""
        name = (place.name, key)
        if name not in self._bases:
            base = place.base()
            self.open_bases.callback(base.close)
            prepare(base)
            self._bases[name] = base
        return self._bases[name]

    def forget_bases(self) -> None:
        """Close what a section has used."""
        self._bases.clear()
        self.open_bases.close()

    def run(
        self,
        base: AnyBase,
        place: Place,
        side: Side,
        action: Action,
        *,
        batch: int,
        clients: int = 1,
        most: int = 1_000_000_000,
        channels: int = 1,
        seconds: float | None = None,
    ) -> Slice:
        """One slice of work."""
        seconds = self.plan.slice_seconds(place) if seconds is None else seconds
        job = Job(base.url, side, action, batch, seconds, most, channels)
        return self.crew.work(job, clients, base)

    def turns(self, sides: Mapping[K, Callable[[], Slice]]) -> dict[K, list[Slice]]:
        """All sides, round by round, so that each figure has its counterpart close by in time."""
        slices: dict[K, list[Slice]] = {side: [] for side in sides}
        for _ in range(self.plan.rounds):
            for side, run in sides.items():
                slices[side].append(run())
        return slices


@dataclass(frozen=True, slots=True)
class Cell:
    """A step of a section: about how long it takes, and what it gives."""

    seconds: float
    run: Callable[[], Iterable[Record]]


@dataclass(frozen=True, slots=True)
class Section:
    """A table of figures."""

    name: str
    title: str
    columns: tuple[str, str]
    """What the two figures are."""
    cells: Callable[[Bench], list[Cell]]
    unit: str = "/s"


def has_server(place: Place) -> bool:
    """Whether there is a server, which our functions can be called on by hand."""
    return isinstance(place, PostgresPlace)
