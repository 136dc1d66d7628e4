"""How fast the user's own database is, in a throw-away queue: what `turnabout bench` measures."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Generator
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from typing import TYPE_CHECKING

from turnabout.cli import _show
from turnabout.cli._interrupt import unbroken
from turnabout.words import limits
from turnabout.words.errors import QueueNotFound, TurnaboutError
from turnabout.words.prepare import outgoing

if TYPE_CHECKING:
    from turnabout import Queue, Turnabout

BACKLOG_MAX = 200_000
PACE_SECONDS = 0.01


@dataclass(frozen=True, slots=True)
class BenchPlan:
    """The settings of a measurement."""

    seconds: float
    threads: int
    batch: int
    payload_bytes: int
    channels: int


@dataclass(frozen=True, slots=True)
class Measured:
    """One kind of call: how many, what they moved, and within which time most of them ended."""

    name: str
    calls: int
    messages: int
    messages_per_second: float
    p50_seconds: float | None
    p95_seconds: float | None
    p99_seconds: float | None
    max_seconds: float | None


@dataclass(frozen=True, slots=True)
class BenchReport:
    """A measurement: the numbers, where they were taken, and with what."""

    url: str
    queue: str
    plan: BenchPlan
    results: tuple[Measured, ...]


class _Measure:
    """Calls of one kind while they are made."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.messages = 0
        self.times: list[float] = []

    def result(self, seconds: float) -> Measured:
        ordered = sorted(self.times)

        def quantile(share: float) -> float | None:
            at = min(len(ordered) - 1, int(share * len(ordered)))
            return round(ordered[at], 6) if ordered else None

        rate = round(self.messages / seconds, 1) if seconds else 0.0
        times = [quantile(share) for share in (0.5, 0.95, 0.99, 1.0)]
        return Measured(self.name, len(ordered), self.messages, rate, *times)


class Bench:
    """The phases, in order, on one queue."""

    def __init__(self, queue: Queue, plan: BenchPlan) -> None:
        self._queue = queue
        self._plan = plan
        self._payload = b"x" * plan.payload_bytes
        self._backlog = 0
        self._lock = threading.Lock()
        self._stop = threading.Event()
        self._ends_at = 0.0

    def phases(self) -> dict[str, Callable[[], list[Measured]]]:
        """The measurements to run, by title."""
        batch = self._plan.batch
        return {
            "send, one by one": lambda: self._sending("send", 1),
            f"send, {batch} at a time": lambda: self._sending(f"send ×{batch}", batch),
            "receive and ack, one by one": lambda: self._receiving("", 1),
            f"receive and ack, {batch} at a time": lambda: self._receiving(f" ×{batch}", batch),
            "end to end": self._end_to_end,
        }

    def _sending(self, name: str, size: int) -> list[Measured]:
        measure = _Measure(name)

        def work(number: int) -> None:
            while self._backlog < BACKLOG_MAX and not self._over():
                channel = f"tenant-{number % self._plan.channels}"
                batch = [outgoing(self._payload, channel=channel) for _ in range(size)]
                number += 1
                with self._timed(measure, size):
                    self._queue.send_many(batch)
                with self._lock:
                    self._backlog += size

        return self._run(work, measure)

    def _receiving(self, suffix: str, size: int) -> list[Measured]:
        received, acked = _Measure(f"receive{suffix}"), _Measure(f"ack{suffix}")

        def work(_: int) -> None:
            while not self._over():
                began = time.perf_counter()
                batch = self._queue.receive(size, lease_seconds=60)
                if not batch:
                    return
                self._note(received, began, len(batch))
                with self._timed(acked, len(batch)):
                    self._queue.ack([message.receipt for message in batch])
                with self._lock:
                    self._backlog -= len(batch)

        return self._run(work, received, acked)

    def _end_to_end(self) -> list[Measured]:
        """From before `send` to after `receive`, with a receiver that waits.

        The pace is easy, so that waiting is measured and not a backlog.
        """
        measure = _Measure("send to receive")
        self._queue.purge()
        sent_at: dict[str, float] = {}

        def work(number: int) -> None:
            sent = 0
            while not self._over():
                if number == 0:
                    sent += 1
                    sent_at[str(sent)] = time.perf_counter()
                    self._queue.send(str(sent))
                    time.sleep(PACE_SECONDS)
                    continue
                for message in self._queue.receive(1, wait_seconds=0.2, lease_seconds=60):
                    began = sent_at.get(message.text())
                    if began is not None:
                        self._note(measure, began, 1)
                    message.ack()

        return self._run(work, measure, threads=2)

    @contextlib.contextmanager
    def _timed(self, measure: _Measure, messages: int) -> Generator[None]:
        began = time.perf_counter()
        yield
        self._note(measure, began, messages)

    def _note(self, measure: _Measure, began: float, messages: int) -> None:
        took = time.perf_counter() - began
        with self._lock:
            measure.times.append(took)
            measure.messages += messages

    def _over(self) -> bool:
        return self._stop.is_set() or time.perf_counter() > self._ends_at

    def _run(
        self, work: Callable[[int], None], *measures: _Measure, threads: int | None = None
    ) -> list[Measured]:
        """Run the threads for their share of the time; the first error of one is raised here."""
        began = time.perf_counter()
        self._ends_at = began + self._plan.seconds / len(self.phases())
        count = threads or self._plan.threads
        with ThreadPoolExecutor(count) as pool:  # all that began are waited for
            try:
                with unbroken():
                    running = [pool.submit(work, number) for number in range(count)]
                for one in as_completed(running):
                    one.result()
            except BaseException:
                self._stop.set()
                raise
        return [measure.result(time.perf_counter() - began) for measure in measures]


@contextlib.contextmanager
def throw_away(turnabout: Turnabout, name: str) -> Generator[Queue]:
    """A queue that keeps no history, and is gone at the end."""
    queue = turnabout.queue(name)
    try:
        with unbroken():
            queue.create(history_seconds=0)
        yield queue
    finally:
        with unbroken():
            _delete(turnabout, name)


def _delete(turnabout: Turnabout, name: str) -> None:
    """Both queues; one that cannot be deleted is named, and does not hide how the run ended."""
    for each in (name, f"{name}{limits.DEAD_SUFFIX}"):
        try:
            turnabout.queue(each).delete()
        except QueueNotFound:
            pass
        except TurnaboutError as error:
            _show.note(f"The queue {each} stays; delete it by hand: {error}")
