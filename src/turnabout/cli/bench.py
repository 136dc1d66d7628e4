"""`bench`: how fast the user's own database is, in a throw-away queue."""

from __future__ import annotations

import contextlib
import secrets
import sys
import threading
import time
from collections.abc import Callable, Generator, Sequence
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

import click

from turnabout.cli import _show
from turnabout.cli._app import App
from turnabout.cli._declare import command
from turnabout.cli._interrupt import Unbroken
from turnabout.cli._kinds import DURATION
from turnabout.cli._progress import progress
from turnabout.words import limits
from turnabout.words.errors import QueueNotFound, TurnaboutError
from turnabout.words.prepare import outgoing

if TYPE_CHECKING:
    from turnabout import Queue, Turnabout

BACKLOG_MAX = 200_000
PACE_SECONDS = 0.01


@dataclass
class Measure:
    """One kind of call: how many, how many messages they moved, and how long each took."""

    name: str
    messages: int = 0
    seconds: float = 0.0
    times: list[float] = field(default_factory=list[float])

    def quantile(self, share: float) -> float | None:
        """The time that this share of calls stayed within, in milliseconds."""
        if not self.times:
            return None
        ordered = sorted(self.times)
        return ordered[min(len(ordered) - 1, int(share * len(ordered)))] * 1000

    def as_json(self) -> dict[str, Any]:
        """A row of `--json`."""
        per_second = self.messages / self.seconds if self.seconds else 0.0
        return {
            "name": self.name,
            "calls": len(self.times),
            "messages": self.messages,
            "messages_per_second": round(per_second, 1),
            **{
                f"p{round(share * 100)}_ms": _rounded(self.quantile(share))
                for share in (0.5, 0.95, 0.99, 1.0)
            },
        }


@dataclass(frozen=True, slots=True)
class Plan:
    """What to measure with."""

    seconds: float
    threads: int
    batch: int
    payload_bytes: int
    channels: int


class Bench:
    """The phases, in order, on one queue."""

    def __init__(self, queue: Queue, plan: Plan) -> None:
        self._queue = queue
        self._plan = plan
        self._share = plan.seconds / 5
        self._payload = b"x" * plan.payload_bytes
        self._channels = [f"tenant-{i}" for i in range(plan.channels)]
        self.backlog = 0
        self._lock = threading.Lock()
        self._stop = threading.Event()

    def phases(self) -> list[tuple[str, Callable[[], list[Measure]]]]:
        """Titles and what to run."""
        batch = self._plan.batch
        return [
            ("send, one by one", lambda: self._sending("send", 1)),
            (f"send, {batch} at a time", lambda: self._sending(f"send ×{batch}", batch)),
            ("receive and ack, one by one", lambda: self._receiving("", 1)),
            (f"receive and ack, {batch} at a time", lambda: self._receiving(f" ×{batch}", batch)),
            ("end to end", self._end_to_end),
        ]

    def stop(self) -> None:
        """Let the threads come to an end."""
        self._stop.set()

    def _sending(self, name: str, size: int) -> list[Measure]:
        measure = Measure(name)

        def work(number: int) -> None:
            while self.backlog < BACKLOG_MAX:
                channel = self._channels[number % len(self._channels)]
                batch = [outgoing(self._payload, channel=channel) for _ in range(size)]
                number += 1
                began = time.perf_counter()
                self._queue.send_many(batch)
                self._note(measure, began, size)
                with self._lock:
                    self.backlog += size
                if self._over():
                    return

        self._run(work, [measure])
        return [measure]

    def _receiving(self, suffix: str, size: int) -> list[Measure]:
        received, acked = Measure(f"receive{suffix}"), Measure(f"ack{suffix}")

        def work(_: int) -> None:
            while True:
                began = time.perf_counter()
                batch = self._queue.receive(size, lease_seconds=60)
                if not batch:
                    return
                self._note(received, began, len(batch))
                began = time.perf_counter()
                self._queue.ack([message.receipt for message in batch])
                self._note(acked, began, len(batch))
                with self._lock:
                    self.backlog -= len(batch)
                if self._over():
                    return

        self._run(work, [received, acked])
        return [received, acked]

    def _end_to_end(self) -> list[Measure]:
        """From before `send` to after `receive`, with a receiver that waits."""
        measure = Measure("send to receive")
        self._queue.purge()
        sent_at: dict[str, float] = {}

        def work(number: int) -> None:
            if number == 0:
                self._pace(sent_at)
                return
            while not self._over():
                for message in self._queue.receive(1, wait_seconds=0.2, lease_seconds=60):
                    began = sent_at.get(message.text())
                    if began is not None:
                        self._note(measure, began, 1)
                    message.ack()

        self._run(work, [measure], threads=2)
        return [measure]

    def _pace(self, sent_at: dict[str, float]) -> None:
        """Send at an easy pace, so that waiting is measured and not a backlog."""
        number = 0
        while not self._over():
            number += 1
            sent_at[str(number)] = time.perf_counter()
            self._queue.send(str(number))
            time.sleep(PACE_SECONDS)

    def _note(self, measure: Measure, began: float, messages: int) -> None:
        took = time.perf_counter() - began
        with self._lock:
            measure.times.append(took)
            measure.messages += messages

    def _over(self) -> bool:
        return self._stop.is_set() or time.perf_counter() > self._ends_at

    def _run(
        self, work: Callable[[int], None], measures: Sequence[Measure], threads: int | None = None
    ) -> None:
        """Run the threads for their share of the time; the first error of one is raised here."""
        errors: list[Exception] = []

        def guarded(number: int) -> None:
            try:
                work(number)
            except Exception as error:  # noqa: BLE001 - raised below, in the caller's thread
                errors.append(error)
                self._stop.set()

        began = time.perf_counter()
        self._ends_at = began + self._share
        count = threads or self._plan.threads
        running = [threading.Thread(target=guarded, args=(i,)) for i in range(count)]
        try:
            with Unbroken():  # all of them began, so all of them are waited for
                for thread in running:
                    thread.start()
            for thread in running:
                thread.join()
        except KeyboardInterrupt:
            self._stop.set()
            for thread in running:
                thread.join()
            raise
        for measure in measures:
            measure.seconds = time.perf_counter() - began
        if errors:
            raise errors[0]


