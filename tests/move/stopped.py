"""`turnabout move` as a program that waits in its last step, the file closed, to be told to stop.

python -m tests.move.stopped SOURCE TARGET
"""

import sys
import time
from typing import Any

from turnabout.cli import main
from turnabout.move import _mover


def waits(self: Any, *_: Any) -> None:
    print("closed", flush=True)  # noqa: T201
    time.sleep(60)


if __name__ == "__main__":
    _mover.Mover._reveal = waits
    main(["move", *sys.argv[1:]], prog_name="turnabout")
