"""Us beside others, in one run on the same server: `python3 dev.py bench --peers`.

What lives here: one file for each peer, the cells in which all of them are measured in turns, the
goals, and what is made of the figures. Nothing in `src` knows of it.

    peer.py         the shape of a peer, and why one is left out
    known.py        the peers; each has a file of its own name beside it
    node/           the peers that run on Node: one client, and what it needs
    cells.py        what is measured: cells of cases
    run.py          cases in turns, round by round
    results.py      figures, ratios, verdicts; kept as JSON
    goals.py        what has to be reached
    pictures.py     figures as SVG
    page.py         docs/performance.md, made of the JSON

The peers' packages are in `.venv-peers`, a folder beside the project's environment; they are found
after the project's own, and never installed into it.
"""

import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
PACKAGES = ROOT / ".venv-peers"
"""Where `dev.py` puts what the peers need."""

if str(PACKAGES) not in sys.path:
    sys.path.append(str(PACKAGES))
