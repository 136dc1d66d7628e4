"""Ctrl-C at the right moment: a call to the database that began is answered before we stop."""

from __future__ import annotations

import signal
import threading
from collections.abc import Generator
from contextlib import contextmanager
from types import FrameType


@contextmanager
def unbroken() -> Generator[None]:
    """A block that Ctrl-C does not break: it is noted, and takes effect at the block's end.

    So what was sent is counted, and what was leased is printed or given back. A second Ctrl-C
    breaks the block, should the database never answer.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    times = 0

    def note(number: int, frame: FrameType | None) -> None:
        nonlocal times
        times += 1
        if times > 1:
            raise KeyboardInterrupt

    before = signal.signal(signal.SIGINT, note)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
    if times:
        raise KeyboardInterrupt


def stop_like_interrupt() -> None:
    """Let SIGTERM end the program as Ctrl-C does: in good order."""

    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGTERM, signal.default_int_handler)
