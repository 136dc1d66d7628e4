"""What the frameworks with threads have in common: a process whose worker runs in the background.

As with those for asyncio, the clock starts with the first task: how long a worker takes to start is
not measured.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable

from benchmarks.jobs import Tally
from benchmarks.peers.peer import PeerJob

Handle = Callable[[], None]


class ThreadedClient:
    """A process of a worker, which goes on until `close`: so the server's processes that it is
    connected to are there when their processor time is read.
    """

    def __init__(self, job: PeerJob) -> None:
        logging.disable(logging.CRITICAL)

    def start(self, job: PeerJob, handle: Handle) -> None:
        """Start the worker, whose task calls `handle`, and come back."""
        raise NotImplementedError

    def close(self) -> None:
        """Stop the worker and free its connections."""
        raise NotImplementedError

    def warm(self, job: PeerJob) -> None:
        """A worker is ready when it runs."""

    def run(self, job: PeerJob) -> Tally:
        """Have it work until there was enough, or for so long."""
        times: list[float] = []
        enough = threading.Event()

        def handle() -> None:
            times.append(time.monotonic())
            if len(times) >= job.most:
                enough.set()

        spent = time.process_time_ns()
        self.start(job, handle)
        enough.wait(job.seconds)
        seen = tuple(times)  # the worker goes on
        spent = time.process_time_ns() - spent
        span = (seen[0], seen[-1]) if len(seen) > 1 else None
        return Tally(len(seen), len(seen), 0, job.seconds, spent, span=span)
