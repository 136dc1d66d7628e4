"""The client processes: started once, given jobs, never waited for without an end."""

from __future__ import annotations

import multiprocessing
import time
from typing import Any, Protocol, Self, cast

from benchmarks.jobs import EIGHTHS, Job, Tally, serve
from benchmarks.records import Slice

READY_SECONDS = 60.0
GRACE_SECONDS = 60.0
START_TOGETHER_SECONDS = 0.01


class Base(Protocol):
    """The part of a base that a crew needs."""

    def server_ns(self) -> dict[int, int]:
        """Processor time so far of each process that serves it."""
        ...


class Crew:
    """Up to so many client processes, each with a pipe. They end with the `with` block."""

    def __init__(self) -> None:
        self._context = multiprocessing.get_context("spawn")
        self._members: list[tuple[Any, Any]] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for process, pipe in self._members:
            pipe.close()
            process.join(2.0)
            if process.is_alive():
                process.kill()
                process.join()

    def work(self, job: Job, clients: int, base: Base) -> Slice:
        """Have so many clients do the same job, from the same moment on."""
        tallies, server_ns = self._tallies(job, clients, base)
        messages = max(sum(t.messages for t in tallies), 1)
        return Slice(
            # At least as if one message had come, so that a ratio can be taken.
            rate=max(sum(t.messages / t.seconds for t in tallies), 1 / tallies[0].seconds),
            messages=messages,
            calls=sum(t.calls for t in tallies),
            empty=sum(t.empty for t in tallies),
            client_us=sum(t.client_ns for t in tallies) / messages / 1000,
            server_us=None if server_ns is None else server_ns / messages / 1000,
            marks=tuple(t.marks for t in tallies if len(t.marks) == EIGHTHS),
        )

    def split(self, job: Job, base: Base) -> dict[str, float]:
        """Have one client do a `split` job, and answer with µs a call, by verb."""
        (tally,), _ = self._tallies(job, 1, base)
        return cast("dict[str, float]", tally.split)

    def _tallies(self, job: Job, clients: int, base: Base) -> tuple[list[Tally], int | None]:
        while len(self._members) < clients:
            self._hire()
        pipes = [pipe for _, pipe in self._members[:clients]]
        for pipe in pipes:
            pipe.send(job)
        for pipe in pipes:
            _answer(pipe, READY_SECONDS)
        before = base.server_ns()
        start_at = time.monotonic() + START_TOGETHER_SECONDS
        for pipe in pipes:
            pipe.send(start_at)
        tallies = [_answer(pipe, job.seconds + GRACE_SECONDS) for pipe in pipes]
        after = base.server_ns()
        for pipe in pipes:
            pipe.send("hang up")
        for pipe in pipes:
            _answer(pipe, GRACE_SECONDS)
        spent = sum(ns - before[pid] for pid, ns in after.items() if pid in before)
        return tallies, spent or None

    def _hire(self) -> None:
        here, there = self._context.Pipe()
        process = self._context.Process(target=serve, args=(there,), daemon=True)
        process.start()
        there.close()
        self._members.append((process, here))


def _answer(pipe: Any, seconds: float) -> Any:
    if not pipe.poll(seconds):
        raise TimeoutError(f"a client process said nothing for {seconds:.0f} s")
    answer = pipe.recv()
    if isinstance(answer, Exception):
        raise answer
    return answer
