"""A worker's reports of itself, for those who look: where it runs, and what it holds."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import sys
import time
from collections.abc import Sequence

from turnabout import __version__
from turnabout.store import AsyncStore
from turnabout.words.errors import QueueNotFound, TurnaboutError, Uncertain
from turnabout.words.verbs import WorkerReport
from turnabout.words.workers import (
    MESSAGES_MAX,
    REPORT_SECONDS,
    LeasedMessage,
    WorkerState,
    host_name,
)
from turnabout.worker.job import Job, WorkerStats
from turnabout.worker.loop import HeldLeases

log = logging.getLogger("turnabout.worker")

FIRST_SECONDS = 2.0
"""A worker that is over before that reports nothing."""


class Presence:
    """Reports of one worker about each of its queues. No report that fails does it any harm."""

    def __init__(
        self,
        store: AsyncStore,
        queues: Sequence[tuple[Job, HeldLeases]],
        stats: WorkerStats,
        name: str,
    ) -> None:
        self._store = store
        self._queues = list(queues)
        self._stats = stats
        self._name = name
        self._began = time.monotonic()
        self._has_reported = False

    async def run(self) -> None:
        """Report until the worker ends; its last words are `ended`."""
        await asyncio.sleep(FIRST_SECONDS)
        while True:
            self._has_reported = True
            for job, held in tuple(self._queues):
                if not await self._report(job.queue, self._state(job, held)):
                    self._queues.remove((job, held))
            await asyncio.sleep(REPORT_SECONDS)

    async def ended(self, seconds: float) -> None:
        """The worker has ended: take it off the lists."""
        if self._has_reported:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(seconds):
                    for job, _ in self._queues:
                        await self._report(job.queue, None)

    async def _report(self, queue: str, state: WorkerState | None) -> bool:
        """False if it was refused, as by an older server, or for lack of rights."""
        try:
            await self._store.run(WorkerReport(queue, self._name, state))
        except QueueNotFound:  # deleted; the next send makes it again
            return True
        except TurnaboutError as error:
            log.debug("no report about %s: %s", queue, error)
            return isinstance(error, Uncertain) or error.retryable
        return True

    def _state(self, job: Job, held: HeldLeases) -> WorkerState:
        now = time.monotonic()
        messages = tuple(
            LeasedMessage(lease.receipt.id, max(0, round((now - lease.asked_at) * 1000)))
            for lease in sorted(held, key=lambda lease: lease.asked_at)[:MESSAGES_MAX]
        )
        return WorkerState(
            host_name(),
            f"turnabout {__version__}, Python {sys.version.split()[0]}",
            round((now - self._began) * 1000),
            job.options.concurrency,
            self._stats.handled,
            self._stats.failed,
            messages,
        )
