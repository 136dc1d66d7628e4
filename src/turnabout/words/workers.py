"""Workers of a queue, as they report themselves."""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterable, Sequence
from contextlib import suppress
from typing import Any

import msgspec

from turnabout.words import limits
from turnabout.words.errors import UsageError
from turnabout.words.value import Value

REPORT_SECONDS = 10.0
"""Time between two reports of a worker."""
HEARD_MS = 60_000
"""A worker that has not reported for that long is not listed any more: it was killed, or its host
is cut off."""
FORGOTTEN_MS = 3_600_000
"""A report that old is removed; on PostgreSQL, too, in its SQL."""
MESSAGES_MAX = 100
"""Messages that a report names."""

_run_numbers = itertools.count(1)


class LeasedMessage(Value):
    """A message that a worker has leased."""

    id: int
    for_ms: int
    """Time since it was received."""


class WorkerState(Value):
    """A worker's words about itself."""

    host: str
    version: str
    """The versions of the library and of Python."""
    up_ms: int
    """Time since it was started."""
    concurrency: int
    """Handlers of this queue that it runs at once."""
    handled: int
    """Messages of all its queues that are done, since it was started."""
    failed: int
    messages: tuple[LeasedMessage, ...] = ()
    """Messages of this queue that it holds, the longest first, at most a hundred."""

    def __post_init__(self) -> None:
        limits.worker_text(self.host, "host")
        limits.worker_text(self.version, "version")
        if len(self.messages) > MESSAGES_MAX:
            raise UsageError(f"a report names at most {MESSAGES_MAX} messages")


class WorkerEntry(Value):
    """A worker of a queue, and its last report."""

    worker: str
    seen_at: int
    """Time of the report."""
    state: WorkerState


def kept_state(state: WorkerState | None) -> str | None:
    """A state as stores keep it."""
    return None if state is None else msgspec.json.encode(state).decode()


def entries_of(rows: Iterable[Sequence[Any]]) -> tuple[WorkerEntry, ...]:
    """Workers as stores keep them; without what somebody wrote past us, and is no state."""
    found: list[WorkerEntry] = []
    for worker, seen_at, state in rows:
        with suppress(msgspec.MsgspecError, UsageError):
            found.append(WorkerEntry(worker, seen_at, _STATE.decode(state)))
    return tuple(found)


_STATE = msgspec.json.Decoder(WorkerState)


def worker_name(label: str | None = None) -> str:
    """The name of a worker of this process: `host:pid`, after what it is called, if it is."""
    number = next(_run_numbers)
    name = this_process() if number == 1 else f"{this_process()}:{number}"
    return name if label is None else f"{label}@{name}"


def this_process() -> str:
    """The name of this process among all: `host:pid`."""
    return f"{host_name()}:{os.getpid()}"


def host_name() -> str:
    """The name of this host, as far as it fits into a report."""
    import socket

    return ascii(socket.gethostname())[1:-1][:64] or "unnamed"
