"""A move's progress and result."""

from __future__ import annotations

from turnabout.words.errors import Uncertain
from turnabout.words.value import Value


class Progress(Value):
    """A move's progress: rows copied so far, and the step.

    step   copying, comparing: both sides are as before; closed: the file is closed, PostgreSQL has
           not committed yet; committed: the queues are on PostgreSQL
    """

    step: str
    done: int
    total: int


class MovedQueue(Value):
    """The contents of a queue: messages (leased ones among them), rows of history, policies."""

    queue: str
    messages: int
    leased: int
    history: int
    policies: int


class Left(Value):
    """Pipeline state that has no meaning on the target, and stays behind."""

    staged: int = 0
    watermarks: int = 0


class Moved(Value):
    """A move that has happened, or, after a dry run, what it would move.

    events_cursor  before the number of an event in the file: its cursor on the target
    seconds        how long the copy took; nobody could write meanwhile
    sink_batches   notes of batches that a pipeline has published: none is published again
    left           what stays behind of pipelines
    """

    source: str
    target: str
    queues: tuple[MovedQueue, ...]
    dedup_entries: int
    schedules: int
    redrives: int
    events_cursor: str | None = None
    seconds: float = 0.0
    tokens: int = 0
    sink_batches: int = 0
    left: Left = Left()

    @property
    def messages(self) -> int:
        """Unfinished messages of all queues."""
        return sum(queue.messages for queue in self.queues)


class CannotTell(Uncertain):
    """Whether the last step was committed is not known. Moving again finds out."""
