"""For blocking callers. Generated from `_async/redrives.py` by `tools/unasync.py`: do not edit."""

from __future__ import annotations

from collections.abc import Callable

from turnabout.store import Store
from turnabout.words import limits
from turnabout.words.records import Redrive
from turnabout.words.verbs import RedriveStep

STEP_SECONDS_MIN, STEP_SECONDS_MAX = 0.05, 1.0


def user_and_host() -> str:
    """The user and host that a redrive's record names as its starter."""
    import getpass
    import socket

    try:
        user = getpass.getuser()
    except (KeyError, OSError):  # a user id without a name, as in some containers
        user = "?"
    return f"{user}@{socket.gethostname()}"[: limits.OWNER_CHARS_MAX]


def run_to_end(
    store: Store, redrive: Redrive, progress: Callable[[Redrive], object] | None
) -> Redrive:
    """Step until it has ended, even if others step or cancel it meanwhile."""
    from time import sleep

    if progress is not None:
        progress(redrive)
    while redrive.state == "running":
        # By the rate and not by `next_at`: that is an instant of the database's clock.
        if redrive.next_at is not None and redrive.per_second is not None:
            sleep(min(max(1 / redrive.per_second, STEP_SECONDS_MIN), STEP_SECONDS_MAX))
        redrive = store.run(RedriveStep(redrive.id))
        if progress is not None:
            progress(redrive)
    return redrive
