"""Messages a second by the API of SQS: beside `/v1` of the same server, and beside moto's server.

`python -m benchmarks.sqs`, on a quiet machine. Eight connections of one client send, or receive and
delete, one or ten messages a call; rounds take turns. The stores are on disk: SQLite with
synchronous full, a PostgreSQL of ours with synchronous_commit. moto keeps messages in memory. Other
servers that run already can join: `python -m benchmarks.sqs http://127.0.0.1:4566/`.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from urllib.parse import urlsplit

from benchmarks.on_server import ServerBase
from turnabout.dev.pgserver import PostgresServer
from turnabout.postgres import install

CONNECTIONS, SECONDS, ROUNDS = 8, 1.5, 5
SIZES = (1, 10)
SIGNED = (
    "AWS4-HMAC-SHA256 Credential=any/20260101/us-east-1/sqs/aws4_request, SignedHeaders=host, "
    "Signature=none"
)


class Client:
    """A client of HTTP that costs little, as its own time would be most of what is measured."""

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        self._host, self._port = parts.hostname, parts.port
        self._free: list[tuple[asyncio.StreamReader, asyncio.StreamWriter]] = []

    async def post(self, path: str, headers: Sequence[str], body: bytes) -> bytes:
        """The body of the answer, which has to be well."""
        free = self._free.pop() if self._free else None
        if free is None or free[0].at_eof():  # a server closes what was idle
            free = await asyncio.open_connection(self._host, self._port)
        reader, writer = free
        lines = [f"POST {path} HTTP/1.1", f"Host: {self._host}:{self._port}", *headers]
        lines += [f"Content-Length: {len(body)}", "", ""]
        writer.write("\r\n".join(lines).encode() + body)
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").lower()
        size = int(head.partition("content-length: ")[2].partition("\r\n")[0])
        answer = await reader.readexactly(size)
        assert head.split()[1] == "200", (head, answer)
        if "connection: close" in head:
            writer.close()
        else:
            self._free.append((reader, writer))
        return answer


class Sqs:
    """A client of the API, without an SDK."""

    def __init__(self, url: str) -> None:
        self._client, self._path = Client(url), urlsplit(url).path
        self.queue = ""
        self.is_slow = False

    async def ask(self, action: str, **fields: object) -> dict[str, object]:
        """Ask for an action."""
        headers = (
            f"X-Amz-Target: AmazonSQS.{action}", f"Authorization: {SIGNED}",
            "X-Amz-Date: 20260101T000000Z", "Content-Type: application/x-amz-json-1.0",
        )  # fmt: skip
        body = json.dumps(fields).encode()
        return json.loads(await self._client.post(self._path, headers, body) or b"{}")

    async def make(self) -> None:
        """Make the queue."""
        self.queue = str((await self.ask("CreateQueue", QueueName="bench"))["QueueUrl"])

    async def send(self, many: int) -> int:
        """Send messages."""
        if many == 1:
            await self.ask("SendMessage", QueueUrl=self.queue, MessageBody="x" * 100)
        else:
            entries = [{"Id": str(n), "MessageBody": "x" * 100} for n in range(many)]
            await self.ask("SendMessageBatch", QueueUrl=self.queue, Entries=entries)
        return many

    async def take(self, many: int) -> int:
        """Receive messages, and delete them."""
        found = await self.ask("ReceiveMessage", QueueUrl=self.queue, MaxNumberOfMessages=many)
        handles = [one["ReceiptHandle"] for one in found.get("Messages", [])]  # type: ignore[attr-defined]
        if many == 1 and handles:
            await self.ask("DeleteMessage", QueueUrl=self.queue, ReceiptHandle=handles[0])
        elif handles:
            entries = [{"Id": str(n), "ReceiptHandle": one} for n, one in enumerate(handles)]
            await self.ask("DeleteMessageBatch", QueueUrl=self.queue, Entries=entries)
        return len(handles)


class Native:
    """The same by `/v1`."""

    def __init__(self, url: str) -> None:
        self._client = Client(url)
        self.is_slow = False

    async def make(self) -> None:
        """Make nothing: the first send does."""

    async def _ask(self, path: str, body: object) -> dict[str, object]:
        headers = ("Content-Type: application/json",)
        place = f"/v1/queues/native{path}"
        return json.loads(await self._client.post(place, headers, json.dumps(body).encode()))

    async def send(self, many: int) -> int:
        """Send messages."""
        await self._ask("/messages", {"messages": [{"payload": {"text": "x" * 100}}] * many})
        return many

    async def take(self, many: int) -> int:
        """Receive messages, and ack them."""
        found = await self._ask("/receive", {"max_messages": many})
        receipts = [one["receipt"] for one in found["deliveries"]]  # type: ignore[attr-defined]
        if receipts:
            await self._ask("/ack", {"receipts": receipts})
        return len(receipts)


async def rate(door: Sqs | Native, what: str, many: int) -> float:
    """Messages a second, of all connections."""
    if what == "take":  # some more than are taken
        few = 5 if door.is_slow else 40
        for _ in range(few * many):
            await asyncio.gather(*(door.send(10) for _ in range(CONNECTIONS)))
    until, done = time.perf_counter() + SECONDS, 0

    async def work() -> None:
        nonlocal done
        while time.perf_counter() < until:
            count = await getattr(door, what)(many)
            done += count  # (read only now, as others count meanwhile)

    await asyncio.gather(*(work() for _ in range(CONNECTIONS)))
    return done / SECONDS


@contextlib.contextmanager
def moto() -> Iterator[str]:
    """A server of moto's."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    words = [sys.executable, "-m", "moto.server", "-p", str(port)]
    process = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        for _ in range(100):
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
                break
            time.sleep(0.1)
        yield f"http://127.0.0.1:{port}/"
    finally:
        process.terminate()
        process.wait(10)


async def measure(urls: dict[str, str]) -> None:
    """Print a table."""
    doors: dict[str, Sqs | Native] = {
        name: Native(url) if name.startswith("/v1") else Sqs(url) for name, url in urls.items()
    }
    for name, door in doors.items():
        door.is_slow = name == "moto"
        await door.make()
    print(f"{'messages a second':24}", *(f"{name:>18}" for name in doors))
    for what in ("send", "take"):
        for many in SIZES:
            rates: dict[str, list[float]] = {name: [] for name in doors}
            for _ in range(ROUNDS):
                for name, door in doors.items():
                    if what == "send" or many == 1 or not door.is_slow:  # (minutes for moto)
                        rates[name].append(await rate(door, what, many))
            cells = (
                f"{statistics.median(one):8,.0f} ±{(max(one) - min(one)) / 2:<6,.0f}" if one else ""
                for one in rates.values()
            )
            print(f"{what + ', ' + str(many) + ' a call':24}", *(f"{one:>18}" for one in cells))


def main() -> None:
    """Start the servers, and measure."""
    with contextlib.ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory())
        urls: dict[str, str] = {}
        postgres = stack.enter_context(PostgresServer(profile="durable"))
        install.up(postgres.url())
        for name, store in (
            ("SQLite", f"sqlite:///{folder}/app.db"),
            ("PostgreSQL", postgres.url()),
        ):
            server = ServerBase(store)
            stack.callback(server.close)
            urls |= {f"/v1, {name}": server.url, f"/sqs, {name}": f"{server.url}/sqs/"}
        urls["moto"] = stack.enter_context(moto())
        urls |= {urlsplit(url).netloc: url for url in sys.argv[1:]}
        asyncio.run(measure(urls))


if __name__ == "__main__":
    main()
