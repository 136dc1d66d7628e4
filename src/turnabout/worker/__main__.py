"""`python -m turnabout.worker module:name`: one worker process, as `run_processes` starts it."""

from __future__ import annotations

import argparse
import logging
import os
import sys

from turnabout.words.errors import TurnaboutError
from turnabout.worker.processes import (
    ALL_DONE,
    HUNG,
    URL_VARIABLE,
    USED_UP,
    WRONG_CALL,
    load,
    run_processes,
    stop_at_eof,
)
from turnabout.worker.run import HandlersHung


def main() -> int:
    """Run the worker that the command line names."""
    parser = argparse.ArgumentParser(prog="python -m turnabout.worker", description=__doc__)
    parser.add_argument("target", help="module:name of a turnabout.worker.Worker")
    parser.add_argument("--processes", type=int, default=1, help="how many (default: 1)")
    parser.add_argument("--until-empty", action="store_true", help="end when there is no work")
    parser.add_argument("--max-handled", type=int, help="end after that many messages")
    parser.add_argument("--slots", type=int, help="messages held at once, over all queues")
    parser.add_argument("--reload", action="store_true", help="start again when a file changes")
    parser.add_argument("--quiet", action="store_true", help="log warnings and errors only")
    parser.add_argument("--stop-at-eof", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    logging.basicConfig(
        level=logging.WARNING if arguments.quiet else logging.INFO,
        format="%(asctime)s %(process)d %(levelname)s %(message)s",
    )
    try:
        if arguments.processes > 1 or arguments.reload:
            return run_processes(
                arguments.target,
                arguments.processes,
                until_empty=arguments.until_empty,
                max_handled=arguments.max_handled,
                quiet=arguments.quiet,
                slots=arguments.slots,
                reload=arguments.reload,
            )
        worker = load(arguments.target, slots=arguments.slots)
        if arguments.stop_at_eof:
            stop_at_eof(worker)
        worker.run(
            until_empty=arguments.until_empty,
            max_handled=arguments.max_handled,
            url=os.environ.get(URL_VARIABLE),
        )
    except TurnaboutError as error:
        sys.stderr.write(f"{error}\n")
        return HUNG if isinstance(error, HandlersHung) else WRONG_CALL
    if not arguments.stop_at_eof:
        return 0
    return USED_UP if worker.is_used_up else ALL_DONE


if __name__ == "__main__":
    sys.exit(main())
