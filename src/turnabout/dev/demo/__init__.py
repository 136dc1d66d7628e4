"""The demo: a year of flights as messages, sixteen carriers as tenants, a worker killed on the way.

`turnabout demo`, `python -m turnabout.dev.demo` and `python3 dev.py demo` all call `main`. `run.py`
has the steps, `flights.py` the data, `work.py` what a worker process does, `crew.py` the processes,
`shift.py` how they are led, `ledger.py` what they wrote down, `verdict.py` what follows from that,
`pipeline.py` the half that runs on Spark, `show.py` how it looks.
"""

from collections.abc import Sequence


def main(argv: Sequence[str] | None = None) -> int:
    """Run the demo; the exit code is 0 if the verdict is good, 1 if not, 2 if it cannot run, 3 if
    the database is away.
    """
    from turnabout.dev.demo.run import main as run

    return run(argv)


__all__ = ["main"]
