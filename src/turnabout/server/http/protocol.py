"""A connection that nobody can hold for ever: HTTP/1.1 of uvicorn's, with deadlines and bounds.

uvicorn waits without end for a request's head and body, and for a client to read; its only
deadline is for a connection that has had an answer. Here a connection is always in one phase, and
each phase but `RUNNING`, which is ours, ends by itself. One timer looks after all connections.
What is refused here, before there is a request, is answered and then read to its end for a
moment: closing at once would reset the connection, and take the answer along.
"""

from __future__ import annotations

import asyncio
import math
from enum import Enum
from typing import Any, cast

import httptools
from uvicorn.config import Config
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle
from uvicorn.server import ServerState

from turnabout.server.context import House
from turnabout.server.http import refusals

LINGER_SECONDS = 2.0
"""For a client to send the rest of what is refused already, and to take the answer."""
PIPELINE_MAX = 100
"""Requests that a client may send ahead on one connection."""
NEVER = math.inf


class Phase(Enum):
    """What a connection waits for."""

    IDLE = "idle_seconds"
    HEAD = "head_seconds"
    BODY = "body_seconds"
    RUNNING = "running"
    """The whole request is here; its answer is not."""
    LEAVING = "leaving"
    """Nothing more is read for a purpose; what was written may still be taken."""


class Refusal(Exception):
    """Stops the parser: this request is answered here."""

    def __init__(self, status: int, code: str, limit: str, message: str) -> None:
        super().__init__(message)
        self.status, self.code, self.limit, self.message = status, code, limit, message


class Watchman:
    """Looks after all connections of a server."""

    def __init__(self, house: House) -> None:
        self.house = house
        self.options = options = house.options
        self.connections: set[Connection] = set()
        shortest = min(
            options.head_seconds,
            options.body_idle_seconds,
            options.body_seconds,
            options.idle_seconds,
            options.write_seconds,
        )
        self._every = min(0.5, shortest / 4)
        self._timer: asyncio.TimerHandle | None = None
        house.connections = lambda: len(self.connections)

    def start(self) -> None:
        """Look from now on, in the running loop."""
        self._timer = asyncio.get_running_loop().call_later(self._every, self._look)

    def stop(self) -> None:
        """Look no more, and end what is left."""
        if self._timer is not None:
            self._timer.cancel()
        for connection in list(self.connections):
            connection.transport.abort()

    def _look(self) -> None:
        now = asyncio.get_running_loop().time()
        for connection in list(self.connections):
            if now >= connection.deadline or now >= connection.write_deadline:
                connection.overdue(now)
        self.start()


