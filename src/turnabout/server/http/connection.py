"""A connection that no client can hold for ever: HTTP/1.1 by httptools' parser, with deadlines.

A connection is always in one phase, and each phase but `RUNNING`, which is ours, ends by itself. A
refusal before there is a request is answered, and then the input is read for a moment: closing at
once would reset the connection, and the answer would be lost.
"""

from __future__ import annotations

import asyncio
import math
from collections import deque
from enum import Enum
from typing import Any, cast
from urllib.parse import unquote

import httptools

from turnabout.server.http.connection_reaper import ConnectionReaper
from turnabout.server.http.exchange import HttpExchange
from turnabout.server.http.refusals import Refusal

LINGER_SECONDS = 2.0
"""Time for a client to send the rest of a refused request, and to read the answer."""
PIPELINE_MAX = 100
"""Requests that a client may send ahead on one connection."""
FRAME_BYTES = 6
"""Allowed framing for each byte in a chunk: no frame without extensions is longer."""
NEVER = math.inf


class ConnectionPhase(Enum):
    """The event that a connection waits for."""

    IDLE = "idle_seconds"
    HEAD = "head_seconds"
    BODY = "body_seconds"
    RUNNING = "running"
    """The whole request is here; its answer is not."""
    LEAVING = "leaving"
    """Input is discarded; the client may still read the response."""


