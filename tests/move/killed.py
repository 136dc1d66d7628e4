"""A move in a process of its own that ends by SIGKILL at a step, or goes to its end.

python -m tests.move.killed '{"source": …, "target": …, "kill_at": "closed"}'

Steps besides those that progress tells of: before the file's and before PostgreSQL's commit.
"""

import json
import os
import signal
import sys
from typing import Any

from turnabout.move import _copy, _source, _target, move

ROWS = 7  # small parts, so that there are many steps


def main() -> None:
    plan = json.loads(sys.argv[1])
    _copy.ROWS = ROWS

    def reach(step: str) -> None:
        print(step, flush=True)  # noqa: T201
        if step == plan["kill_at"]:
            os.kill(os.getpid(), signal.SIGKILL)

    def watched(of: Any, name: str, before: str, after: str) -> None:
        plain = getattr(of, name)

        def watch(*given: Any) -> Any:
            reach(before)
            answer = plain(*given)
            reach(after)
            return answer

        setattr(of, name, watch)

    watched(_copy.Copy, "run", "locked", "compared")
    watched(_source.Source, "shut", "shutting", "shut")
    watched(_source.Source, "finish", "finding", "marked")
    watched(_target.Target, "forget", "forgetting", "forgotten")
    move(plan["source"], plan["target"], progress=lambda progress: reach(progress.step))


if __name__ == "__main__":
    main()
