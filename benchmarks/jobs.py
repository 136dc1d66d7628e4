"""What a client process does: opens its client, warms up, waits for the others, works, reports."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, Protocol

Side = Literal["raw", "bare", "loud", "ours"]
Action = Literal["drain", "put", "churn", "split", "nothing", "send", "receive", "ack"]
"""The last five are requests to a server; the others are calls of a client."""
WARM_CALLS = 6  # PostgreSQL chooses the plan of a prepared statement at its sixth call
EIGHTHS = 8


class Client(Protocol):
    """What is measured: the raw limit, our functions called bare, or our library."""

    def take(self, most: int) -> Any:
        """Lease up to so many; what it answers is for `done`."""
        ...

    def done(self, receipts: Any) -> None:
        """End them."""
        ...

    def put(self, count: int) -> None:
        """Send so many."""
        ...

    def close(self) -> None:
        """Free the connection."""
        ...


@dataclass(frozen=True, slots=True)
class Job:
    """Work for one client process. It ends after `most` messages or `seconds`."""

    url: str
    side: Side
    action: Action
    batch: int
    seconds: float
    most: int = 1_000_000_000
    channels: int = 1
    connections: int = 1
    """To a server."""


@dataclass(frozen=True, slots=True)
class Tally:
    """What one client process did in its time."""

    messages: int
    calls: int
    empty: int
    seconds: float
    client_ns: int
    marks: tuple[float, ...] = ()
    split: dict[str, float] | None = None


def open_client(url: str, side: Side, channels: int) -> Client:
    """The client of a side, connected or ready to connect."""
    if side == "ours":
        from benchmarks.library import Library

        return Library(url, channels)
    if url.startswith("sqlite"):
        from benchmarks import on_sqlite

        return on_sqlite.Raw(url, channels)
    from benchmarks import on_postgres

    sides = {"raw": on_postgres.Raw, "bare": on_postgres.Bare, "loud": on_postgres.Loud}
    return sides[side](url, channels)


def serve(pipe: Any) -> None:
    """A client process: jobs come in through the pipe, tallies go out, until it is closed."""
    while True:
        try:
            job = pipe.recv()
        except (EOFError, KeyboardInterrupt):
            return
        try:
            _carry_out(job, pipe)
        except KeyboardInterrupt:
            return
        except Exception as error:  # noqa: BLE001  # the parent raises it
            pipe.send(RuntimeError(f"{job}: {type(error).__name__}: {error}"))


def _carry_out(job: Job, pipe: Any) -> None:
    if job.url.startswith("http"):
        from benchmarks.over_http import carry_out

        carry_out(job, pipe)
        return
    client = open_client(job.url, job.side, job.channels)
    try:
        work = _WORK[job.action]
        for _ in range(WARM_CALLS):
            _WARM[job.action](client, job.batch)
        gc.collect()
        pipe.send("ready")
        start_at = pipe.recv()
        while time.monotonic() < start_at:
            time.sleep(0)
        pipe.send(work(client, job))
        pipe.recv()  # the parent reads the processor time of the server before we hang up
    finally:
        client.close()
    pipe.send("closed")


def _drain(client: Client, job: Job) -> Tally:
    """Receive and ack."""
    batch, most = job.batch, job.most
    messages = calls = empty = 0
    spent, begun = time.process_time_ns(), time.monotonic()
    now, ends_at = begun, begun + job.seconds
    while now < ends_at and messages < most:
        calls += 1
        if receipts := client.take(batch):
            messages += len(receipts)
            client.done(receipts)
        else:
            empty += 1
        now = time.monotonic()
    return Tally(messages, calls, empty, now - begun, time.process_time_ns() - spent)


def _put(client: Client, job: Job) -> Tally:
    """Send."""
    calls = 0
    spent, begun = time.process_time_ns(), time.monotonic()
    now, ends_at = begun, begun + job.seconds
    while now < ends_at and calls * job.batch < job.most:
        client.put(job.batch)
        calls += 1
        now = time.monotonic()
    spent = time.process_time_ns() - spent
    return Tally(calls * job.batch, calls, 0, now - begun, spent)


def _churn(client: Client, job: Job) -> Tally:
    """Send a batch, receive and ack a batch, until enough have passed; and when each eighth had."""
    messages = calls = empty = 0
    marks: list[float] = []
    spent, begun = time.process_time_ns(), time.monotonic()
    now, ends_at = begun, begun + job.seconds
    while now < ends_at and messages < job.most:
        client.put(job.batch)
        calls += 1
        if receipts := client.take(job.batch):
            messages += len(receipts)
            client.done(receipts)
        else:
            empty += 1
        now = time.monotonic()
        while messages * EIGHTHS >= job.most * (len(marks) + 1):
            marks.append(now - begun)
    spent = time.process_time_ns() - spent
    return Tally(messages, calls, empty, now - begun, spent, tuple(marks))


def _split(client: Client, job: Job) -> Tally:
    """Send, receive and ack in turn, with the processor time of each in µs a call."""
    clock: Callable[[], int] = time.process_time_ns
    split = {"send": 0, "receive": 0, "ack": 0}
    calls = 0
    begun = time.monotonic()
    while time.monotonic() < begun + job.seconds and calls * job.batch < job.most:
        calls += 1
        at = clock()
        client.put(job.batch)
        sent = clock()
        receipts = client.take(job.batch)
        taken = clock()
        client.done(receipts)
        split["send"] += sent - at
        split["receive"] += taken - sent
        split["ack"] += clock() - taken
    seconds = time.monotonic() - begun
    each = {verb: ns / calls / 1000 for verb, ns in split.items()}
    return Tally(calls * job.batch, calls, 0, seconds, sum(split.values()), (), each)


def _warm_drain(client: Client, batch: int) -> None:
    if receipts := client.take(batch):
        client.done(receipts)


def _warm_all(client: Client, batch: int) -> None:
    client.put(batch)
    _warm_drain(client, batch)


def _warm_put(client: Client, batch: int) -> None:
    client.put(batch)


_WORK = {"drain": _drain, "put": _put, "churn": _churn, "split": _split}
_WARM = {"drain": _warm_drain, "put": _warm_put, "churn": _warm_all, "split": _warm_all}
