"""`turnabout move` as a program that waits to be told to stop: copying, or with the file closed.

python -m tests.move.stopped SOURCE TARGET STEP
"""

import sys
import time
from typing import Any

from turnabout.cli import main
from turnabout.move import _copy


def tell(self: Any, step: str) -> None:
    plain(self, step)
    if step == sys.argv[3]:
        print(step, flush=True)  # noqa: T201
        time.sleep(60)


if __name__ == "__main__":
    plain = _copy.Copy.tell
    _copy.Copy.tell = tell
    main(["move", *sys.argv[1:3]], prog_name="turnabout")
