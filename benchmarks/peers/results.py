"""Figures of peers: round by round, with ratios and verdicts; kept as JSON."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Final, Literal

from benchmarks.records import NOISY, Spread, Target, Verdict

Figures = Mapping[str, float]
"""What one slice says, by measure: `rate`, `client_us`, `p50_ms` …"""
ROUNDS_MIN = 3
"""Of less nobody knows the spread."""
TOO_FEW: Final = "too few rounds"
BY_CPU = {"rate": "cost_us", "kept": "kept_cpu"}
"""The same in processor time."""
LESS_IS_BETTER = ("_us", "_ms", "_bytes")


@dataclass(frozen=True, slots=True)
class Setting:
    """What was done in a case."""

    store: str
    batch: int = 1
    clients: int = 1
    channels: int = 1
    size: int = 100
    rate: int = 0
    """Messages a second, where they come at a rate."""
    durable: bool = False
    called: str = "batch"
    """What a batch is there: for a worker, how many tasks it runs at once."""

    def __str__(self) -> str:
        words = [f"{self.called} {self.batch}"] if not self.rate else [f"{self.rate:,} a second"]
        if self.clients:
            words.append(f"{self.clients} process{'' if self.clients == 1 else 'es'}")
        if self.channels > 1:
            words.append(f"{self.channels:,} channels")
        if self.size != 100:
            words.append(f"{self.size / 1024:.0f} kB")
        return ", ".join(words)


@dataclass(frozen=True, slots=True)
class Case:
    """The figures of one case: of each peer, those of each round."""

    setting: Setting
    rounds: dict[str, list[Figures]]
    failed: dict[str, str] = field(default_factory=dict)

    def spread(self, peer: str, measure: str) -> Spread | None:
        """A peer's median figure, with the lowest and highest."""
        values = [value_of(figures, measure) for figures in self.rounds.get(peer, ())]
        known = [value for value in values if value is not None]
        return Spread.of(known) if known else None

    def ratio(self, ours: str, other: str, measure: str) -> Spread | None:
        """Our figure over another's, round by round. `cost_us` is turned around, so that as with
        rates more is better for us.
        """
        pairs = zip(self.rounds.get(ours, ()), self.rounds.get(other, ()), strict=False)
        values: list[float] = []
        for mine, theirs in pairs:
            a, b = value_of(mine, measure), value_of(theirs, measure)
            if a and b:
                values.append(b / a if measure == "cost_us" else a / b)
        return Spread.of(values) if values else None

    def count(self, peer: str) -> int:
        """How many rounds a peer has."""
        return len(self.rounds.get(peer, ()))


def value_of(figures: Figures, measure: str) -> float | None:
    """A figure; `cost_us` is the processor time of both ends."""
    if measure == "cost_us":
        client = figures.get("client_us")
        return None if client is None else client + figures.get("server_us", 0.0)
    return figures.get(measure)


@dataclass(frozen=True, slots=True)
class Judged:
    """A goal in a case."""

    ratio: Spread
    by_cpu: Spread | None
    verdict: Verdict | Literal["too few rounds"]
    decided_by_cpu: bool = False


def judge(
    case: Case, target: Target, *, ours: str, other: str | None, measure: str, timed: bool = True
) -> Judged | None:
    """Whether a goal is reached; None where it wasn't measured. What the wall clock is too noisy
    for, the processor time of client and server may decide.
    """
    spread = case.ratio(ours, other, measure) if other else case.spread(ours, measure)
    if spread is None:
        return None
    by_cpu = BY_CPU.get(measure)
    cpu = case.ratio(ours, other, by_cpu) if other and by_cpu else None
    count = min(case.count(ours), case.count(other) if other else case.count(ours))
    if timed and count < ROUNDS_MIN:
        return Judged(spread, cpu, TOO_FEW)
    verdict = target.verdict(spread)
    if verdict == NOISY and cpu is not None and (second := target.verdict(cpu)) != NOISY:
        return Judged(spread, cpu, second, decided_by_cpu=True)
    return Judged(spread, cpu, verdict)


@dataclass(frozen=True, slots=True)
class CellResult:
    """A cell that was measured, and when."""

    name: str
    title: str
    cases: list[Case]
    measured: str
    """The day."""
    rounds: int
    seconds: float
    load: float
    """Of the machine, when it began."""


@dataclass(slots=True)
class Results:
    """All that is known: cells may come from several runs of the same machine."""

    machine: str = ""
    stores: list[str] = field(default_factory=list)
    versions: dict[str, str] = field(default_factory=dict)
    left_out: dict[str, str] = field(default_factory=dict)
    cells: list[CellResult] = field(default_factory=list)

    def add(self, newer: Results) -> None:
        """Take what was measured anew."""
        again = {store.split()[0] for store in newer.stores}
        self.machine = newer.machine
        self.stores = [s for s in self.stores if s.split()[0] not in again] + newer.stores
        self.versions |= newer.versions
        self.left_out = {**newer.left_out}
        names = {cell.name for cell in newer.cells}
        self.cells = [cell for cell in self.cells if cell.name not in names] + newer.cells

    def as_json(self) -> str:
        """For `--json`."""
        return json.dumps(asdict(self), indent=1, ensure_ascii=False) + "\n"


def read(path: Path) -> Results:
    """What was kept there; nothing where there is no file."""
    if not path.exists():
        return Results()
    kept: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    cells = [
        CellResult(
            **{
                **cell,
                "cases": [
                    Case(Setting(**case["setting"]), case["rounds"], case["failed"])
                    for case in cell["cases"]
                ],
            }
        )
        for cell in kept.pop("cells")
    ]
    return Results(**kept, cells=cells)


def rounded(figures: Figures) -> dict[str, float]:
    """With as many digits as anybody will read."""
    return {name: float(f"{value:.4g}") for name, value in figures.items()}


def percentile(values: list[float], share: float) -> float:
    """The value that this share of them does not exceed."""
    ordered = sorted(values)
    return ordered[min(int(len(ordered) * share), len(ordered) - 1)]
