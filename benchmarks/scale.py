"""Tenants on many databases: the simulation of `docs/scale.md`, by measured figures.

`python -m benchmarks.scale` draws tenants whose demand falls by Zipf's law, lets them arrive in a
random order, and places each by one of three rules. A database carries the measured rate of senders
beside receivers in `docs/performance/results.json`. The same seed prints the same tables.
"""

from __future__ import annotations

import hashlib
import json
import random
import statistics
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

MEASURED = Path(__file__).parents[1] / "docs" / "performance" / "results.json"
BATCH = 10
FULL = 0.7
"""No database should have more load than this; the rest is for peaks and for lost neighbours."""
USED = 0.5
"""What all tenants need, as a share of what all databases carry."""
DRAWS = {10: 50, 100: 5}
"""How often, for so many databases."""
EXPONENTS = {10: (0.8, 1.0, 1.2), 100: (0.6, 0.8, 1.0)}
Loads = Sequence[float]
"""By database; each carries 1."""


def capacity() -> float:
    """Messages a second that one database carries, sent and received at once: the median."""
    cells = json.loads(MEASURED.read_text(encoding="utf-8"))["cells"]
    (cell,) = (cell for cell in cells if cell["name"] == "mixed")
    (case,) = (case for case in cell["cases"] if case["setting"]["batch"] == BATCH)
    return statistics.median(figures["rate"] for figures in case["rounds"]["turnabout"])


def demands(tenants: int, exponent: float, databases: int) -> list[float]:
    """What each tenant needs, the largest first, as a share of a database."""
    weights = [rank**-exponent for rank in range(1, tenants + 1)]
    return [weight / sum(weights) * databases * USED for weight in weights]


def emptiest(loads: Loads) -> int:
    """The database with the lowest load."""
    return loads.index(min(loads))


def by_hash(loads: Loads, tenant: int, _: float) -> int:
    """A database by the tenant's name alone."""
    digest = hashlib.sha256(f"tenant-{tenant}".encode()).digest()
    return int.from_bytes(digest[:8], "big") % len(loads)


def first_fit(loads: Loads, _: int, needs: float) -> int:
    """The first database that has room; if none has, the emptiest."""
    fitting = (number for number, load in enumerate(loads) if load + needs <= FULL)
    return next(fitting, emptiest(loads))


RULES: dict[str, Callable[[Loads, int, float], int]] = {
    "hash": by_hash,
    "first fit": first_fit,
    "least loaded": lambda loads, _tenant, _needs: emptiest(loads),
}


def moves(homes: list[list[float]], loads: list[float]) -> int | None:
    """How many tenants have to move until no database is too full; None: no move helps."""
    moved = 0
    while (excess := max(loads) - FULL) > 1e-9:
        source, target = loads.index(max(loads)), emptiest(loads)
        fitting = sorted(size for size in homes[source] if size <= FULL - loads[target])
        if not fitting:
            return None
        # The smallest that is enough by itself, else the largest that fits.
        size = next((size for size in fitting if size >= excess), fitting[-1])
        homes[source].remove(size)
        homes[target].append(size)
        loads[source] -= size
        loads[target] += size
        moved += 1
    return moved


class Outcome(NamedTuple):
    """How one draw went: loads as shares of what a database carries."""

    over: float
    highest: float
    moves: int | None
    lost: float
    """The fullest database's share of all demand."""
    after: float
    """The highest load once its tenants live on the others, the largest placed first."""


def outcome(rule: str, sizes: Sequence[float], databases: int, seed: int) -> Outcome:
    """Place all tenants, in an order of chance, and look."""
    homes: list[list[float]] = [[] for _ in range(databases)]
    loads = [0.0] * databases
    for tenant, size in enumerate(random.Random(seed).sample(sizes, len(sizes))):
        number = RULES[rule](loads, tenant, size)
        homes[number].append(size)
        loads[number] += size
    highest = max(loads)
    fullest = loads.index(highest)
    rest = loads[:fullest] + loads[fullest + 1 :]
    for size in sorted(homes[fullest], reverse=True):
        rest[emptiest(rest)] += size
    over = sum(load > 1 for load in loads) / databases
    lost, after = highest / sum(loads), max(rest)
    return Outcome(over, highest, moves(homes, loads), lost, after)


def row(rule: str, exponent: float, tenants: int, databases: int) -> str:
    """One line of the table: the mean of the first share, medians of the rest."""
    sizes = demands(tenants, exponent, databases)
    found = [outcome(rule, sizes, databases, seed) for seed in range(DRAWS[databases])]
    highest = [each.highest for each in found]
    counts = [each.moves for each in found if each.moves is not None]
    moved = f"{statistics.median(counts):.0f}" if len(counts) * 2 > len(found) else "no move helps"
    return (
        f"| {exponent}, {sizes[0]:.0%} | {rule} | {statistics.mean(e.over for e in found):.1%}"
        f" | {statistics.median(highest):.0%} [{min(highest):.0%}–{max(highest):.0%}] | {moved}"
        f" | {statistics.median(e.lost for e in found):.0%}"
        f" | {statistics.median(e.after for e in found):.0%} |"
    )


def table(databases: int) -> str:
    """A row for each law and rule, as Markdown; a hundred tenants for each database."""
    tenants = 100 * databases
    titles = [f"{tenants:,} tenants on {databases}: exponent, largest", "placed by", "over 100%"]
    titles += ["highest load", f"moves to below {FULL:.0%}", "demand lost with it", "load then"]
    rows = [row(rule, each, tenants, databases) for each in EXPONENTS[databases] for rule in RULES]
    return "\n".join([f"| {' | '.join(titles)} |", "|---|---|---:|---:|---:|---:|---:|", *rows])


if __name__ == "__main__":
    print(f"A database carries {capacity():,.0f} messages a second.")
    for databases in DRAWS:
        print("", table(databases), sep="\n")
