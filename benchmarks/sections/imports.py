"""How long `import turnabout` takes, and what comes along."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

import turnabout
from benchmarks.plan import Bench, Cell, Section
from benchmarks.records import Record, Target

PROGRAM = """
import sys, time
before, begun = set(sys.modules), time.perf_counter()
import turnabout
spent = time.perf_counter() - begun
roots = {name.partition(".")[0] for name in set(sys.modules) - before}
third = sorted(roots - set(sys.stdlib_module_names) - {"turnabout"})
import json; print(json.dumps([spent * 1000, third]))
"""


def cells(bench: Bench) -> list[Cell]:
    """One cell, whatever the stores."""
    return [Cell(2.0, lambda: _measure(bench.plan.imports))]


def _measure(times: int) -> Iterable[Record]:
    source = str(Path(turnabout.__file__).parents[1])
    environment = {**os.environ, "PYTHONPATH": source}
    answers = []
    for _ in range(times):
        done = subprocess.run(
            [sys.executable, "-c", PROGRAM],
            check=True,
            capture_output=True,
            text=True,
            env=environment,
        )
        answers.append(json.loads(done.stdout))
    best = min(ms for ms, _ in answers)
    third = answers[-1][1]
    yield Record(
        "import",
        "",
        f"import turnabout, ms, best of {times}",
        None,
        best,
        target=Target(60, at_least=False),
    )
    yield Record(
        "import",
        "",
        "third-party modules loaded",
        None,
        len(third),
        target=Target(0, at_least=False),
        note=", ".join(third),
    )


SECTION = Section("import", "the first import, in a new interpreter", ("", "value"), cells, "")
