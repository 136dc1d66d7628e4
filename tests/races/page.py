"""The report of a chaos run, as one page: the verdict, the sums, a row of faults for each round."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

TONES = {"kill": "#57606a", "stop": "#9a6700", "cut": "#0969da", "tear": "#0969da"}
TONES |= dict.fromkeys(("silence", "door"), "#8250df")
TONES |= dict.fromkeys(("crash", "immediate", "backend", "failover"), "#cf222e")
STYLE = """
:root{color-scheme:light dark}
body{font:15px/1.5 system-ui,sans-serif;margin:2em auto;max-width:60em;padding:0 1em}
table{border-collapse:collapse;width:100%}
td,th{padding:.25em .6em;text-align:left;
border-bottom:1px solid #8884}td.n{text-align:right;font-variant-numeric:tabular-nums}
.valid{color:#1a7f37}.invalid{color:#cf222e}.unknown{color:#9a6700}pre{white-space:pre-wrap}
svg{display:block;width:100%;height:22px;background:#8882}"""


def page(
    rounds: Sequence[Any],
    verdict: str,
    numbers: Mapping[str, int],
    faults: Mapping[str, int],
    missing: Sequence[str],
) -> str:
    """The whole document: nothing in it is from elsewhere."""
    sums = {**numbers, **{f"fault: {name}": count for name, count in faults.items()}}
    rows = "".join(f"<tr><td>{escape(k)}<td class=n>{v:,}" for k, v in sorted(sums.items()))
    wrong = [f"{one.store}, seed {one.seed}: {what}" for one in rounds for what in one.violations]
    return (
        "<!doctype html><html lang=en><meta charset=utf-8><title>Chaos</title>"
        f"<style>{STYLE}</style><h1>Chaos: <span class={verdict}>{verdict}</span></h1>"
        f"<p>{len(rounds)} rounds, {numbers.get('accepted', 0):,} sends acknowledged,"
        f" {sum(faults.values()):,} faults, {len(wrong)} violations.</p>"
        + (f"<pre>{escape(chr(10).join([*missing, *wrong]))}</pre>" if missing or wrong else "")
        + "<h2>Rounds</h2><p>Each mark is a fault, from the beginning of a round to its end:"
        " <span style='color:#57606a'>process killed</span>, <span style='color:#9a6700'>stopped"
        "</span>, <span style='color:#0969da'>connections cut</span>, <span style='color:#8250df'>"
        "silence</span>, <span style='color:#cf222e'>database crashed</span>.</p><table>"
        + "".join(map(_row, rounds))
        + f"</table><h2>Sums</h2><table>{rows}</table></html>\n"
    )


def _row(one: Any) -> str:
    whole = max([at for at, _ in one.timeline], default=1.0) or 1.0
    marks = "".join(
        f'<rect x="{at / whole * 99.6:.2f}%" width=".4%" height="22"'
        f' fill="{TONES.get(what.split()[0], "#57606a")}"><title>{at:.1f} s: {escape(what)}</title>'
        "</rect>"
        for at, what in one.timeline
    )
    return (
        f"<tr><td>{escape(one.store)}<td class=n>{one.seed}"
        f"<td class=n>{one.numbers.get('accepted', 0):,}"
        f"<td class={one.verdict}>{one.verdict}<td width=55%><svg role=img"
        f' aria-label="{len(one.timeline)} faults">{marks}</svg>'
    )
