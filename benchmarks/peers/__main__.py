"""The command: `python3 dev.py bench --peers`, or `python -m benchmarks.peers`."""

from __future__ import annotations

import argparse
import contextlib
import sys
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path

from benchmarks import report
from benchmarks.crew import Crew
from benchmarks.on_postgres import PostgresPlace
from benchmarks.on_sqlite import SqlitePlace
from benchmarks.peers import cells, known, page
from benchmarks.peers.peer import FilePeer, LeftOut, Peer
from benchmarks.peers.results import Results, read
from benchmarks.peers.run import QUICK, Run, Sizes
from benchmarks.peers.tables import text
from benchmarks.plan import Place

ABOUT = """\
Measures Turnabout beside other queues on the same server: slices in turns, round by round. Prints
medians with the lowest and highest round, ratios, and what the processors of clients and server
spent on a message. A goal gets a verdict only where the rounds agree on it."""


def main(words: Sequence[str] | None = None) -> int:
    """Measure what is asked for; keep it; make the page."""
    options = _options(words)
    if options.cell != ["none"]:
        _measure(options)
    if options.page:
        page.write(read(options.json or page.RESULTS))
    return 0


def _measure(options: argparse.Namespace) -> None:
    sizes = QUICK if options.quick else Sizes()
    if options.rounds:
        sizes = replace(sizes, rounds=options.rounds)
    if options.seconds:
        sizes = replace(sizes, seconds=options.seconds)
    if options.held:
        sizes = replace(sizes, snapshot_seconds=options.held)
    peers, left_out = _ready(_chosen(options))
    with contextlib.ExitStack() as stack:
        crew = stack.enter_context(Crew())
        places: list[Place] = []
        if any(peer.store == "PostgreSQL" for peer in peers):
            places.append(PostgresPlace(url=options.url, version=options.postgres, durable=False))
        if any(peer.store == "SQLite" for peer in peers):
            places.append(SqlitePlace(durable=False))
        for place in places:
            stack.callback(place.close)
        results = Results(report.machine(), [place.about() for place in places])
        print(results.machine, *results.stores, sep="\n")
        for name, reason in left_out.items():
            print(f"{name} is left out: {reason}")
        run = Run(sizes, places, crew, peers, left_out=left_out)
        for name in options.cell:
            result = run.measure(cells.BY_NAME[name])
            if result.cases:
                results.cells.append(result)
                print(text(result), flush=True)
                results.versions, results.left_out = run.versions, run.left_out
                _keep(options.json, results)
        print("", *(f"{name} {version}" for name, version in run.versions.items()), sep="\n")


def _keep(file: Path | None, results: Results) -> None:
    """Keep them after each cell: a run of all takes an hour, and may be stopped."""
    if file is not None:
        kept = read(file)
        kept.add(results)
        file.write_text(kept.as_json(), encoding="utf-8")


def _chosen(options: argparse.Namespace) -> list[Peer]:
    """The peers that were asked for, and us wherever they are."""
    peers = [
        type(peer)(getattr(options, peer.option)) if isinstance(peer, FilePeer) else peer
        for peer in known.PEERS
        if peer.name in options.peer
    ]
    ours = {known.ours(cell, peer.store) for cell in options.cell for peer in peers}
    ours -= {peer.name for peer in peers}
    return [*(known.BY_NAME[name] for name in sorted(ours)), *peers]


def _ready(peers: Iterable[Peer]) -> tuple[list[Peer], dict[str, str]]:
    ready: list[Peer] = []
    left_out: dict[str, str] = {}
    for peer in peers:
        try:
            peer.check()
        except LeftOut as reason:
            left_out[peer.name] = str(reason)
        else:
            ready.append(peer)
    return ready, left_out


def _options(words: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python3 dev.py bench --peers", description=ABOUT)

    def names(every: Sequence[str]):  # a type for argparse
        def split(given: str) -> list[str]:
            chosen = given.split(",")
            if unknown := [name for name in chosen if name not in every]:
                raise argparse.ArgumentTypeError(
                    f"there is no {', '.join(unknown)}; known: {', '.join(every)}"
                )
            return chosen

        return split

    every_cell, every_peer = list(cells.BY_NAME), list(known.BY_NAME)
    add = parser.add_argument
    add(
        "--cell",
        type=names([*every_cell, "none"]),
        default=every_cell,
        metavar="NAME,…",
        help=f"some of {', '.join(every_cell)}; none: measure nothing, and make the page",
    )
    add(
        "--peer",
        type=names(every_peer),
        default=every_peer,
        metavar="NAME,…",
        help=f"some of {', '.join(every_peer)}",
    )
    add("--quick", action="store_true", help="fewer cases, smaller, 3 rounds")
    add("--rounds", type=int, help="rounds of each case")
    add("--seconds", type=float, help="how long a slice lasts, unless it runs dry")
    add("--held", type=float, metavar="SECONDS", help="how long the old snapshot is held")
    for option, how in {p.option: p.how for p in known.PEERS if isinstance(p, FilePeer)}.items():
        add(f"--{option}", type=Path, metavar="FILE", help=f"{option}: {how}")
    add("--url", help="a PostgreSQL server of yours; databases are made there, and dropped")
    add("--postgres", type=int, default=18, metavar="16|18", help="version of our own server")
    add(
        "--json",
        type=Path,
        metavar="FILE",
        help="keep the figures there; cells of earlier runs stay",
    )
    add(
        "--page",
        action="store_true",
        help=f"make {page.PAGE.relative_to(page.ROOT)} and its pictures of what is kept",
    )
    return parser.parse_args(words)


if __name__ == "__main__":
    sys.exit(main())
