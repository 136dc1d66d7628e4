"""One run of a worker: opens the store, starts a consumer for each queue, and brings all to an end.

The end has an order. No more is taken; what was fetched ahead is given back; handlers get their
grace; what is left then is given back too; the database gets the answers; the connection is closed.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import random
import signal
import sys
import time
from collections.abc import Awaitable, Callable, Generator, Mapping, Sequence
from typing import Any, Literal, TypeVar

from turnabout._async import AsyncTurnabout
from turnabout._async.receiving import maintain_when_due
from turnabout._async.schedules import fire_when_due
from turnabout._sync import Turnabout
from turnabout.waiting.pacing import MAINTAIN_SECONDS
from turnabout.words.entities import QueueStats
from turnabout.words.errors import (
    Forbidden,
    QueueNotFound,
    TurnaboutError,
    Unavailable,
    Uncertain,
)
from turnabout.words.workers import worker_name
from turnabout.worker.consumer import Consumer
from turnabout.worker.job import Job, WorkerStats
from turnabout.worker.loop import Backoff, Emptiness, HeldLeases, Lease, Phase
from turnabout.worker.message import BridgeStore, WatchedStore
from turnabout.worker.presence import Presence
from turnabout.worker.slots import Slots
from turnabout.worker.threads import Threads
from turnabout.worker.transaction import TransactionConsumer

log = logging.getLogger("turnabout.worker")

T = TypeVar("T")

UPKEEP_SECONDS = 20.0
"""A queue is maintained at least so often, even while all handlers are busy."""
SETTINGS_SECONDS = 60.0
"""Seconds between two reads of a queue's settings, for the log."""
SETTLE_SECONDS = 5.0
"""Time for the last acks at a stop, if the database is slow or away."""


class HandlersHung(TurnaboutError):
    """The worker has ended itself, as so many handlers do not end though their time is up.

    Their threads go on until the process ends: end it, and start it again.
    """

    code = "handlers_hung"

    def __init__(self, handlers: int) -> None:
        hang = "handler hangs" if handlers == 1 else "handlers hang"
        super().__init__(
            f"{handlers} {hang}, past timeout_seconds: end this process and start it again, as "
            "`--processes` and service managers do"
        )