class ClientConnection(asyncio.Protocol):
    """A client's connection, its phase and the deadline of that."""

    transport: asyncio.Transport

    def __init__(self, reaper: ConnectionReaper) -> None:
        self.reaper = reaper
        self.app = reaper.app
        self.options = reaper.options
        self.loop = asyncio.get_running_loop()
        self.parser = httptools.HttpRequestParser(self)
        self.phase = ConnectionPhase.HEAD
        self.deadline = NEVER
        self.write_deadline = NEVER
        self.writable: asyncio.Event | None = None
        """Set when the client has read the output; None: there is room for more."""
        self._exchanges: deque[HttpExchange] = deque()
        """Requests not fully answered; the first is with the app, the others are queued."""
        self._newest: HttpExchange | None = None
        """The request whose body is being read, or was read last."""
        self._url = b""
        self._headers: list[tuple[bytes, bytes]] = []
        self._body_until = NEVER
        self._unused = 0
        """Bytes since the last end of a head that are no body's; of chunks' frames a few for each
        byte are let pass.
        """
        self._header_bytes = 0
        self._holder = ""
        """The holder of its place: a namespace, or an address until a token was shown."""
        self._is_silent = True
        """The client has not sent anything yet."""
        self._is_paused = False
        """Reading is paused until the app has taken a body, or answers."""
        self._owes = False
        """Leaving, but earlier requests are answered first."""

    # --- the transport's side -------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """A client came. Over `max_connections` it is told so, and has to leave."""
        self.transport = cast("asyncio.Transport", transport)  # uvloop's is not one by its class
        self._places = {
            "server": _address(transport.get_extra_info("sockname")),
            "client": _address(transport.get_extra_info("peername")),
            "scheme": "https" if transport.get_extra_info("sslcontext") else "http",
        }
        self.reaper.connections.add(self)
        self.deadline = self.loop.time() + self.options.head_seconds
        client = self._places["client"]
        self._holder = f"@{client[0] if client else ''}"  # no namespace is called so
        if not self.reaper.places.take(self._holder, self.give_way, may_replace=True):
            text = "all the connections it accepts: repeat later, or use another one"
            self._refuse(Refusal(503, "busy", "max_connections", f"this server has {text}"))

    def connection_lost(self, exc: Exception | None) -> None:
        """Clean up; queued requests are dropped."""
        self.reaper.connections.discard(self)
        self.reaper.places.give(self._holder, self.give_way)
        for exchange in self._exchanges:
            exchange.disconnect()
        self._exchanges.clear()
        self.resume_writing()

    def eof_received(self) -> None:
        """The client has sent all that it will. None: the transport is closed."""

    def data_received(self, data: bytes) -> None:
        """Feed the parser, and see whether it goes on within its bounds."""
        phase = self.phase
        if phase is ConnectionPhase.LEAVING:
            return
        self._is_silent = False
        if phase is ConnectionPhase.IDLE:
            self._begin(ConnectionPhase.HEAD, self.options.head_seconds)
        elif phase is ConnectionPhase.BODY:
            self.deadline = min(self.loop.time() + self.options.body_idle_seconds, self._body_until)
        self._unused += len(data)
        try:
            self._feed(data)
        except Refusal as refusal:
            self._refuse(refusal)
            return
        if (
            self._unused > self.options.max_header_bytes
            and self.phase is not ConnectionPhase.LEAVING
        ):
            self._refuse(self._too_large())

    def pause_writing(self) -> None:
        """The client takes less than it is given: not for ever."""
        self.write_deadline = self.loop.time() + self.options.write_seconds
        self.writable = asyncio.Event()

    def resume_writing(self) -> None:
        """Go on writing: the send buffer has drained."""
        self.write_deadline = NEVER
        if self.writable is not None:
            self.writable.set()
            self.writable = None

    def pause_reading(self) -> None:
        """Stop reading until the app has taken the input so far."""
        if not self._is_paused:
            self._is_paused = True
            self.transport.pause_reading()

    def resume_reading(self) -> None:
        """Read again after `pause_reading`."""
        if self._is_paused:
            self._is_paused = False
            self.transport.resume_reading()

    def belongs_to(self, namespace: str) -> None:
        """Move the connection's place to the namespace that a request's token belongs to."""
        if namespace != self._holder and self.reaper.places.move(
            self._holder, namespace, self.give_way
        ):
            self._holder = namespace

    def give_way(self) -> bool:
        """Leave, to make room for other connections; False: a request has to be answered first."""
        if self._exchanges or self.phase not in {ConnectionPhase.IDLE, ConnectionPhase.HEAD}:
            return False
        self.cut("max_connections")
        return True

    def shutdown(self) -> None:
        """The server closes: after the present answer, or now."""
        if self.phase is ConnectionPhase.LEAVING:
            return
        if self._exchanges:
            self._exchanges[-1].keep_alive = False
        else:
            self.transport.close()

    # --- the parser's side ----------------------------------------------------------------------

    def on_message_begin(self) -> None:
        """A request begins, perhaps right behind another one."""
        self._url = b""
        self._headers = []
        self._unused = self._header_bytes = 0
        if self.phase is not ConnectionPhase.HEAD:
            self._begin(ConnectionPhase.HEAD, self.options.head_seconds)

    def on_url(self, url: bytes) -> None:
        """A piece of the request's target."""
        self._url += url
        self._header_bytes += len(url)

    def on_header(self, name: bytes, value: bytes) -> None:
        """Add one header. Those behind the body (trailers) are ignored."""
        if self.phase is not ConnectionPhase.HEAD:
            return
        self._header_bytes += len(name) + len(value) + 4
        if len(self._headers) >= self.options.max_headers:
            raise Refusal(
                431, "headers_too_large", "max_headers",
                f"a request has at most {self.options.max_headers} headers",
            )  # fmt: skip
        self._headers.append((name.lower(), value))

    def on_headers_complete(self) -> None:
        """The head is whole: the request may be answered from now on."""
        if self._header_bytes > self.options.max_header_bytes:
            raise self._too_large()
        if self.parser.get_method() == b"CONNECT":
            raise Refusal(400, "usage", "syntax", "this server is not a proxy")
        for name, value in self._headers:
            if name == b"transfer-encoding" and value.lower() != b"chunked":
                raise Refusal(400, "usage", "syntax", "of transfer encodings only chunked is known")
        if len(self._exchanges) > PIPELINE_MAX:
            raise Refusal(400, "usage", "syntax", "too many requests ahead of their answers")
        if self.parser.should_upgrade():
            return  # `_feed` begins again without the wish
        self._newest = exchange = self._exchange()
        self._exchanges.append(exchange)
        if len(self._exchanges) == 1:
            self.reaper.start(self._holder, exchange.run())
        else:
            self.pause_reading()
        self._unused = 0
        self._body_until = self.loop.time() + self.options.body_seconds
        self._begin(
            ConnectionPhase.BODY, min(self.options.body_idle_seconds, self.options.body_seconds)
        )

    def _exchange(self) -> HttpExchange:
        """The request whose head is complete. Raises any error if its target is not a path."""
        url = httptools.parse_url(self._url)
        path = url.path.decode("ascii")
        if url.host:  # the absolute form, whose host is the one that counts (RFC 9112, 3.2.2)
            host = b"[%s]" % url.host if b":" in url.host else url.host
            self._headers = [(n, host if n == b"host" else v) for n, v in self._headers]
        version = self.parser.get_http_version()
        scope = {
            "type": "http",
            "asgi": {"version": "3.0", "spec_version": "2.3"},
            "http_version": version,
            "method": self.parser.get_method().decode("ascii"),
            **self._places,
            "root_path": "",
            "path": unquote(path) if "%" in path else path,
            "raw_path": url.path,
            "query_string": url.query or b"",
            "headers": self._headers,
            "state": {},
        }
        return HttpExchange(
            self,
            scope,
            expects=any(n == b"expect" and v.lower() == b"100-continue" for n, v in self._headers),
            keep_alive=version != "1.0" and self.parser.should_keep_alive(),
        )

    def on_body(self, body: bytes) -> None:
        """A piece of the body."""
        self._unused = max(self._unused - (1 + FRAME_BYTES) * len(body), 0)
        if self._newest is not None and not self._newest.is_answered:
            self._newest.arrived(body)

    def on_message_complete(self) -> None:
        """The request is complete."""
        if self.parser.should_upgrade() or self._newest is None:
            return
        if self._newest.is_answered:
            self._begin(ConnectionPhase.IDLE, self.options.idle_seconds)
        else:
            self._newest.is_complete()
            self._begin(ConnectionPhase.RUNNING, NEVER)

    # --- the answers' side ----------------------------------------------------------------------

    def answered(self, exchange: HttpExchange) -> None:
        """An answer is written. The next request, or none, or the rest of one answered early."""
        self._exchanges.popleft()
        if not exchange.keep_alive:
            self.close_when_read()
        if self.phase is ConnectionPhase.LEAVING and not self._owes:
            return
        if self.transport.is_closing():
            self._begin(ConnectionPhase.LEAVING, self.options.write_seconds)
            return
        self.resume_reading()
        if self._exchanges:
            if self.phase is ConnectionPhase.BODY:  # reading had been stopped meanwhile
                self._begin(ConnectionPhase.BODY, self.options.body_idle_seconds)
            self.reaper.start(self._holder, self._exchanges[0].run())
        elif self.phase is ConnectionPhase.LEAVING:
            self.close_when_read()
        elif self.phase is ConnectionPhase.BODY:
            self._body_until = self.deadline = self.loop.time() + LINGER_SECONDS
        elif self.phase is ConnectionPhase.RUNNING:
            self._begin(ConnectionPhase.IDLE, self.options.idle_seconds)

    def close_when_read(self) -> None:
        """The last answer is written: close, unless the client still sends."""
        if self.phase is ConnectionPhase.BODY and not self._exchanges:
            self._leave()
        else:
            self._begin(ConnectionPhase.LEAVING, self.options.write_seconds)
            self.transport.close()

    # --- ends -----------------------------------------------------------------------------------

    def overdue(self, now: float) -> None:
        """The time for something is over: say so where that makes sense, and end it."""
        if self.phase is ConnectionPhase.LEAVING or self.transport.is_closing():
            self.transport.abort()
        elif now >= self.write_deadline:
            self.cut("write_seconds")
        elif self.phase is ConnectionPhase.IDLE:
            if self.transport.get_write_buffer_size():
                self.cut("write_seconds")
            else:
                self.transport.close()
        elif self.phase is ConnectionPhase.BODY and self._is_paused:
            self._begin(
                ConnectionPhase.BODY, self.options.body_idle_seconds
            )  # we are the slow ones
            self._body_until = now + self.options.body_seconds
        elif self._is_silent or (self.phase is ConnectionPhase.BODY and not self._exchanges):
            self.transport.close()
        else:
            what = "headers" if self.phase is ConnectionPhase.HEAD else "body"
            limit = "head_seconds" if self.phase is ConnectionPhase.HEAD else "body_seconds"
            text = f"the {what} of this request took too long"
            self._refuse(Refusal(408, "too_slow", limit, text))

    def _begin(self, phase: ConnectionPhase, seconds: float) -> None:
        self.phase = phase
        self.deadline = self.loop.time() + seconds

    def _feed(self, data: bytes) -> None:
        """Raises: Refusal for anything that the parser rejects."""
        while True:
            try:
                self.parser.feed_data(data)
            except httptools.HttpParserUpgrade as upgrade:
                data = self._without_upgrade(data[upgrade.args[0] :])
            except httptools.HttpParserError as error:
                if isinstance(error.__context__, Refusal):
                    raise error.__context__ from None
                text = f"this is not a request of HTTP/1.1: {error}"  # one of its fixed texts
                raise Refusal(400, "usage", "syntax", text) from None
            else:
                return

    def _without_upgrade(self, rest: bytes) -> bytes:
        """The input without `Upgrade`, for a new parser. Some clients ask for HTTP/2 with every
        first request. We ignore that, but httptools stops parsing at it.
        """
        method, version = self.parser.get_method(), self.parser.get_http_version().encode()
        head = [b"%s %s HTTP/%s" % (method, self._url, version)]
        head += [b"%s: %s" % pair for pair in self._headers if pair[0] != b"upgrade"]
        self.parser = httptools.HttpRequestParser(self)
        return b"\r\n".join([*head, b"", b""]) + rest

    def _too_large(self) -> Refusal:
        most = self.options.max_header_bytes
        text = f"the request line and headers have at most {most:,} bytes"
        return Refusal(431, "headers_too_large", "max_header_bytes", text)

    def _refuse(self, refusal: Refusal) -> None:
        """Answer here, and leave. Earlier requests on the same connection are answered first."""
        self.reaper.counts.refused(refusal.limit)
        if self.phase is ConnectionPhase.BODY and self._exchanges:
            newest = self._exchanges.pop()
            if newest.is_started:
                self.transport.abort()
                return
            newest.disconnect()
        if self._exchanges:
            self._begin(ConnectionPhase.LEAVING, NEVER)
            self._owes = True
            return
        self._leave(refusal.raw())

    def _leave(self, answer: bytes = b"") -> None:
        """Say that nothing more will come, and read on for a moment."""
        self._begin(ConnectionPhase.LEAVING, LINGER_SECONDS)
        self._owes = False
        self.resume_reading()
        if answer:
            self.transport.write(answer)
        if self.transport.can_write_eof():
            self.transport.write_eof()
        else:  # TLS has no half of a close
            self.transport.close()

    def cut(self, limit: str) -> None:
        """End it at once, for that limit."""
        if not self.transport.is_closing():
            self.reaper.counts.refused(limit)
            self.transport.abort()


def _address(address: Any) -> tuple[str, int] | None:
    """Host and port of one end; None where a transport has none, as at a Unix socket."""
    if not isinstance(address, tuple):
        return None
    host, port, *_ = cast("tuple[Any, ...]", address)
    return str(host), int(port)
