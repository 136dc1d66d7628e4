"""What a measurement says: plain values, with nothing that measures or prints."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final, Literal

NOISY: Final = "too noisy to tell"
Verdict = Literal["reached", "missed", "too noisy to tell"]


@dataclass(frozen=True, slots=True)
class Slice:
    """A short stretch of work of some clients together. Times in µs are of processors."""

    rate: float
    """Messages a second, all clients."""
    messages: int
    calls: int
    empty: int
    """Receives that came back with nothing."""
    client_us: float
    """A message, in the client processes."""
    server_us: float | None
    """A message, in the server's processes; None: there is no server, or it is elsewhere."""

    @property
    def cost_us(self) -> float:
        """Processor time of both ends, a message."""
        return self.client_us + (self.server_us or 0.0)


@dataclass(frozen=True, slots=True)
class Spread:
    """A median with the lowest and highest value."""

    median: float
    low: float
    high: float

    @classmethod
    def of(cls, values: Sequence[float]) -> Spread:
        """The spread of some values, at least one."""
        return cls(statistics.median(values), min(values), max(values))

    def __str__(self) -> str:
        if self.low == self.high:
            return f"{self.median:.2f}"
        return f"{self.median:.2f} [{self.low:.2f}–{self.high:.2f}]"


@dataclass(frozen=True, slots=True)
class Target:
    """What a figure has to reach."""

    value: float
    at_least: bool = True

    def reached(self, figure: float) -> bool:
        """Whether the figure is as good as that, at the two digits that are printed."""
        shown = round(figure, 2)
        return shown >= self.value if self.at_least else shown <= self.value

    def verdict(self, spread: Spread) -> Verdict:
        """Whether it is reached. Nobody can tell where the rounds lie on both sides of it: there
        the spread is larger than the distance.
        """
        worst, best = (spread.low, spread.high) if self.at_least else (spread.high, spread.low)
        if self.reached(worst):
            return "reached"
        return NOISY if self.reached(best) else "missed"

    def __str__(self) -> str:
        return f"{'≥' if self.at_least else '≤'} {self.value:g}"


@dataclass(frozen=True, slots=True)
class Record:
    """One line of a table: a case, two figures, their ratio, and what it has to be."""

    section: str
    store: str
    case: str
    base: float | None
    ours: float
    ratio: Spread | None = None
    cpu: Spread | None = None
    base_us: tuple[float, float | None] | None = None
    ours_us: tuple[float, float | None] | None = None
    target: Target | None = None
    note: str = ""

    @property
    def figure(self) -> float:
        """What is held against the target."""
        return self.ours if self.ratio is None else self.ratio.median

    @property
    def verdict(self) -> Verdict | Literal[""]:
        """What its target says of it; nothing where there is none."""
        if self.target is None:
            return ""
        return self.target.verdict(self.ratio or Spread.of([self.ours]))

    def as_json(self) -> dict[str, Any]:
        """The record for `--json`."""
        return {**asdict(self), "verdict": self.verdict}


def speed(
    section: str,
    store: str,
    case: str,
    base: Sequence[Slice],
    ours: Sequence[Slice],
    *,
    target: Target | None = None,
    note: str = "",
) -> Record:
    """Our rate over the base's, round by round: one or more is at least as quick."""
    if empty := sum(s.empty for s in ours):
        share = empty / sum(s.calls for s in ours)
        note = ", ".join(filter(None, [note, f"{share:.0%} empty" if share >= 0.005 else ""]))
    return Record(
        section,
        store,
        case,
        statistics.median(s.rate for s in base),
        statistics.median(s.rate for s in ours),
        _ratios(base, ours, lambda b, o: o.rate / b.rate),
        _ratios(base, ours, lambda b, o: b.cost_us / o.cost_us),
        _cost(base),
        _cost(ours),
        target,
        note,
    )


def slowdown(
    section: str,
    store: str,
    case: str,
    base: Sequence[Slice],
    ours: Sequence[Slice],
    *,
    target: Target,
    note: str = "",
) -> Record:
    """How many times longer a message takes us than in the base case: one or less is as quick."""
    return Record(
        section,
        store,
        case,
        statistics.median(s.rate for s in base),
        statistics.median(s.rate for s in ours),
        _ratios(base, ours, lambda b, o: b.rate / o.rate),
        _ratios(base, ours, lambda b, o: o.cost_us / b.cost_us),
        _cost(base),
        _cost(ours),
        target,
        note,
    )


def _ratios(
    base: Sequence[Slice], ours: Sequence[Slice], of: Callable[[Slice, Slice], float]
) -> Spread:
    return Spread.of([of(b, o) for b, o in zip(base, ours, strict=True)])


def _cost(slices: Sequence[Slice]) -> tuple[float, float | None]:
    server = [s.server_us for s in slices if s.server_us is not None]
    return (
        statistics.median(s.client_us for s in slices),
        statistics.median(server) if server else None,
    )
