"""Ctrl-C at the right moment: a call to the database that began is answered before we stop."""

from __future__ import annotations

import signal
import threading
from types import FrameType
from typing import Any


class Unbroken:
    """A block that Ctrl-C does not break: it is noted, and takes effect at the block's end.

    So what was sent is counted, and what was leased is printed or given back. A second Ctrl-C
    breaks the block, should the database never answer.
    """

    def __init__(self) -> None:
        self._previous: Any = None
        self._noted = False
        self._installed = False

    def __enter__(self) -> None:
        self._noted = False
        self._installed = threading.current_thread() is threading.main_thread()
        if self._installed:
            self._previous = signal.signal(signal.SIGINT, self._note)

    def _note(self, number: int, frame: FrameType | None) -> None:
        if self._noted:
            raise KeyboardInterrupt
        self._noted = True

    def __exit__(self, _kind: object, error: BaseException | None, _trace: object) -> None:
        if self._installed:
            signal.signal(signal.SIGINT, self._previous)
        if self._noted and error is None:
            raise KeyboardInterrupt


def stop_like_interrupt() -> None:
    """Let SIGTERM end the program as Ctrl-C does: in good order."""

    def interrupt(number: int, frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGTERM, interrupt)
