"""Cases in turns: each round has a slice of every peer, one after the other."""

from __future__ import annotations

import contextlib
import datetime as dt
import os
import sys
import traceback
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING, Any

from benchmarks.crew import Crew
from benchmarks.jobs import Action
from benchmarks.peers.peer import LeftOut, Peer, PeerJob
from benchmarks.peers.results import Case, CellResult, Figures, Setting, rounded
from benchmarks.plan import Place
from benchmarks.records import Slice

if TYPE_CHECKING:
    from benchmarks.peers.cells import Cell

MESSAGES_A_SECOND = {1: 12_000, 10: 50_000, 100: 150_000}
"""More than anybody receives, so that nothing runs dry in a slice."""
BIG_BACKLOG = 3_000


@dataclass(frozen=True, slots=True)
class Sizes:
    """How much is measured. `--quick` and the tests say less."""

    rounds: int = 5
    seconds: float = 0.4
    batches: Sequence[int] = (1, 10, 100)
    clients: Sequence[int] = (1, 4, 8)
    small: int = 10_000
    large: int = 1_000_000
    leased: int = 100_000
    counted: int = 200_000
    snapshot_seconds: float = 60.0
    rates: Sequence[int] = (10, 100, 1_000)
    latency_seconds: float = 4.0


QUICK = Sizes(
    rounds=3,
    seconds=0.25,
    batches=(1, 100),
    clients=(1, 4),
    large=100_000,
    leased=30_000,
    counted=50_000,
    snapshot_seconds=8.0,
    latency_seconds=2.0,
)


@dataclass
class Run:
    """The places, the client processes and the peers of a run."""

    sizes: Sizes
    places: Sequence[Place]
    crew: Crew
    peers: Sequence[Peer]
    say: Callable[[str], None] = print
    left_out: dict[str, str] = field(default_factory=dict)
    versions: dict[str, str] = field(default_factory=dict)
    _bases: dict[tuple[str, str, bool], Any] = field(default_factory=dict)

    def clients(self, store: str) -> list[int]:
        """How many client processes at once; SQLite has one writer."""
        return [n for n in self.sizes.clients if store == "PostgreSQL" or n <= 4]

    def backlog(self, setting: Setting) -> int:
        """How many messages a slice may need."""
        if setting.size > 10_000:
            return BIG_BACKLOG
        rate = MESSAGES_A_SECOND[setting.batch] * (2 if setting.store == "SQLite" else 1)
        return int(rate * self.sizes.seconds)

    def job(self, base: Any, peer: Peer, setting: Setting, action: Action) -> PeerJob:
        """Work for a client."""
        return PeerJob(
            base.url,
            peer.name,
            action,
            setting.batch,
            self.sizes.seconds * (peer.slices if action in ("drain", "put") else 1),
            channels=setting.channels if "channels" in peer.skills else 1,
            rate=setting.rate,
            size=setting.size,
        )

    def work(
        self, base: Any, peer: Peer, setting: Setting, action: Action, *, most: int = 1_000_000_000
    ) -> Slice:
        """One slice of the setting's clients, all of which do the same."""
        job = replace(self.job(base, peer, setting, action), most=most)
        return self.crew.work(job, setting.clients, base)

    @contextlib.contextmanager
    def base(
        self,
        peer: Peer,
        setting: Setting,
        kind: str = "",
        prepare: Callable[[Any], None] | None = None,
        *,
        fresh: bool = False,
    ) -> Iterator[Any]:
        """A database of the peer's own, kept for the cell unless it has to be fresh; on SQLite
        files, which are always fresh.
        """
        (place,) = (place for place in self.places if place.name == setting.store)
        key = (peer.name, f"{kind} {setting.channels} {setting.size}", setting.durable)
        if key in self._bases and not fresh:
            yield self._bases[key]
            return
        base = place.base(durable=setting.durable)
        kept = False
        try:
            peer.install(base)
            self.versions.setdefault(peer.name, peer.version())
            if prepare is not None:
                prepare(base)
            if not fresh and setting.store == "PostgreSQL":
                self._bases[key] = base
                kept = True
            yield base
        finally:
            if not kept:
                base.close()

    def forget(self) -> None:
        """Drop the databases of a cell."""
        for base in self._bases.values():
            base.close()
        self._bases.clear()

    def measure(self, cell: Cell) -> CellResult:
        """All cases of a cell."""
        load = os.getloadavg()[0]
        rounds = min(self.sizes.rounds, cell.rounds_max)
        today = dt.datetime.now(tz=dt.UTC).date().isoformat()
        stores = {place.name for place in self.places}
        try:
            cases = [
                self._case(cell, setting, rounds)
                for setting in cell.settings(self)
                if setting.store in stores
            ]
        finally:
            self.forget()
        cases = [case for case in cases if case.rounds]
        return CellResult(
            cell.name,
            cell.title.format(**asdict(self.sizes)),
            cases,
            today,
            rounds,
            self.sizes.seconds,
            round(load, 1),
        )

    def _case(self, cell: Cell, setting: Setting, rounds: int) -> Case:
        peers = [peer for peer in self.peers if self._fits(peer, cell, setting)]
        case = Case(setting, {peer.name: [] for peer in peers})
        for number in range(rounds):
            # The first peer meets another state of the machine than the last one.
            turn = number % max(len(peers), 1)
            for peer in peers[turn:] + peers[:turn]:
                if peer.name not in case.failed:
                    self._slice(cell, peer, case)
        for name in case.failed:
            case.rounds.pop(name, None)
        return case

    def _slice(self, cell: Cell, peer: Peer, case: Case) -> None:
        try:
            figures: Figures = cell.slice(self, peer, case.setting)
        except LeftOut as reason:
            self.left_out[peer.name] = str(reason)
            case.failed[peer.name] = str(reason)
            self.say(f"{peer.name} is left out: {reason}")
        except Exception as error:  # noqa: BLE001  # a peer's fault must not end the run
            last = traceback.format_exception_only(error)[-1].strip()
            case.failed[peer.name] = last
            print(f"{peer.name} failed in {cell.name}, {case.setting}: {last}", file=sys.stderr)
        else:
            case.rounds[peer.name].append(rounded(figures))

    def _fits(self, peer: Peer, cell: Cell, setting: Setting) -> bool:
        return (
            peer.store == setting.store
            and cell.skill in peer.skills
            and (cell.peers is None or peer.name in cell.peers)
            and setting.batch in peer.batches
            and setting.clients <= peer.processes_max
            and peer.name not in self.left_out
        )
