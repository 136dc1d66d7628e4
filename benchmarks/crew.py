"""The client processes: started once, given jobs, never waited for without an end."""

from __future__ import annotations

import multiprocessing
import time
from collections.abc import Sequence
from typing import Any, Protocol, Self

from benchmarks.jobs import Job, Tally, serve
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
        self._dismiss(2.0)

    def work(self, job: Job, clients: int, base: Base) -> Slice:
        """Have so many clients do the same job, from the same moment on."""
        tallies, server_ns = self.tallies([job] * clients, base)
        return slice_of(tallies, server_ns)

    def tallies(self, jobs: Sequence[Job], base: Base) -> tuple[list[Tally], int | None]:
        """Have a client do each job, from the same moment on; what they did, and the server's
        processor time. After an error the others are let go: nobody knows what they wait for.
        """
        try:
            return self._tallies(jobs, base)
        except BaseException:
            self._dismiss(0.0)
            raise

    def _tallies(self, jobs: Sequence[Job], base: Base) -> tuple[list[Tally], int | None]:
        while len(self._members) < len(jobs):
            self._hire()
        pipes = [pipe for _, pipe in self._members[: len(jobs)]]
        for pipe, job in zip(pipes, jobs, strict=True):
            pipe.send(job)
        for pipe in pipes:
            _answer(pipe, READY_SECONDS)
        before = base.server_ns()
        start_at = time.monotonic() + START_TOGETHER_SECONDS
        for pipe in pipes:
            pipe.send(start_at)
        tallies = [_answer(pipe, jobs[0].seconds + GRACE_SECONDS) for pipe in pipes]
        after = base.server_ns()
        for pipe in pipes:
            pipe.send("hang up")
        for pipe in pipes:
            _answer(pipe, GRACE_SECONDS)
        # A connection that was opened meanwhile is part of the work.
        spent = sum(ns - before.get(pid, 0) for pid, ns in after.items())
        return tallies, spent or None

    def _dismiss(self, patience_seconds: float) -> None:
        for process, pipe in self._members:
            pipe.close()
            process.join(patience_seconds)
            if process.is_alive():
                process.kill()
                process.join()
        self._members.clear()

    def _hire(self) -> None:
        here, there = self._context.Pipe()
        process = self._context.Process(target=serve, args=(there,), daemon=True)
        process.start()
        there.close()
        self._members.append((process, here))


def slice_of(tallies: Sequence[Tally], server_ns: int | None) -> Slice:
    """What clients did together."""
    messages = max(sum(t.messages for t in tallies), 1)
    rate = sum(t.messages / t.seconds for t in tallies)
    spans = [t.span for t in tallies if t.span is not None]
    if spans:
        rate = messages / (max(last for _, last in spans) - min(first for first, _ in spans))
    return Slice(
        # At least as if one message had come, so that a ratio can be taken.
        rate=max(rate, 1 / tallies[0].seconds),
        messages=messages,
        calls=sum(t.calls for t in tallies),
        empty=sum(t.empty for t in tallies),
        client_us=sum(t.client_ns for t in tallies) / messages / 1000,
        server_us=None if server_ns is None else server_ns / messages / 1000,
    )


def _answer(pipe: Any, seconds: float) -> Any:
    if not pipe.poll(seconds):
        raise TimeoutError(f"a client process said nothing for {seconds:.0f} s")
    answer = pipe.recv()
    if isinstance(answer, Exception):
        raise answer
    return answer
