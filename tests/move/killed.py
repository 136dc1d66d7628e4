"""A move in a process of its own that ends by SIGKILL at its n-th step, or goes to its end.

python -m tests.move.killed '{"source": …, "target": …, "kill_at": 7}'
"""

import json
import os
import signal
import sys
from typing import Any

from turnabout.move import _mover, move

ROWS = 7  # small parts, so that there are many steps


def main() -> None:
    plan = json.loads(sys.argv[1])
    _mover.ROWS = _mover.CHANGES = ROWS

    def watch(progress: Any) -> None:
        print(progress.step, flush=True)  # noqa: T201
        if progress.step == plan["kill_at"]:
            os.kill(os.getpid(), signal.SIGKILL)

    move(plan["source"], plan["target"], progress=watch)


if __name__ == "__main__":
    main()
