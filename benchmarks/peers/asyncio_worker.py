"""What the frameworks for asyncio have in common: a process that sends, or whose worker works.

A worker calls a handler that does nothing. Its clock starts with the first message: how long a
worker takes to start is not measured.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import Callable

from benchmarks.jobs import STAMP, Tally
from benchmarks.peers.peer import PeerJob

Handle = Callable[[bytes], None]
WARM_SENDS = 6


class AsyncClient:
    """A process of a producer or of a worker, with an event loop of its own."""

    def __init__(self, job: PeerJob) -> None:
        import uvloop

        logging.disable(logging.CRITICAL)
        self.payload = b"x" * job.size
        self._loop = uvloop.new_event_loop()
        self._loop.run_until_complete(self.connect(job))

    async def connect(self, job: PeerJob) -> None:
        """Be ready to send, or to work."""
        raise NotImplementedError

    async def put(self, count: int) -> None:
        """Send so many."""
        raise NotImplementedError

    async def tell(self, payload: bytes) -> None:
        """Send this."""
        raise NotImplementedError

    async def work(self, job: PeerJob, handle: Handle) -> None:
        """Run the worker until nothing is left, or for `listen` until it is cancelled."""
        raise NotImplementedError

    async def disconnect(self) -> None:
        """Free the connections."""
        raise NotImplementedError

    def warm(self, job: PeerJob) -> None:
        """A few sends; a worker is ready when it runs."""
        if job.action == "put":
            for _ in range(WARM_SENDS):
                self._loop.run_until_complete(self.put(job.batch))

    def run(self, job: PeerJob) -> Tally:
        """Do the job."""
        run = {"put": self._send, "pace": self._pace}.get(job.action, self._work)
        return self._loop.run_until_complete(run(job))

    def close(self) -> None:
        """End it."""
        self._loop.run_until_complete(self.disconnect())
        self._loop.close()

    async def _send(self, job: PeerJob) -> Tally:
        calls = 0
        spent, begun = time.process_time_ns(), time.monotonic()
        while (seconds := time.monotonic() - begun) < job.seconds:
            await self.put(job.batch)
            calls += 1
        return Tally(calls * job.batch, calls, 0, seconds, time.process_time_ns() - spent)

    async def _pace(self, job: PeerJob) -> Tally:
        spent, begun = time.process_time_ns(), time.monotonic()
        count = int(job.seconds * job.rate)
        for number in range(count):
            await asyncio.sleep(max(0.0, begun + number / job.rate - time.monotonic()))
            await self.tell(STAMP % time.monotonic_ns())
        spent = time.process_time_ns() - spent
        return Tally(count, count, 0, time.monotonic() - begun, spent)

    async def _work(self, job: PeerJob) -> Tally:
        times: list[float] = []
        waits: list[float] = []
        enough = asyncio.Event()

        def handle(payload: bytes) -> None:
            times.append(time.monotonic())
            if job.action == "listen":
                waits.append((time.monotonic_ns() - int(payload)) / 1e9)
            if len(times) >= job.most:
                enough.set()

        spent = time.process_time_ns()
        tasks = [asyncio.ensure_future(one) for one in (self.work(job, handle), enough.wait())]
        await asyncio.wait(tasks, timeout=job.seconds, return_when=asyncio.FIRST_COMPLETED)
        for task in tasks:
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task
        spent = time.process_time_ns() - spent
        span = (times[0], times[-1]) if len(times) > 1 else None
        return Tally(len(times), len(times), 0, job.seconds, spent, waits=tuple(waits), span=span)
