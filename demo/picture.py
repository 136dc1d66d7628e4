"""The picture of the README: when each airline was served, without channels and with them.

Sixteen lanes, the biggest airline on top. A lane is dark where its flights were being handed out;
its red mark is the last of them. One file for light and dark, without fonts and scripts.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import groupby, pairwise
from pathlib import Path

from demo.ledger import DemoLedger
from demo.run import DemoOptions, ran
from demo.verdict import Service, Verdict, in_order

SHORT = {
    "9E": "Endeavor", "AA": "American", "AS": "Alaska", "B6": "JetBlue", "DL": "Delta",
    "EV": "ExpressJet", "F9": "Frontier", "FL": "AirTran", "HA": "Hawaiian", "MQ": "Envoy",
    "OO": "SkyWest", "UA": "United", "US": "US Airways", "VX": "Virgin", "WN": "Southwest",
    "YV": "Mesa",
}  # fmt: skip
BINS = 110
"""Parts of a lane, in the order of deliveries."""
LEFT, PANE, GAP = 150, 330, 40
TOP, LANE = 78, 17
LEGEND = """Deliveries in order. The flights were sent airline by airline, the biggest first. \
Red: an airline's last one."""
STYLE = """
text{font:12px system-ui,-apple-system,"Segoe UI",sans-serif;fill:#24292f}
.title{font-size:16px;font-weight:600}.quiet{fill:#57606a}.good{fill:#1a7f37;font-weight:600}
.lane{fill:#eef1f4}.some{fill:#7fb2de}.most{fill:#0b5394}.last{fill:#cf222e}
@media(prefers-color-scheme:dark){text{fill:#e6edf3}.quiet{fill:#8b949e}.good{fill:#3fb950}
.lane{fill:#21262d}.some{fill:#1f5d94}.most{fill:#8cc4f5}.last{fill:#ff7b72}}"""


@dataclass(frozen=True, slots=True)
class Pane:
    """One run: its carriers in the order of deliveries, and how each was served."""

    title: str
    order: Sequence[str]
    services: Sequence[Service]

    @property
    def smallest(self) -> Service:
        """Of whom it tells: the airline that was sent last."""
        return self.services[-1]


def make(options: DemoOptions, file: Path) -> None:
    """Run the demo twice, and write the picture."""
    options = replace(options, kill=False, pipeline=False)
    panes = [
        _pane(title, *ran(replace(options, channels=channels)))
        for title, channels in (
            ("One queue, no channels", False),
            ("A channel for each airline", True),
        )
    ]
    file.write_text(svg(*panes), encoding="utf-8")


def _pane(title: str, verdict: Verdict, ledger: DemoLedger) -> Pane:
    return Pane(title, [carrier for _, carrier in in_order(ledger)], verdict.services)


def svg(plain: Pane, fair: Pane) -> str:
    """Both panes side by side."""
    carriers = [service.carrier for service in fair.services]
    alt = (
        f"{len(carriers)} airlines share a queue of {len(fair.order):,} flights;"
        f" {_told(fair)} {fair.smallest.flights:,} were sent last. Without channels the last of"
        f" them is handed out after {plain.smallest.last_place:,} deliveries, with a channel for"
        f" each airline after {fair.smallest.last_place:,}."
    )
    width, base = LEFT + 2 * PANE + GAP + 20, TOP + len(carriers) * LANE
    names = (
        f'<text x="{LEFT - 8}" y="{TOP + n * LANE + 11}" text-anchor="end">'
        f'{SHORT.get(one.carrier, one.carrier)} <tspan class="quiet">{one.flights:,}</tspan></text>'
        for n, one in enumerate(fair.services)
    )
    parts = [
        *names,
        *_drawn(plain, LEFT, "quiet", carriers),
        *_drawn(fair, LEFT + PANE + GAP, "good", carriers),
        f'<text x="{LEFT}" y="{base + 36}" class="quiet">{LEGEND}</text>',
    ]
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {base + 48}" role="img"'
        f' aria-label="{alt}"><title>{alt}</title><style>{STYLE}\n</style>\n'
        + "\n".join(parts)
        + "\n</svg>\n"
    )


def _told(pane: Pane) -> str:
    name = SHORT.get(pane.smallest.carrier, pane.smallest.carrier)
    return f"{name}'s"


def _drawn(pane: Pane, x: int, tone: str, carriers: Sequence[str]) -> Iterable[str]:
    last, count = pane.smallest, len(pane.order)
    yield f'<text x="{x}" y="30" class="title">{pane.title}</text>'
    yield (
        f'<text x="{x}" y="50" class="{tone}">{_told(pane)} {last.flights:,} through after'
        f" {last.last_place:,} deliveries, {last.last_seconds:.2g} s</text>"
    )
    places = {service.carrier: service.last_place for service in pane.services}
    for n, carrier in enumerate(carriers):
        y = TOP + n * LANE
        yield f'<rect x="{x}" y="{y}" width="{PANE}" height="{LANE - 4}" class="lane"/>'
        yield from _lane(pane, carrier, x, y)
        mark = x + places[carrier] * PANE / count - 1
        yield f'<rect x="{mark:.1f}" y="{y - 1}" width="2" height="{LANE - 2}" class="last"/>'
    for share, anchor in ((0, "start"), (0.5, "middle"), (1, "end")):
        yield (
            f'<text x="{x + share * PANE:.0f}" y="{TOP + len(carriers) * LANE + 14}"'
            f' class="quiet" text-anchor="{anchor}">{round(share * count):,}</text>'
        )


def _lane(pane: Pane, carrier: str, x: int, y: int) -> Iterable[str]:
    """A rectangle for each run of parts that are alike: `most` of a part's deliveries, or some."""
    count = len(pane.order)
    edges = [round(n * count / BINS) for n in range(BINS + 1)]
    got = [pane.order[a:b].count(carrier) / max(b - a, 1) for a, b in pairwise(edges)]
    begin = 0
    for kind, run in groupby("most" if share > 0.5 else "some" if share else "" for share in got):
        end = begin + len(list(run))
        if kind:
            at, wide = x + begin * PANE / BINS, (end - begin) * PANE / BINS
            yield (
                f'<rect x="{at:.1f}" y="{y}" width="{wide:.1f}" height="{LANE - 4}"'
                f' class="{kind}"/>'
            )
        begin = end
