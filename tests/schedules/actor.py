"""A process that fires what is due, over and over: `python -m tests.schedules.actor URL [die]`.

With `die` it ends in the middle of the first firing, between the message and the schedule's row.
"""

import os
import signal
import sys

import turnabout
from turnabout._sync import schedules as face
from turnabout.sqlite.procedures import schedules as procedures

face.STEPS_MAX = 3  # so that many meet


class Deadly(dict):
    """Statements of which one ends the process instead of being found."""

    def __getitem__(self, name):
        if name == "move_on":
            os.kill(os.getpid(), signal.SIGKILL)
        return super().__getitem__(name)


def main(url, *words):
    if words:
        procedures._FIRE = Deadly(procedures._FIRE)
    with turnabout.connect(url) as mq:
        sys.stdout.write("ready\n")
        sys.stdout.flush()
        while True:
            try:
                mq.schedules.fire_due()
            except (turnabout.Unavailable, turnabout.Uncertain):
                continue


if __name__ == "__main__":
    main(*sys.argv[1:])
