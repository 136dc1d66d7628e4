"""Chaos: round after round of a hammer on a store of its own, each judged, until the time is up.

    python3 dev.py chaos --minutes 10 --store postgres --report chaos.html

A verdict is *valid*, *invalid* (a promise was broken: the seed repeats the choices) or *unknown*:
something was not drained, or too little was put to the test. Unknown fails, too.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, ExitStack
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from tests.races.checker import Report
from tests.races.page import page
from tests.races.places import PLACES, postgres
from tests.races.planted import PLANTED, planted
from tests.races.power import cuts
from tests.races.rig import OF_QUEUES, Hammer, Place, report_on

ROUND_SECONDS = 20.0
AT_LEAST = {
    "accepted": 1_000,
    "redeliveries": 20,
    "stale receipts": 5,
    "slots full": 20,
    "queue's rate met": 5,
    "queue's slots full": 10,
    "in order": 50,
    "delayed": 10,
    "repeated": 5,
    "rows": 20,
}
"""Of the rounds together: else nothing was put to the test."""


@dataclass
class Round:
    """What one round came to."""

    store: str
    seed: int
    seconds: float
    verdict: str
    numbers: dict[str, int]
    faults: dict[str, int]
    timeline: list[tuple[float, str]]
    violations: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        faults = ", ".join(f"{count} {fault}" for fault, count in sorted(self.faults.items()))
        return (
            f"{self.store:9} seed {self.seed}: {self.numbers.get('accepted', 0):,} sends accepted,"
            f" {self.numbers.get('acked', 0):,} acked; {faults}: {self.verdict}"
            + "".join(f"\n    {one[:500]}" for one in self.violations[:10])
        )


def one_round(
    store: str,
    make: Callable[[Path], AbstractContextManager[Place]],
    seed: int,
    *,
    seconds: float = ROUND_SECONDS,
    bulk: float = 0.5,
    size: int = 2,
    bug: str | None = None,
) -> tuple[Round, Report]:
    """Hammer a store that is made for it, and judge what happened."""
    began = time.monotonic()
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="turnabout-chaos-")))
        place = stack.enter_context(make(folder))
        hammer = Hammer.at(place, folder, seed, bulk=bulk, size=size)
        if bug is not None:
            planted(bug, place, hammer)
        run = hammer.run(seconds)
        report = report_on(run, **OF_QUEUES)
        report.violations += place.check()
    took = time.monotonic() - began
    told = (dict(report.numbers), dict(run.faults), run.timeline, report.violations)
    return Round(store, seed, took, report.verdict, *told), report


def total(rounds: Sequence[Round]) -> tuple[str, Counter[str], Counter[str], list[str]]:
    """The verdict on all, the numbers and faults together, and what makes it unknown."""
    numbers, faults = Counter[str](), Counter[str]()
    for one in rounds:
        numbers.update(one.numbers)
        faults.update(one.faults)
    missing = [
        f"only {numbers[what]:,} × {what}, wanted {least:,}"
        for what, least in AT_LEAST.items()
        if numbers[what] < least
    ]
    missing += [
        f"{one.store}, seed {one.seed}: not drained" for one in rounds if one.verdict == "unknown"
    ]
    if any(one.verdict == "invalid" for one in rounds):
        return "invalid", numbers, faults, missing
    return "unknown" if missing else "valid", numbers, faults, missing


def main(words: Sequence[str] | None = None) -> int:
    """0: valid; 1: invalid; 2: unknown."""
    given = _options(words)
    makes: dict[str, Any] = {name: PLACES[name] for name in given.store}
    if given.pooler:
        makes["pooler"] = lambda folder: postgres(folder, pooler=True)
    if given.plant is not None:
        return _plant(given)
    if given.power:
        return _cut(given)
    rounds: list[Round] = []
    ends_at = time.monotonic() + given.minutes * 60
    while time.monotonic() < ends_at:
        for name, make in makes.items():
            left = ends_at - time.monotonic()
            if left < 5 and rounds:
                break
            seed = given.seed + len(rounds)
            done, _ = one_round(
                name, make, seed, seconds=min(given.round_seconds, max(left, 5)), bulk=given.bulk
            )
            rounds.append(done)
            print(f"{len(rounds):4}  {done}", flush=True)
            _write(given, rounds)
    verdict, numbers, faults, missing = total(rounds)
    print(f"\n{dict(numbers)}\n{dict(faults)}", *missing, f"verdict: {verdict}", sep="\n")
    return ("valid", "invalid", "unknown").index(verdict)


def _write(given: argparse.Namespace, rounds: list[Round]) -> None:
    if given.json is not None:
        given.json.write_text(json.dumps([asdict(one) for one in rounds], indent=1) + "\n")
    if given.report is not None:
        given.report.write_text(page(rounds, *total(rounds)), encoding="utf-8")


def _plant(given: argparse.Namespace) -> int:
    """Each planted bug must be seen; how soon is told."""
    missed = 0
    for bug in PLANTED if given.plant == "all" else [given.plant]:
        began = time.monotonic()
        for number in range(5):
            done, _ = one_round(
                "postgres",
                postgres,
                given.seed + number,
                seconds=given.round_seconds,
                bulk=0.05,
                bug=bug,
            )
            if done.verdict == "invalid":
                took = time.monotonic() - began
                print(f"{bug}: seen after {took:.0f} s, {done.violations[0][:160]}", flush=True)
                break
        else:
            missed += 1
            print(f"{bug}: NOT SEEN in 5 rounds", flush=True)
    return min(missed, 1)


def _cut(given: argparse.Namespace) -> int:
    """Power cuts, a thousand of each run."""
    if shutil.which("cc") is None:
        print("verdict: unknown. Power cuts need a C compiler, `cc`, to watch what is written.")
        return 2
    numbers, wrong = Counter[str](), list[str]()
    while numbers["images"] < given.power:
        seed = given.seed + numbers["images"]
        more, found = cuts(min(1_000, given.power - numbers["images"]), seed)
        numbers.update(more)
        wrong += found
        print(f"seed {seed}: {dict(more)}", *found[:10], sep="\n    ", flush=True)
    print(f"verdict: {'invalid' if wrong else 'valid'}, {dict(numbers)}")
    return 1 if wrong else 0


def _options(words: Sequence[str] | None) -> argparse.Namespace:
    def stores(text: str) -> list[str]:
        names = text.split(",")
        if unknown := set(names) - PLACES.keys():
            raise argparse.ArgumentTypeError(f"no store {unknown}; known: {', '.join(PLACES)}")
        return names

    parser = argparse.ArgumentParser(prog="dev.py chaos", description=__doc__)
    add = parser.add_argument
    add("--minutes", type=float, default=1.0, help="how long, in all (default: 1)")
    add("--seed", type=int, default=time.time_ns() % 1_000_000, help="of the first round")
    add("--store", type=stores, default=list(PLACES), help=f"some of {','.join(PLACES)}")
    add("--pooler", action="store_true", help="also through PgBouncer, which must be installed")
    add("--round-seconds", type=float, default=ROUND_SECONDS, help="of faults in each round")
    add("--bulk", type=float, default=0.5, help="share of sends of hundreds (0 to 1)")
    add("--report", type=Path, metavar="FILE", help="write a page with the timeline of faults")
    add("--json", type=Path, metavar="FILE", help="write the rounds")
    add("--power", type=int, default=0, metavar="N", help="instead: N power cuts of an SQLite file")
    add("--plant", choices=[*PLANTED, "all"], help="plant a bug, which must be seen")
    return parser.parse_args(words)


if __name__ == "__main__":
    sys.exit(main())
