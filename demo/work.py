"""One worker process: receives flights by the batch, works out each one's speed, acks the batch.

    python -m demo.work '{"url": …}'

What it does is written to a file of its own, a line of JSON each, before the next step begins:
`got` (leased), `did` (the results), `acked`. So the verdict knows what a killed worker had done. A
result is known by its flight's row: when a flight is handled twice, it still counts once.
"""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import turnabout
from demo.flights import Places, airports, kilometres
from turnabout.words.errors import Unavailable, Uncertain

WAIT_SECONDS = 0.5


@dataclass(frozen=True, slots=True)
class Task:
    """The parent process's instructions for a worker."""

    url: str
    queue: str
    file: str
    batch: int
    lease_seconds: float
    stall_after: int | None = None
    """After this many of its flights, hold on to a half-done batch, and wait to be killed."""


class Diary:
    """The file that a worker writes its steps to; each line is there when `write` returns."""

    def __init__(self, path: str) -> None:
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)

    def write(self, event: str, **more: object) -> None:
        """Add a line: the event, the time in milliseconds, and what belongs to it."""
        line = {"event": event, "at": time.time_ns() // 1_000_000, **more}
        os.write(self._file, json.dumps(line, separators=(",", ":")).encode() + b"\n")


class Speeds:
    """The work itself: kilometres per hour from the places and the time in the air."""

    def __init__(self, places: Places) -> None:
        self._places = places
        self._known: dict[tuple[str, str], float | None] = {}

    def of(self, flight: dict[str, Any]) -> float | None:
        """How fast the flight was over ground; None if it was cancelled or its goal is unknown."""
        way = flight["origin"], flight["destination"]
        if way not in self._known:
            one, other = (self._places.get(name) for name in way)
            self._known[way] = kilometres(one, other) if one and other else None
        distance, minutes = self._known[way], flight["air_minutes"]
        return None if distance is None or not minutes else round(distance / minutes * 60, 1)


def work(task: Task, go: threading.Event, stopped: threading.Event) -> None:
    """Once told to begin, and until stopped: receive, work, write down, ack."""
    speeds, diary = Speeds(airports()), Diary(task.file)
    done = 0
    with turnabout.connect(task.url) as mq:
        queue = mq.queue(task.queue)
        queue.stats()  # the connection is open before anybody's time is taken
        diary.write("ready")
        go.wait()
        while not stopped.is_set():
            try:
                batch = queue.receive(
                    task.batch, wait_seconds=WAIT_SECONDS, lease_seconds=task.lease_seconds
                )
                if not batch:
                    continue
                flights = [message.json() for message in batch]
                lease = batch[0].delivery
                diary.write(
                    "got",
                    # By the store: a process that has to wait for a processor would tell it late.
                    at=lease.lease_until - lease.lease_ms,
                    rows=[flight["row"] for flight in flights],
                    carriers=[flight["carrier"] for flight in flights],
                    receipts=[str(message.receipt) for message in batch],
                )
                if task.stall_after is not None and done >= task.stall_after:
                    _did(diary, speeds, flights[: len(flights) // 2])
                    diary.write("stalled")
                    threading.Event().wait()
                _did(diary, speeds, flights)
                answers = queue.ack([message.receipt for message in batch])
            except (Unavailable, Uncertain) as error:
                diary.write("trouble", code=error.code)
                time.sleep(0.2)
                continue
            acked = [
                f["row"] for f, a in zip(flights, answers, strict=True) if a == turnabout.Acked()
            ]
            diary.write("acked", rows=acked)
            done += len(acked)


def _did(diary: Diary, speeds: Speeds, flights: Sequence[dict[str, Any]]) -> None:
    diary.write(
        "did",
        rows=[flight["row"] for flight in flights],
        speeds=[speeds.of(flight) for flight in flights],
        late=[flight["late_minutes"] for flight in flights],
    )


def _listen(go: threading.Event, stopped: threading.Event) -> None:
    """The parent writes when work may begin. It closes the pipe to stop us, and when it dies."""
    while os.read(0, 1024):
        go.set()
    stopped.set()
    go.set()


def main() -> None:
    """Work as the first argument says, until standard input ends."""
    go, stopped = threading.Event(), threading.Event()
    threading.Thread(target=_listen, args=(go, stopped), daemon=True).start()
    work(Task(**json.loads(sys.argv[1])), go, stopped)


if __name__ == "__main__":
    main()