class Run:
    """The surroundings of a `Consumer`; made by `Worker.run_async`, used once."""

    def __init__(
        self,
        turnabout: AsyncTurnabout,
        jobs: Sequence[Job],
        *,
        stats: WorkerStats,
        until_empty: bool | Literal["now"],
        grace_seconds: float,
        poll_seconds: float,
        max_hung: int,
        max_handled: int | None,
        slots: int | None,
        name: str | None,
    ) -> None:
        self.turnabout = turnabout
        self.name = worker_name(name)
        self.slots = Slots(slots)
        self.until_empty: bool | Literal["now"] = until_empty
        self.poll_seconds = poll_seconds
        self.phase = Phase.TAKING
        self.stats = stats
        self.emptiness = Emptiness(job.queue for job in jobs)
        self.threads = Threads(sum(job.options.concurrency for job in jobs if job.sync))
        self._grace_seconds = grace_seconds
        self.left: list[QueueStats] = []
        self.is_used_up = False
        """True once it has stopped because of `max_handled`."""
        self._max_hung = max_hung
        self._max_handled = max_handled
        self._hung = self._ended = 0
        self._error: BaseException | None = None
        self._loop = asyncio.get_running_loop()
        self._changed = asyncio.Event()
        self._consumers = self._made(jobs)
        reported = [(consumer.job, consumer.held) for consumer in self._consumers]
        self._presence = Presence(turnabout.store, reported, stats, self.name)

    def _made(self, jobs: Sequence[Job]) -> list[Consumer]:
        held = {job.queue: HeldLeases(job.options) for job in jobs}
        watched = WatchedStore(self.turnabout.store, held)
        inner = AsyncTurnabout(watched)
        bridge = Turnabout(BridgeStore(watched, self._loop))
        return [
            (TransactionConsumer if job.transaction else Consumer)(
                job, self, held[job.queue], (inner.queue(job.queue), bridge.queue(job.queue))
            )
            for job in jobs
        ]

    # --- what consumers, signals and other threads say --------------------------------------------

    def broken(self, error: BaseException) -> None:
        """An error that a retry won't fix: stop, and raise this at the end."""
        if self._error is None:
            self._error = error
        self.stop(f"{type(error).__name__}")

    def stop(self, why: str) -> None:
        """Take nothing more; a worker that is stopping already goes on as it was."""
        if self.phase is Phase.TAKING:
            log.info("stopping: %s", why)
            self._go_to(Phase.FINISHING)

    def signalled(self, name: str) -> None:
        """The first signal asks handlers to finish, the second does not wait for them."""
        self._go_to(self.phase.signalled())
        log.info("%s: %s", name, self.phase.name.lower())

    def message_ended(self, queue: str, lease: Lease) -> None:
        """The worker has done with a message. Perhaps it holds nothing now, or has done enough."""
        self.slots.put(1)
        if lease.retry_at is not None and self.until_empty != "now":
            now = time.monotonic()
            at = now + lease.seconds_until(lease.retry_at, now)
            self.emptiness.expect(queue, lease.receipt.id, at, now)
        if self.emptiness.ended() and self.until_empty:
            for consumer in self._consumers:
                consumer.wake()
        self._ended += 1
        if self._ended == self._max_handled and self.phase is Phase.TAKING:
            self.is_used_up = True
            self.stop(f"{self._ended} messages, which is max_handled")

    def hangs(self, more: int) -> None:
        """1: a handler does not end though it should; -1: it has ended after all."""
        self._hung += more
        log.warning("handlers that hang: %d (of %d, max_hung)", self._hung, self._max_hung)
        if self._hung >= self._max_hung:
            self.broken(HandlersHung(self._hung))

    def _go_to(self, phase: Phase) -> None:
        self.phase = phase
        self._changed.set()
        for consumer in self._consumers:
            consumer.wake()

    # --- the run ---------------------------------------------------------------------------------

    async def run(self, settings: Mapping[str, Mapping[str, Any]]) -> None:
        """Run until stopped; raises the error that broke the worker, if there was one."""
        if not await self._reached(settings):
            return
        takes = [asyncio.create_task(self._guarded(c.take)) for c in self._consumers]
        beats = [asyncio.create_task(self._guarded(c.beat)) for c in self._consumers]
        beats += [
            asyncio.create_task(self._guarded(loop)) for loop in (self._upkeep, self._presence.run)
        ]
        log.info("working on %s", ", ".join(c.job.queue for c in self._consumers))
        try:
            while self.phase is Phase.TAKING:
                self._changed.clear()
                await self._changed.wait()
            await self._end(takes)
        except asyncio.CancelledError:
            # The caller wants no more of it: as after a second signal.
            self._go_to(Phase.RELEASING)
            await self._end(takes)
            raise
        finally:
            for task in [*takes, *beats]:
                task.cancel()
            await asyncio.gather(*takes, *beats, return_exceptions=True)
            self.threads.close()
            await self._presence.ended(SETTLE_SECONDS)
        log.info("stopped: %s", self.stats)
        if self.until_empty:
            await self._look_at_rest()
        if self._error is not None:
            raise self._error

    async def _end(self, takes: Sequence[asyncio.Task[None]]) -> None:
        for consumer in self._consumers:
            consumer.give_back_waiting()
        await self._finish()
        await self._give_back(takes)

    async def _look_at_rest(self) -> None:
        """Count the messages that the queues still hold."""
        for queue in (consumer.job.queue for consumer in self._consumers):
            with contextlib.suppress(QueueNotFound, Unavailable, Uncertain, Forbidden):
                rest = await self.turnabout.queue(queue).stats()
                if rest.scheduled or rest.ready or rest.leased:
                    self.left.append(rest)
                    log.info(
                        "left in %s: %d scheduled, %d ready, %d leased",
                        *(queue, rest.scheduled, rest.ready, rest.leased),
                    )

    async def _reached(self, settings: Mapping[str, Mapping[str, Any]]) -> bool:
        """Make the queues that are missing. False if the worker was stopped before it could."""
        for consumer in self._consumers:
            queue = self.turnabout.queue(consumer.job.queue)
            wanted = settings.get(consumer.job.queue, {})
            backoff = Backoff()
            while self.phase is Phase.TAKING:
                try:
                    consumer.report.settings = there = (await queue.create(**wanted)).queue.settings
                    other = [k for k, one in wanted.items() if there.changed({k: one}) != there]
                    if other:
                        log.warning(
                            "the queue %s was there, and goes on as it was: settings= of its "
                            "handler says %s otherwise. Use `turnabout queue update`",
                            queue.name, ", ".join(other),
                        )  # fmt: skip
                    break
                except (Unavailable, Uncertain) as error:
                    if not backoff.tries:
                        log.warning("the database is not there yet: %s", error.code)
                    pause = backoff.next(random.random())  # noqa: S311 - jitter, no secret
                    await _within(pause, self._changed.wait())
        return self.phase is Phase.TAKING

    async def _upkeep(self) -> None:
        """Fire schedules, end expired leases and reread settings for as long as the worker runs,
        however long handlers keep the takers from asking.
        """
        shared = self.turnabout._shared
        read_at = self._loop.time()
        while True:
            await asyncio.sleep(min(shared.watch.until_look(), MAINTAIN_SECONDS))
            await fire_when_due(shared)
            reads_settings = self._loop.time() >= read_at + SETTINGS_SECONDS
            for consumer in self._consumers:
                with contextlib.suppress(QueueNotFound, Unavailable, Uncertain, Forbidden):
                    await maintain_when_due(shared, consumer.job.queue, UPKEEP_SECONDS)
                    if reads_settings:
                        queue = self.turnabout.queue(consumer.job.queue)
                        consumer.report.settings = await queue.settings()
            read_at = self._loop.time() if reads_settings else read_at

    async def _guarded(self, loop: Callable[[], Awaitable[None]]) -> None:
        try:
            await loop()
        except Exception as error:  # noqa: BLE001 - raised at the end of the run
            self.broken(error)

    async def _finish(self) -> None:
        """Let handlers end, until the grace is over or a second signal comes."""
        done = asyncio.gather(*(consumer.finish() for consumer in self._consumers))
        ends_at = self._loop.time() + self._grace_seconds
        while not done.done() and self.phase is Phase.FINISHING:
            self._changed.clear()
            changed = asyncio.create_task(self._changed.wait())
            await asyncio.wait(
                {done, changed},
                timeout=max(ends_at - self._loop.time(), 0),
                return_when=asyncio.FIRST_COMPLETED,
            )
            changed.cancel()
            if self._loop.time() >= ends_at:
                break
        if not done.done():
            log.warning("handlers did not end in time: their messages are given back")
            self.phase = Phase.RELEASING
            for consumer in self._consumers:
                consumer.let_go()
            await _within(SETTLE_SECONDS, done)
            for consumer in self._consumers:
                consumer.abandon()
        done.cancel()

    async def _give_back(self, takes: Sequence[asyncio.Task[None]]) -> None:
        """Give back what a `receive` under way still brings. Then tell the database all."""
        await asyncio.wait(takes, timeout=SETTLE_SECONDS)
        await asyncio.gather(*(consumer.flush(SETTLE_SECONDS) for consumer in self._consumers))


@contextlib.contextmanager
def signals_to(run: Run) -> Generator[None, None, None]:
    """SIGTERM and SIGINT stop the run; as they were again afterwards. For the main thread.

    On Windows, whose loops take no handlers, they end the program as they do any other: what was
    being handled is handed out again when its lease runs out.
    """
    if sys.platform == "win32":
        yield
        return
    loop = asyncio.get_running_loop()
    taken = (signal.SIGTERM, signal.SIGINT)
    before = [signal.getsignal(number) for number in taken]
    for number in taken:
        loop.add_signal_handler(number, run.signalled, number.name)
    try:
        yield
    finally:
        for number, handler in zip(taken, before, strict=True):
            loop.remove_signal_handler(number)
            signal.signal(number, handler)


async def _within(seconds: float, work: Awaitable[T]) -> None:
    with contextlib.suppress(TimeoutError, asyncio.CancelledError):
        await asyncio.wait_for(work, seconds)
