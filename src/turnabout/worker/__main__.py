"""`python -m turnabout.worker module:name`: one worker process, as `run_processes` starts it."""

from __future__ import annotations

import argparse
import logging
import os
import sys

from turnabout.words.errors import TurnaboutError
from turnabout.worker.processes import URL_VARIABLE, WRONG_CALL, load, run_processes, stop_at_eof


def main() -> int:
    """Run the worker that the command line names."""
    parser = argparse.ArgumentParser(prog="python -m turnabout.worker", description=__doc__)
    parser.add_argument("target", help="module:name of a turnabout.worker.Worker")
    parser.add_argument("--processes", type=int, default=1, help="how many (default: 1)")
    parser.add_argument("--until-empty", action="store_true", help="end when there is no work")
    parser.add_argument("--stop-at-eof", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args()
    logging.basicConfig(
        level=logging.INFO, format="%(asctime)s %(process)d %(levelname)s %(message)s"
    )
    try:
        if given.processes > 1:
            return run_processes(given.target, given.processes, until_empty=given.until_empty)
        worker = load(given.target)
        if given.stop_at_eof:
            stop_at_eof(worker)
        worker.run(until_empty=given.until_empty, url=os.environ.get(URL_VARIABLE))
    except TurnaboutError as error:
        sys.stderr.write(f"{error}\n")
        return WRONG_CALL
    return 0


if __name__ == "__main__":
    sys.exit(main())
