"""Errors of tasks, where the queue itself answers with outcomes."""

from __future__ import annotations

from turnabout.words.outcomes import ChannelFull, QueueFull


class NotSent(Exception):
    """The task was not enqueued: its channel or its queue is full. `outcome` says which."""

    def __init__(self, task: str, outcome: ChannelFull | QueueFull) -> None:
        super().__init__(f"the task {task} was not enqueued: {outcome}")
        self.outcome = outcome


class TaskFailed(Exception):
    """The task has ended without a result: `outcome` is dead, cancelled, expired or unknown, and
    `error` what is known of the reason: commonly a traceback.
    """

    def __init__(self, task: str, outcome: str, error: str | None) -> None:
        last = (error or "").strip().rpartition("\n")[2]
        super().__init__(f"the task {task} is {outcome}" + (f": {last}" if last else ""))
        self.outcome = outcome
        self.error = error
