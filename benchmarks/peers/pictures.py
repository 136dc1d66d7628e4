"""Figures as SVG: a panel for each case, a bar for each peer, and a thin line from the lowest round
to the highest. The bars of a panel share a scale; panels don't.
"""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from benchmarks.peers.known import US
from benchmarks.peers.results import Case
from benchmarks.peers.tables import short
from benchmarks.records import Spread

PANEL, GAP, COLUMNS = 316, 20, 3
NAME, VALUE = 128, 52
"""Room for a peer's name, and for its figure."""
ROW, BAR, TITLE, HEAD = 17, 11, 22, 26
STYLE = """
text{font:11px system-ui,sans-serif;fill:#333}
.head{font-weight:600;font-size:13px}.case{font-weight:600}.name{text-anchor:end}
.bar{fill:#aab4c3}.raw{fill:#d7dce4}.ours{fill:#2f6fd0}.range{stroke:#333;stroke-width:1}
@media(prefers-color-scheme:dark){text{fill:#ddd}.bar{fill:#6b7789}.raw{fill:#4a5361}
.ours{fill:#5b95ec}.range{stroke:#ddd}}
"""


def picture(title: str, cases: Sequence[Case], peers: Sequence[str], measure: str) -> str:
    """One picture of several cases."""
    panels = [_panel(case, peers, measure) for case in cases]
    columns = min(COLUMNS, len(panels))
    width = COLUMNS * (PANEL + GAP) - GAP  # of all pictures, as they stand below one another
    lines: list[str] = []
    top = HEAD
    for first in range(0, len(panels), columns):
        row = panels[first : first + columns]
        for number, (_, body) in enumerate(row):
            lines.append(f'<g transform="translate({number * (PANEL + GAP)} {top})">')
            lines += [*body, "</g>"]
        top += max(height for height, _ in row) + GAP // 2
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {top}" width="{width}"'
        f' height="{top}" role="img"><title>{escape(title)}</title><style>{STYLE}</style>'
    )
    return "\n".join(
        [head, f'<text class="head" y="14">{escape(title)}</text>', *lines, "</svg>\n"]
    )


def _panel(case: Case, peers: Sequence[str], measure: str) -> tuple[int, list[str]]:
    """Its height, and what is in it."""
    spreads = [(peer, case.spread(peer, measure)) for peer in peers]
    known = [(peer, spread) for peer, spread in spreads if spread is not None]
    longest = max((spread.high for _, spread in known), default=1.0) or 1.0
    room = PANEL - NAME - VALUE
    lines = [f'<text class="case" y="13">{escape(str(case.setting))}</text>']
    for number, (peer, spread) in enumerate(known):
        lines += _bar(peer, spread, TITLE + number * ROW, room / longest)
    return TITLE + len(known) * ROW, lines


def _bar(peer: str, spread: Spread, top: int, scale: float) -> list[str]:
    kind = "ours" if peer.startswith(US) else "raw" if peer.startswith("raw") else "bar"
    length, low, high = (max(v * scale, 0.5) for v in (spread.median, spread.low, spread.high))
    middle, base = top + BAR / 2, top + BAR - 1.5
    line = f'<line class="range" x1="{NAME + low:.1f}" x2="{NAME + high:.1f}"'
    return [
        f'<text class="name" x="{NAME - 6}" y="{base}">{escape(peer)}</text>',
        f'<rect class="{kind}" x="{NAME}" y="{top}" width="{length:.1f}" height="{BAR}"/>',
        f'{line} y1="{middle}" y2="{middle}"/>',
        f'<text x="{NAME + high + 5:.1f}" y="{base}">{short(spread.median)}</text>',
    ]