class Connection(HttpToolsProtocol):
    """One connection, with its phase and the time when that ends."""

    def __init__(
        self,
        watchman: Watchman,
        config: Config,
        server_state: ServerState,
        app_state: dict[str, Any],
        loop: asyncio.AbstractEventLoop,
    ) -> None:
        super().__init__(config, server_state, app_state, loop)
        self.watchman = watchman
        self.options = watchman.options
        self.phase = Phase.HEAD
        self.deadline = NEVER
        self.write_deadline = NEVER
        self._body_until = NEVER
        self._unused = 0
        """Bytes since the last byte of a body or the last end of a head."""
        self._header_bytes = 0
        self._is_silent = True
        """The client has not sent anything yet."""
        self._owes = False
        """Leaving, but requests that came before are answered first."""

    # --- the transport's side -------------------------------------------------------------------

    def connection_made(self, transport: asyncio.Transport) -> None:
        """A client came. Over `max_connections` it is told so, and has to leave."""
        super().connection_made(transport)
        self._ending = cast("asyncio.Transport", _Ending(self))
        crowd = self.watchman.connections
        crowd.add(self)
        self.deadline = self.loop.time() + self.options.head_seconds
        if len(crowd) > self.options.max_connections:
            self._refuse(
                503, "busy", "max_connections",
                "this server has as many connections as it takes: repeat later, or use another one",
            )  # fmt: skip

    def connection_lost(self, exc: Exception | None) -> None:
        """Nothing is left to look after."""
        self.watchman.connections.discard(self)
        super().connection_lost(exc)

    def eof_received(self) -> None:
        """The client has sent all that it will. None: the transport is closed."""

    def data_received(self, data: bytes) -> None:
        """Feed the parser, and see whether it goes on within its bounds."""
        phase = self.phase
        if phase is Phase.LEAVING:
            return
        self._is_silent = False
        if phase is Phase.IDLE:
            self._begin(Phase.HEAD, self.options.head_seconds)
        elif phase is Phase.BODY:
            self.deadline = min(self.loop.time() + self.options.body_idle_seconds, self._body_until)
        self._unused += len(data)
        try:
            self._feed(data)
        except Refusal as refusal:
            self._refuse(refusal.status, refusal.code, refusal.limit, refusal.message)
            return
        if self._unused > self.options.max_header_bytes and self.phase is not Phase.LEAVING:
            self._refuse(431, "headers_too_large", "max_header_bytes", self._too_large())

    def pause_writing(self) -> None:
        """The client takes less than it is given: not for ever."""
        self.write_deadline = self.loop.time() + self.options.write_seconds
        super().pause_writing()

    def resume_writing(self) -> None:
        """It took it."""
        self.write_deadline = NEVER
        super().resume_writing()

    def shutdown(self) -> None:
        """The server closes: after the present answer, or now."""
        if self.phase is not Phase.LEAVING:
            super().shutdown()

    # --- the parser's side ----------------------------------------------------------------------

    def on_message_begin(self) -> None:
        """A request begins, perhaps right behind another one."""
        super().on_message_begin()
        self._unused = self._header_bytes = 0
        if self.phase is not Phase.HEAD:
            self._begin(Phase.HEAD, self.options.head_seconds)

    def on_url(self, url: bytes) -> None:
        """A piece of the request's target."""
        super().on_url(url)
        self._header_bytes += len(url)

    def on_header(self, name: bytes, value: bytes) -> None:
        """One header. One behind the body is nobody's business."""
        if self.phase is not Phase.HEAD:
            return
        self._header_bytes += len(name) + len(value) + 4
        if len(self.headers) >= self.options.max_headers:
            raise Refusal(
                431, "headers_too_large", "max_headers",
                f"a request has at most {self.options.max_headers} headers",
            )  # fmt: skip
        super().on_header(name, value)

    def on_headers_complete(self) -> None:
        """The head is whole: the request may be answered from now on."""
        if self._header_bytes > self.options.max_header_bytes:
            raise Refusal(431, "headers_too_large", "max_header_bytes", self._too_large())
        if self.parser.get_method() == b"CONNECT":
            raise Refusal(400, "usage", "syntax", "this is no proxy")
        for name, value in self.headers:
            if name == b"transfer-encoding" and value.lower() != b"chunked":
                raise Refusal(400, "usage", "syntax", "of transfer encodings only chunked is known")
        if len(self.pipeline) >= PIPELINE_MAX:
            raise Refusal(400, "usage", "syntax", "too many requests ahead of their answers")
        if self.parser.should_upgrade():
            return  # `_feed` begins again without the wish
        super().on_headers_complete()
        self.cycle.transport = self._ending
        self._unused = 0
        self._body_until = self.loop.time() + self.options.body_seconds
        self._begin(Phase.BODY, min(self.options.body_idle_seconds, self.options.body_seconds))

    def on_body(self, body: bytes) -> None:
        """A piece of the body."""
        self._unused = 0
        super().on_body(body)

    def on_message_complete(self) -> None:
        """The request is whole."""
        if self.parser.should_upgrade():
            return
        super().on_message_complete()
        if self.cycle.response_complete:
            self._begin(Phase.IDLE, self.options.idle_seconds)
        else:
            self._begin(Phase.RUNNING, NEVER)

    def on_response_complete(self) -> None:
        """An answer is written. The next request, or none, or the rest of one answered early."""
        self.server_state.total_requests += 1
        if self.phase is Phase.LEAVING and not self._owes:
            return
        if self.transport.is_closing():
            self._begin(Phase.LEAVING, self.options.write_seconds)
            return
        self.flow.resume_reading()
        if self.pipeline:
            cycle, app = self.pipeline.pop()
            if self.phase is Phase.BODY:  # reading had been stopped meanwhile
                self._begin(Phase.BODY, self.options.body_idle_seconds)
            self._start_asgi_task(cycle, app)
        elif self.phase is Phase.LEAVING:
            self.close_when_read()
        elif self.phase is Phase.BODY:
            self._body_until = self.deadline = self.loop.time() + LINGER_SECONDS
        elif self.phase is Phase.RUNNING:
            self._begin(Phase.IDLE, self.options.idle_seconds)

    def close_when_read(self) -> None:
        """The last answer is written: close, though not in the face of one who still sends."""
        if self.phase is Phase.BODY and not self.pipeline:
            self._leave()
        else:
            self._begin(Phase.LEAVING, self.options.write_seconds)
            self.transport.close()

    # --- ends -----------------------------------------------------------------------------------

    def overdue(self, now: float) -> None:
        """The time for something is over: say so where that makes sense, and end it."""
        if self.phase is Phase.LEAVING or self.transport.is_closing():
            self.transport.abort()
        elif now >= self.write_deadline:
            self._cut("write_seconds")
        elif self.phase is Phase.IDLE:
            if self.transport.get_write_buffer_size():
                self._cut("write_seconds")
            else:
                self.transport.close()
        elif self.phase is Phase.BODY and self.flow.read_paused:
            self._begin(Phase.BODY, self.options.body_idle_seconds)  # we are the slow ones
            self._body_until = now + self.options.body_seconds
        elif self._is_silent or (self.phase is Phase.BODY and self.cycle.response_complete):
            self.transport.close()
        else:
            what = "headers" if self.phase is Phase.HEAD else "body"
            limit = "head_seconds" if self.phase is Phase.HEAD else "body_seconds"
            self._refuse(408, "too_slow", limit, f"the {what} of this request took too long")

    def _begin(self, phase: Phase, seconds: float) -> None:
        self.phase = phase
        self.deadline = self.loop.time() + seconds

    def _feed(self, data: bytes) -> None:
        """Raises: Refusal, for whatever the parser doesn't like."""
        while True:
            try:
                self.parser.feed_data(data)
            except httptools.HttpParserUpgrade as upgrade:
                data = self._without_upgrade(data[upgrade.args[0] :])
            except httptools.HttpParserError as error:
                if isinstance(error.__context__, Refusal):
                    raise error.__context__ from None
                raise Refusal(400, "usage", "syntax", "this is no request of HTTP/1.1") from None
            else:
                return

    def _without_upgrade(self, rest: bytes) -> bytes:
        """Some clients ask for HTTP/2 beside every first request. The answer is no, but the parser
        takes it for a yes and gives the body up: it begins again, and is not told of the wish.
        """
        method, version = self.parser.get_method(), self.parser.get_http_version().encode()
        head = [b"%s %s HTTP/%s" % (method, self.url, version)]
        head += [b"%s: %s" % pair for pair in self.headers if pair[0] != b"upgrade"]
        self.parser = httptools.HttpRequestParser(self)
        return b"\r\n".join([*head, b"", b""]) + rest

    def _too_large(self) -> str:
        return f"the request line and headers have at most {self.options.max_header_bytes:,} bytes"

    def _refuse(self, status: int, code: str, limit: str, message: str) -> None:
        """Answer here, and leave. Earlier requests on the same connection are answered first."""
        self.watchman.house.counts.refused(limit)
        cycle = cast("RequestResponseCycle | None", self.cycle)
        if cycle is not None and not cycle.response_complete:
            is_this_one = self.phase is Phase.BODY
            if is_this_one and self.pipeline:
                self.pipeline.popleft()  # the newest: it hasn't begun
            elif is_this_one:
                if cycle.response_started:
                    self.transport.abort()
                    return
                cycle.disconnected = True
                cycle.message_event.set()
            if self.pipeline or not is_this_one or not cycle.disconnected:
                self._begin(Phase.LEAVING, NEVER)
                self._owes = True
                return
        self._leave(refusals.raw_refusal(status, code, message, retryable=status == 503))

    def _leave(self, answer: bytes = b"") -> None:
        """Say that nothing more will come, and read on for a moment."""
        self._begin(Phase.LEAVING, LINGER_SECONDS)
        self._owes = False
        self.flow.resume_reading()
        if answer:
            self.transport.write(answer)
        if self.transport.can_write_eof():
            self.transport.write_eof()
        else:  # TLS has no half of a close
            self.transport.close()

    def _cut(self, limit: str) -> None:
        self.watchman.house.counts.refused(limit)
        self.transport.abort()


class _Ending:
    """The transport as a request sees it, which may want to close it before it was read."""

    __slots__ = ("close", "is_closing", "write")

    def __init__(self, connection: Connection) -> None:
        self.write = connection.transport.write
        self.is_closing = connection.transport.is_closing
        self.close = connection.close_when_read
