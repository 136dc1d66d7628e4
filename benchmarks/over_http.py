"""A client process of a server: many connections, each with one request after another.

It has to cost less than what it measures, so it speaks just as much HTTP as a server's answer with
a length needs, on uvloop where that is there.
"""

from __future__ import annotations

import asyncio
import gc
import re
import time
from typing import Any
from urllib.parse import urlsplit

from benchmarks.jobs import Job, Tally
from benchmarks.library import PAYLOAD, QUEUE

WARM_REQUESTS = 200
"""Of each action, before the start."""
RECEIPTS_AT_ONCE = 1_000
PARKED_AT_ONCE = 250
_LENGTH = re.compile(rb"\r\ncontent-length: (\d+)\r\n", re.IGNORECASE)
_RECEIPT = re.compile(rb'"receipt":"([\d.]+)"')
_SENT = b'{"messages":[{"payload":{"text":"%s"}}]}' % PAYLOAD


def carry_out(job: Job, pipe: Any) -> None:
    """As `jobs.serve` wants it."""
    loop = _new_loop()
    try:
        loop.run_until_complete(_carry_out(job, pipe))
    finally:
        loop.close()
    pipe.send("closed")


def _new_loop() -> asyncio.AbstractEventLoop:
    try:
        import uvloop
    except ImportError:
        return asyncio.new_event_loop()
    return uvloop.new_event_loop()


async def _carry_out(job: Job, pipe: Any) -> None:
    crowd = Crowd(job)
    await crowd.connect()
    try:
        if job.action == "ack":
            await crowd.lease(job.most)
        elif job.action != "receive":
            await crowd.work(5.0, WARM_REQUESTS)
        gc.collect()
        pipe.send("ready")
        start_at = pipe.recv()
        while time.monotonic() < start_at:
            time.sleep(0)  # noqa: ASYNC251
        spent, begun = time.process_time_ns(), time.monotonic()
        answered, empty = await crowd.work(job.seconds, job.most)
        seconds = time.monotonic() - begun
        spent = time.process_time_ns() - spent
        pipe.send(Tally(answered, answered + empty, empty, seconds, spent))
        pipe.recv()
    finally:
        crowd.close()


