"""One request on a connection, and its answer: ASGI's `scope`, `receive` and `send`."""

from __future__ import annotations

import asyncio
import logging
from http import HTTPStatus
from typing import Protocol

from starlette.types import ASGIApp, Message, Scope

from turnabout.server.http.connection_reaper import ConnectionReaper
from turnabout.server.http.logs import stack

HIGH_WATER_BYTES = 64 * 1024
"""Body bytes that the app has not asked for, above which reading stops."""
GONE = "turnabout.gone"
"""Key in `scope["extensions"]` of a function that says at once whether the client has gone."""
BELONGS = "turnabout.belongs"
"""Key of a function to call with the request's namespace."""
CUT = "turnabout.cut"
"""Key of a function that ends the connection; it counts that for the limit it is given."""
PIECE_BYTES = 64 * 1024
"""Bytes of an answer given to the system at once, so that pending output is not copied."""
_STATUS_LINES = {
    status.value: f"HTTP/1.1 {status.value} {status.phrase}\r\n".encode() for status in HTTPStatus
}

log = logging.getLogger("turnabout.server.error")


class ExchangeConnection(Protocol):
    """The connection of a request, as the request sees it."""

    app: ASGIApp
    reaper: ConnectionReaper
    transport: asyncio.Transport
    writable: asyncio.Event | None

    def pause_reading(self) -> None:
        """Stop reading until the app has taken the input so far."""

    def resume_reading(self) -> None:
        """Read again after `pause_reading`."""

    def belongs_to(self, namespace: str) -> None:
        """Move the connection's place to the namespace that a request's token belongs to."""

    def close_when_read(self) -> None:
        """The last answer is written: close, unless the client still sends."""

    def cut(self, limit: str) -> None:
        """End the connection at once."""

    def answered(self, exchange: HttpExchange) -> None:
        """Note that the answer is written."""


class HttpExchange:
    """A request whose head has been read, until its answer is written."""

    __slots__ = (
        "_arrived", "_body", "_chunked", "_connection", "_left", "disconnected", "expects",
        "is_answered", "is_started", "is_whole", "keep_alive", "scope",
    )  # fmt: skip

    def __init__(
        self, connection: ExchangeConnection, scope: Scope, *, expects: bool, keep_alive: bool
    ) -> None:
        """`expects`: the client waits for `100 Continue` before it sends the body."""
        self._connection = connection
        self.scope = scope
        self.expects = expects
        self.keep_alive = keep_alive
        self.disconnected = False
        self.is_whole = False
        """All of the body is here."""
        self.is_started = self.is_answered = False
        self._arrived = asyncio.Event()
        """Set when `receive` has something to return."""
        self._body = bytearray()
        self._chunked = False
        self._left: int | None = None
        """Bytes of the answer that its Content-Length has promised and that are still to come."""
        scope["extensions"] = {
            GONE: self._has_gone,
            BELONGS: connection.belongs_to,
            CUT: connection.cut,
        }

    async def run(self) -> None:
        """Run the app for this request."""
        try:
            await self._connection.app(self.scope, self.receive, self.send)
        except Exception as error:  # noqa: BLE001 - the app's layers answer; this is one of them
            log.error("a request failed: %s", stack(error))  # noqa: TRY400 - it may quote a client
        if not (self.is_answered or self.disconnected):
            self._connection.close_when_read()  # the client has to see that it broke off

    # --- the connection's side ------------------------------------------------------------------

    def arrived(self, body: bytes) -> None:
        """A piece of the body is here."""
        self._body += body
        if len(self._body) > HIGH_WATER_BYTES:
            self._connection.pause_reading()
        self._arrived.set()

    def is_complete(self) -> None:
        """Mark the body as complete."""
        self.is_whole = True
        self._arrived.set()

    def disconnect(self) -> None:
        """Note that the client has gone."""
        self.disconnected = True
        self._arrived.set()

    def _has_gone(self) -> bool:
        # A write that failed closes the transport at once, and is told in the loop's next round.
        return self.disconnected or self._connection.transport.is_closing()

    # --- the app's side -------------------------------------------------------------------------

    async def receive(self) -> Message:
        """The part of the body that has come since the last call, or that the client has gone."""
        connection = self._connection
        if self.expects and not connection.transport.is_closing():
            connection.transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        self.expects = False
        if not (self.disconnected or self.is_answered):
            connection.resume_reading()
            await self._arrived.wait()
            self._arrived.clear()
        if self.disconnected or self.is_answered:
            return {"type": "http.disconnect"}
        body, self._body = bytes(self._body), bytearray()
        return {"type": "http.request", "body": body, "more_body": not self.is_whole}

    async def send(self, message: Message) -> None:
        """Write a part of the answer; waits while the client takes less than it is given."""
        body = message.get("body")
        while body and len(body) > PIECE_BYTES and self.is_started and not self.disconnected:
            body = memoryview(body)
            piece, body = body[:PIECE_BYTES], body[PIECE_BYTES:]
            await self._send({**message, "body": piece, "more_body": True})
        await self._send(message if body is message.get("body") else {**message, "body": body})

    async def _send(self, message: Message) -> None:
        connection = self._connection
        if connection.writable is not None:
            await connection.writable.wait()
        if self.disconnected:
            return
        kind = message["type"]
        if not self.is_started and kind == "http.response.start":
            self.is_started = True
            self.expects = False
            connection.transport.write(self._head(message))
        elif self.is_started and not self.is_answered and kind == "http.response.body":
            self._write(message.get("body", b""), is_last=not message.get("more_body", False))
        else:
            raise RuntimeError(f"an app must not send {kind} now")

    def _head(self, message: Message) -> bytes:
        status: int = message["status"]
        lines = [_STATUS_LINES.get(status) or b"HTTP/1.1 %d \r\n" % status]
        lines.append(self._connection.reaper.date_line)
        for name, value in message.get("headers", ()):
            if name == b"content-length":
                self._left = int(value)
            elif name == b"connection" and value.lower() == b"close":
                self.keep_alive = False
                continue
            lines.append(b"%s: %s\r\n" % (name, value))
        if not self.keep_alive:
            lines.append(b"connection: close\r\n")
        if self.scope["method"] == "HEAD" or status in (204, 304):
            self._left = 0
        elif self._left is None and self.scope["http_version"] == "1.1":
            self._chunked = True
            lines.append(b"transfer-encoding: chunked\r\n")
        elif self._left is None:
            self.keep_alive = False
        head = b"".join([*lines, b"\r\n"])
        if not head.count(b"\n") == head.count(b"\r") == len(lines) + 1 or b"\0" in head:
            raise RuntimeError("a header of an answer holds a line break")
        return head

    def _write(self, body: bytes, *, is_last: bool) -> None:
        transport = self._connection.transport
        if self.scope["method"] == "HEAD":
            body = b""
        if self._chunked:
            ending = b"0\r\n\r\n" if is_last else b""
            transport.write(b"%x\r\n%s\r\n%s" % (len(body), body, ending) if body else ending)
        else:
            if self._left is not None:
                self._left -= len(body)
                if self._left < 0 or (is_last and self._left):
                    raise RuntimeError("an answer does not have the length that it announced")
            transport.write(body)
        if is_last:
            self.is_answered = True
            self._arrived.set()
            self._connection.answered(self)