@command(
    "bench",
    "turnabout bench",
    "turnabout bench --seconds 30 --threads 8 --url postgresql://app@localhost/app",
    json='{"url", "queue", "plan": {"seconds", "threads", "batch", "payload_bytes",\n'
    '  "channels"}, "results": [{"name", "calls", "messages", "messages_per_second", "p50_ms",\n'
    '  "p95_ms", "p99_ms", "p100_ms"}]}',
)
@click.option("--seconds", type=DURATION, default="10s", show_default=True, help="In all.")
@click.option(
    "--threads", type=click.IntRange(1, 64), default=4, show_default=True, help="Callers at once."
)
@click.option(
    "--batch", type=click.IntRange(2, 1000), default=100, show_default=True, help="Large calls."
)
@click.option(
    "--payload-bytes", type=click.IntRange(0, limits.PAYLOAD_BYTES_MAX), default=200,
    show_default=True, help="Of each message.",
)  # fmt: skip
@click.option(
    "--channels", type=click.IntRange(1, 10_000), default=10, show_default=True, help="In turn."
)
def bench(
    app: App, seconds: float, threads: int, batch: int, payload_bytes: int, channels: int
) -> None:
    """Measure throughput and latency of your database.

    Threads of this one process send, receive and ack. It works in a queue of its own with a name
    that nobody else has, and deletes it afterwards, also after Ctrl-C. Other users of the database
    will feel it while it runs.
    """
    plan = Plan(max(0.5, seconds), threads, batch, payload_bytes, channels)
    name = f"bench-{secrets.token_hex(4)}"
    results: list[Measure] = []
    with app.open() as turnabout:
        _show.note(
            f"Measuring {app.place} for about {_show.duration(plan.seconds)} in the queue {name}, "
            f"which is deleted afterwards. {_show.plural(threads, 'thread')}, payloads of "
            f"{_show.plural(payload_bytes, 'byte')}, {_show.plural(channels, 'channel')}."
        )
        with _throw_away(turnabout, name) as queue:
            work = Bench(queue, plan)
            phases = work.phases()
            with progress("", len(phases), "calls") as bar:
                for i, (title, phase) in enumerate(phases):
                    if not _show.is_coloured(sys.stderr):
                        _show.note(f"  {title} …")
                    results += phase()
                    bar(sum(len(measure.times) for measure in results), i + 1)
    rows = [measure.as_json() for measure in results]
    if app.as_json:
        app.say({"url": app.place, "queue": name, "plan": asdict(plan), "results": rows}, "")
    else:
        _show.out(_table(rows))


@contextlib.contextmanager
def _throw_away(turnabout: Turnabout, name: str) -> Generator[Queue]:
    """A queue that keeps no history, and is gone at the end."""
    queue = turnabout.queue(name)
    try:
        with Unbroken():
            queue.create(history_seconds=0)
        yield queue
    finally:
        with Unbroken():
            _delete(turnabout, name)


def _delete(turnabout: Turnabout, name: str) -> None:
    """Both queues; what cannot be deleted is told, and does not hide how the run ended."""
    for each in (name, f"{name}{limits.DEAD_SUFFIX}"):
        try:
            turnabout.queue(each).delete()
        except QueueNotFound:
            pass
        except TurnaboutError as error:
            _show.note(f"The queue {each} stays; delete it by hand: {error}")


def _table(rows: Sequence[dict[str, Any]]) -> str:
    heads = ("CALL", "MESSAGES/S", "CALLS", "P50", "P95", "P99", "MAX")
    lines = [
        [
            row["name"],
            _show.count(round(row["messages_per_second"])),
            _show.count(row["calls"]),
            *(_ms(row[key]) for key in ("p50_ms", "p95_ms", "p99_ms", "p100_ms")),
        ]
        for row in rows
    ]
    return _show.grid(heads, lines, range(1, 9))


def _ms(value: float | None) -> str:
    return "–" if value is None else f"{value:.2f}ms" if value < 100 else f"{value:,.0f}ms"


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 3)