class Crowd:
    """The connections of a job."""

    def __init__(self, job: Job) -> None:
        self._address = urlsplit(job.url)
        self._job = job
        self._connections: list[Connection] = []
        self._receipts: list[bytes] = []

    async def connect(self) -> None:
        """Open them."""
        loop = asyncio.get_running_loop()
        host, port = self._address.hostname, self._address.port
        for _ in range(self._job.connections):
            _, connection = await loop.create_connection(Connection, host, port)
            self._connections.append(connection)

    async def lease(self, most: int) -> None:
        """Have receipts to ack."""
        request = self._request(
            f"/v1/queues/{QUEUE}/receive",
            b'{"max_messages":%d,"lease_seconds":600}' % RECEIPTS_AT_ONCE,
        )
        while len(self._receipts) < most:
            answer = await self._connections[0].ask(request)
            found = _RECEIPT.findall(answer)
            if not found:
                return
            self._receipts += found

    async def park(self, wait_seconds: float) -> list[asyncio.Future[bytes]]:
        """Have all of them wait for a message; their answers, in the order of asking. Not all at
        once: a server has only so many requests that do not wait yet.
        """
        body = b'{"max_messages":1,"wait_seconds":%d}' % wait_seconds
        request = self._request(f"/v1/queues/{QUEUE}/receive", body)
        answers: list[asyncio.Future[bytes]] = []
        for first in range(0, len(self._connections), PARKED_AT_ONCE):
            part = self._connections[first : first + PARKED_AT_ONCE]
            answers += [connection.ask(request) for connection in part]
            await asyncio.sleep(0.3)
        return answers

    async def work(self, seconds: float, most: int) -> tuple[int, int]:
        """Ask on all connections; how many answers brought something, and how many did not."""
        ends_at = time.monotonic() + seconds
        left = [most]
        counts = await asyncio.gather(
            *(self._ask(connection, ends_at, left) for connection in self._connections)
        )
        return sum(count for count, _ in counts), sum(empty for _, empty in counts)

    async def _ask(self, connection: Connection, ends_at: float, left: list[int]) -> Any:
        answered = empty = 0
        action = self._job.action
        fixed = self._fixed()
        while left[0] > 0 and time.monotonic() < ends_at:
            left[0] -= 1
            if action == "ack":
                if not self._receipts:
                    break
                fixed = self._ack(self._receipts.pop())
            answer = await connection.ask(fixed)
            if action == "receive" and b'"receipt"' not in answer:
                empty += 1
            else:
                answered += 1
        return answered, empty

    def _fixed(self) -> bytes:
        """The request that is the same each time."""
        match self._job.action:
            case "send":
                return self._request(f"/v1/queues/{QUEUE}/messages", _SENT)
            case "receive":
                body = b'{"max_messages":1,"lease_seconds":600}'
                return self._request(f"/v1/queues/{QUEUE}/receive", body)
            case action:
                return self._request(f"/{action}", _SENT)

    def _ack(self, receipt: bytes) -> bytes:
        return self._request(f"/v1/queues/{QUEUE}/ack", b'{"receipts":["%s"]}' % receipt)

    def _request(self, path: str, body: bytes) -> bytes:
        head = (
            f"POST {path} HTTP/1.1\r\nHost: {self._address.netloc}\r\nAccept: */*\r\n"
            f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
        )
        return head.encode() + body

    def close(self) -> None:
        """Hang up."""
        for connection in self._connections:
            connection.close()


def _unchunked(body: bytes) -> bytes | None:
    """A large answer comes in chunks. None: they are not all there."""
    parts: list[bytes] = []
    at = 0
    while (line := body.find(b"\r\n", at)) >= 0:
        size = int(body[at:line], 16)
        at = line + 2 + size + 2
        if at > len(body):
            break
        if not size:
            return b"".join(parts)
        parts.append(body[line + 2 : at - 2])
    return None


class Connection(asyncio.Protocol):
    """One request at a time."""

    def __init__(self) -> None:
        self._buffer = b""
        self._answer: asyncio.Future[bytes] | None = None
        self._transport: Any = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """It is open."""
        self._transport = transport

    def ask(self, request: bytes) -> asyncio.Future[bytes]:
        """Send a request; the body of the answer. Raises: RuntimeError unless that is a 200."""
        self._answer = asyncio.get_running_loop().create_future()
        self._transport.write(request)
        return self._answer

    def data_received(self, data: bytes) -> None:
        """A part of the answer, nearly always all of it."""
        buffer = self._buffer = self._buffer + data if self._buffer else data
        end = buffer.find(b"\r\n\r\n")
        if end < 0:
            return
        length = _LENGTH.search(buffer, 0, end + 2)
        body: bytes | None = buffer[end + 4 :]
        if not buffer.startswith(b"HTTP/1.1 200"):
            self._end(RuntimeError(f"the server said {buffer[:300]!r}"))
        elif length is None:
            body = _unchunked(body)
        elif len(body) < int(length[1]):
            body = None
        if body is not None:
            self._buffer = b""
            if self._answer is not None and not self._answer.done():
                self._answer.set_result(body)

    def connection_lost(self, exc: Exception | None) -> None:
        """The server has hung up, or we have."""
        self._end(exc or ConnectionError("the server has hung up"))

    def close(self) -> None:
        """Hang up; whoever waits for an answer is told that it is cancelled."""
        if self._answer is not None:
            self._answer.cancel()
        self._transport.close()

    def _end(self, error: Exception) -> None:
        if self._answer is not None and not self._answer.done():
            self._answer.set_exception(error)
