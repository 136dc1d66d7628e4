"""A cell as tables: figures of each peer, and goals. For the terminal and for the page."""

from __future__ import annotations

from benchmarks.peers.cells import BY_NAME
from benchmarks.peers.goals import GOALS, NAMES
from benchmarks.peers.known import PEERS
from benchmarks.peers.results import Case, CellResult
from benchmarks.records import Spread

Rows = list[list[str]]
UNITS = {"rate": "/s", "kept": "kept", "p50_ms": "p50 ms", "p95_ms": "p95 ms", "p99_ms": "p99 ms"}


def text(cell: CellResult) -> str:
    """For a terminal."""
    parts = [f"\n{cell.name}: {cell.title}", *(_aligned(rows) for rows in tables(cell))]
    return "\n\n".join(parts)


def markdown(rows: Rows) -> str:
    """For the page."""
    head, *body = rows
    rule = ["---", *["---:"] * (len(head) - 1)]
    return "\n".join("| " + " | ".join(row) + " |" for row in (head, rule, *body))


def tables(cell: CellResult) -> list[Rows]:
    """Figures; and goals, where there are any."""
    judged = goals(cell)
    return [figures(cell), judged] if len(judged) > 1 else [figures(cell)]


def peers_of(cell: CellResult) -> list[str]:
    """Those that were measured, or failed, in the order of the tables."""
    known = {name for case in cell.cases for name in (*case.rounds, *case.failed)}
    return [peer.name for peer in PEERS if peer.name in known]


def figures(cell: CellResult) -> Rows:
    """A line for each case, a column for each peer: medians, and processor time of a message."""
    names = peers_of(cell)
    rows: Rows = [["", *names]]
    for case in cell.cases:
        for measure in BY_NAME[cell.name].measures:
            unit = UNITS.get(measure, NAMES.get(measure, measure))
            shown = [_figure(case, name, measure) for name in names]
            rows.append([f"{case.setting} ({unit})" if unit != "/s" else str(case.setting), *shown])
    return rows


def goals(cell: CellResult) -> Rows:
    """A line for each goal of each case: what was measured, and the verdict."""
    rows: Rows = [["", "goal", "measured", "by processor time", "verdict"]]
    for case in cell.cases:
        for goal in GOALS:
            if not goal.fits(cell.name, case.setting):
                continue
            judged = goal.judge(case)
            if judged is None:
                continue
            verdict = f"**{judged.verdict}**" if judged.verdict == "missed" else judged.verdict
            if judged.decided_by_cpu:
                verdict += ", by processor time"
            rows.append(
                [
                    str(case.setting),
                    str(goal),
                    number(judged.ratio),
                    number(judged.by_cpu) if judged.by_cpu else "",
                    verdict,
                ]
            )
    return rows


def number(spread: Spread) -> str:
    """A median with its range."""
    if spread.low == spread.high:
        return short(spread.median)
    return f"{short(spread.median)} [{short(spread.low)}–{short(spread.high)}]"


def short(value: float) -> str:
    """As many digits as say something."""
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}" if value >= 10 else f"{value:.2f}"


def _figure(case: Case, peer: str, measure: str) -> str:
    spread = case.spread(peer, measure)
    if spread is None:
        return "failed" if peer in case.failed else "–"
    cost = case.spread(peer, "cost_us") if measure == "rate" else None
    return short(spread.median) + (f" ({short(cost.median)} µs)" if cost else "")


def _aligned(rows: Rows) -> str:
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    lines = [
        "  ".join(
            cell.ljust(width) if i == 0 else cell.rjust(width)
            for i, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    ]
    lines.insert(1, "-" * max(map(len, lines)))
    return "\n".join(lines).replace("**", "")
