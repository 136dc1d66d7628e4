"""Waiting for what a thread or another process is about to do."""

import time
from collections.abc import Callable
from typing import Any

SECONDS = 60.0
"""Only a test that fails waits so long."""


def until(condition: Callable[[], Any], told: Callable[[], object] = lambda: "it never was") -> Any:
    """What the condition says as soon as it holds; where it does not, `told` says more."""
    give_up = time.monotonic() + SECONDS
    while not (found := condition()):
        assert time.monotonic() < give_up, told()
        time.sleep(0.005)
    return found
