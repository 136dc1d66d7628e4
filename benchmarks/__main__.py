"""The command: `python -m benchmarks`, or `python3 dev.py bench`."""

from __future__ import annotations

import argparse
import contextlib
import json
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from benchmarks import report, sections
from benchmarks.crew import Crew
from benchmarks.on_postgres import PostgresPlace
from benchmarks.on_sqlite import SqlitePlace
from benchmarks.plan import QUICK, Bench, Place, Plan, Section
from benchmarks.records import Record

STORES = ("postgres", "sqlite")
ABOUT = """\
Measures what `--peers` does not: fairness, limits, events, the server, waiting, the pipeline; each
beside a base of its own in the same run, as ratios: medians of rounds that alternate, with the
lowest and highest round. "by CPU" is the same ratio in processor time of client and server, which
other load on the machine changes less. The exit code judges nothing: 0 unless something broke."""


def main(words: Sequence[str] | None = None) -> int:
    """Run the sections that are asked for."""
    options = _options(words)
    plan = QUICK if options.quick else Plan()
    if options.rounds:
        plan = replace(plan, rounds=options.rounds)
    if options.seconds:
        plan = replace(plan, seconds=options.seconds, sqlite_seconds=options.seconds)
    chosen = [sections.BY_NAME[name] for name in options.section]
    with contextlib.ExitStack() as stack:
        crew = stack.enter_context(Crew())
        places: list[Place] = []
        if "postgres" in options.store:
            places.append(
                PostgresPlace(url=options.url, version=options.postgres, durable=options.durable)
            )
        if "sqlite" in options.store:
            places.append(SqlitePlace(durable=options.durable))
        for place in places:
            stack.callback(place.close)
        print(report.machine(), *(place.about() for place in places), sep="\n", flush=True)
        bench = Bench(plan, places, crew)
        stack.callback(bench.forget_bases)
        records = measure(bench, chosen)
        if options.json:
            figures = {
                "machine": report.machine(),
                "stores": [place.about() for place in places],
                "records": [record.as_json() for record in records],
            }
            Path(options.json).write_text(json.dumps(figures, indent=1) + "\n", encoding="utf-8")
    print(report.summary(records))
    return 0


def measure(bench: Bench, chosen: Sequence[Section]) -> list[Record]:
    """Run sections one after the other; print each table when it is full."""
    progress = report.Progress()
    work = [(section, section.cells(bench)) for section in chosen]
    progress.plan(sum(cell.seconds for _, cells in work for cell in cells))
    everything: list[Record] = []
    for section, cells in work:
        records: list[Record] = []
        for number, cell in enumerate(cells):
            progress.step(section.name, number, len(cells))
            records += cell.run()
            progress.finished(cell.seconds)
        bench.forget_bases()
        progress.clear()
        print(report.table(section, records), flush=True)
        everything += records
    return everything


def _options(words: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=ABOUT)

    def names(known: Sequence[str]):  # a type for argparse
        def split(text: str) -> list[str]:
            given = text.split(",")
            if unknown := [name for name in given if name not in known]:
                raise argparse.ArgumentTypeError(
                    f"there is no {', '.join(unknown)}; known: {', '.join(known)}"
                )
            return given

        return split

    every = list(sections.BY_NAME)
    add = parser.add_argument
    add("--section", type=names(every), default=every, help=f"some of {','.join(every)}")
    add("--store", type=names(STORES), default=list(STORES), help="some of postgres,sqlite")
    add("--quick", action="store_true", help="smaller and shorter: two minutes")
    add("--url", help="a PostgreSQL server of yours; databases are made there, and dropped")
    add("--postgres", type=int, default=18, metavar="16|18", help="version of our own server")
    add(
        "--durable",
        choices=("on", "off"),
        default="off",
        help="synchronous_commit, or SQLite's synchronous = full; the same for both sides",
    )
    add("--rounds", type=int, help="rounds of each cell")
    add("--seconds", type=float, help="how long a slice lasts, unless it runs dry")
    add("--json", metavar="FILE", help="write the figures there")
    options = parser.parse_args(words)
    options.durable = options.durable == "on"
    return options


if __name__ == "__main__":
    sys.exit(main())
