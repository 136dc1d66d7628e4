"""A running task's view of its message."""

from __future__ import annotations

from contextvars import ContextVar
from typing import TYPE_CHECKING

from turnabout.words.errors import UsageError

if TYPE_CHECKING:
    from turnabout.words.delivered import DeliveredMessage

running: ContextVar[DeliveredMessage] = ContextVar("turnabout_task")


def current() -> DeliveredMessage:
    """The message that this task was called for: its id, attempt, channel, headers; in a worker
    also `extend`, `lost` and `cancel_requested`.

    Raises: UsageError outside of a task.
    """
    try:
        return running.get()
    except LookupError:
        raise UsageError("no task is running here: current() is for the body of a task") from None
