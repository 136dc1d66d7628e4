"""What a client process does: opens its client, warms up, waits for the others, works, reports."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal, Protocol, runtime_checkable

Side = Literal["raw", "bare", "loud", "ours"]
"""Whose client; `peers` has more of them."""
Call = Literal["drain", "consume", "put", "churn", "flow", "pace", "listen"]
Request = Literal["nothing", "send", "receive", "ack"]
Action = Call | Request
"""What a client calls, or what is asked of a server."""
WARM_CALLS = 6  # PostgreSQL chooses the plan of a prepared statement at its sixth call
EIGHTHS = 8
EMPTY_PAUSE_SECONDS = 0.001
STAMP = b"%020d"
"""When a message was sent, by the clock that all processes of a machine share."""


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


class Waiting(Client, Protocol):
    """A client that can wait for a message, as `listen` asks it to."""

    def tell(self, payload: bytes) -> None:
        """Send this."""
        ...

    def wait(self, seconds: float) -> Sequence[bytes]:
        """Payloads, of which the first may be waited for so long; they are ended."""
        ...


@runtime_checkable
class SelfDriven(Protocol):
    """What is measured calls its handlers by itself: a framework for workers."""

    def warm(self, job: Job) -> None:
        """Be ready to begin at once."""
        ...

    def run(self, job: Job) -> Tally:
        """Do the job."""
        ...

    def close(self) -> None:
        """Free the connection."""
        ...


@dataclass(frozen=True, slots=True)
class Job:
    """Work for one client process. It ends after `most` messages or `seconds`."""

    url: str
    side: str
    action: Action
    batch: int
    seconds: float
    most: int = 1_000_000_000
    channels: int = 1
    connections: int = 1
    """To a server."""
    rate: float = 0.0
    """Messages a second, for `pace`."""

    def open(self) -> Client | SelfDriven:
        """The client that does it, connected or ready to connect."""
        return open_client(self.url, self.side, self.channels)


@dataclass(frozen=True, slots=True)
class Tally:
    """What one client process did in its time."""

    messages: int
    calls: int
    empty: int
    seconds: float
    client_ns: int
    parts: tuple[int, ...] = ()
    """Messages in each part of the time, of `flow`."""
    waits: tuple[float, ...] = ()
    """Seconds from send to receive of each message, of `listen`."""
    span: tuple[float, float] | None = None
    """When the first and last message came, where the clock began with the first."""


def open_client(url: str, side: str, channels: int) -> Client:
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
        except (EOFError, BrokenPipeError, KeyboardInterrupt):
            return  # the parent let us go
        except Exception as error:  # noqa: BLE001  # the parent raises it
            pipe.send(RuntimeError(f"{job}: {type(error).__name__}: {error}"))


def _carry_out(job: Job, pipe: Any) -> None:
    if job.url.startswith("http"):
        from benchmarks.over_http import carry_out

        carry_out(job, pipe)
        return
    client = job.open()
    try:
        if isinstance(client, SelfDriven):
            client.warm(job)
            work: Callable[[], Tally] = partial(client.run, job)
        else:
            work = partial(_WORK[job.action], client, job)
            for _ in range(WARM_CALLS):
                _WARM[job.action](client, job.batch)
        gc.collect()
        pipe.send("ready")
        start_at = pipe.recv()
        while time.monotonic() < start_at:
            time.sleep(0)
        pipe.send(work())
        pipe.recv()  # the parent reads the processor time of the server before we hang up
    finally:
        client.close()
    pipe.send("closed")


def _drain(client: Client, job: Job, empty_pause: float = 0.0) -> Tally:
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
            if empty_pause:
                time.sleep(empty_pause)
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
    """Send a batch, receive and ack a batch, until enough have passed."""
    messages = calls = empty = 0
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
    spent = time.process_time_ns() - spent
    return Tally(messages, calls, empty, now - begun, spent)


def _flow(client: Client, job: Job) -> Tally:
    """Send a batch, receive and ack a batch, all the time; and how many in each eighth of it."""
    parts = [0] * EIGHTHS
    calls = empty = 0
    spent, begun = time.process_time_ns(), time.monotonic()
    while (now := time.monotonic() - begun) < job.seconds:
        client.put(job.batch)
        calls += 1
        if receipts := client.take(job.batch):
            client.done(receipts)
            parts[int(now / job.seconds * EIGHTHS)] += len(receipts)
        else:
            empty += 1
    spent = time.process_time_ns() - spent
    return Tally(sum(parts), calls, empty, now, spent, parts=tuple(parts))


def _pace(client: Waiting, job: Job) -> Tally:
    """Send one message after the other, at a rate, each with the time it was sent."""
    spent, begun = time.process_time_ns(), time.monotonic()
    count = int(job.seconds * job.rate)
    for number in range(count):
        time.sleep(max(0.0, begun + number / job.rate - time.monotonic()))
        client.tell(STAMP % time.monotonic_ns())
    return Tally(count, count, 0, time.monotonic() - begun, time.process_time_ns() - spent)


def _listen(client: Waiting, job: Job) -> Tally:
    """Wait for messages, and how long each took to come."""
    waits: list[float] = []
    calls = empty = 0
    spent, begun = time.process_time_ns(), time.monotonic()
    ends_at = begun + job.seconds
    while (now := time.monotonic()) < ends_at and len(waits) < job.most:
        calls += 1
        payloads = client.wait(max(ends_at - now, 0.01))
        empty += not payloads
        heard_at = time.monotonic_ns()
        waits += [(heard_at - int(payload)) / 1e9 for payload in payloads]
    spent = time.process_time_ns() - spent
    return Tally(len(waits), calls, empty, now - begun, spent, waits=tuple(waits))


def _warm_drain(client: Client, batch: int) -> None:
    if receipts := client.take(batch):
        client.done(receipts)


def _warm_all(client: Client, batch: int) -> None:
    client.put(batch)
    _warm_drain(client, batch)


def _warm_put(client: Client, batch: int) -> None:
    client.put(batch)


def _warm_not(client: Client, batch: int) -> None:
    """A receiver that waits for a message begins at once."""


_WORK: dict[str, Callable[[Any, Job], Tally]] = {
    "drain": _drain,
    "consume": partial(_drain, empty_pause=EMPTY_PAUSE_SECONDS),
    "put": _put,
    "churn": _churn,
    "flow": _flow,
    "pace": _pace,
    "listen": _listen,
}
_WARM: dict[str, Callable[[Any, int], None]] = {
    "drain": _warm_drain,
    "consume": _warm_drain,
    "put": _warm_put,
    "churn": _warm_all,
    "flow": _warm_all,
    "pace": _warm_not,
    "listen": _warm_not,
}
