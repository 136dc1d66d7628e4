"""Run a server in this process: open the store, listen, and close in good order.

On SIGTERM `/readyz` says no, and all is served for `lame_duck_seconds`: load balancers look
elsewhere. Then, and on SIGINT at once, connections are refused, waiters are answered, and running
requests have `drain_seconds` to end. A second signal ends it at once; no answered verb is lost.
"""

from __future__ import annotations

import asyncio
import gc
import logging
import signal
import socket
import threading
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from typing import Any

from starlette.types import ASGIApp

from turnabout._connect import connect_async, reach
from turnabout.server.app import create_app
from turnabout.server.auth.authenticator import first_token
from turnabout.server.context import ServerContext
from turnabout.server.http.connection import ClientConnection
from turnabout.server.http.connection_reaper import ConnectionReaper
from turnabout.server.listening import BACKLOG, Certificate, Serving, listen, serving
from turnabout.server.options import ServerOptions
from turnabout.server.verbs import TokenFind
from turnabout.words.errors import UsageError

ECHO_SECONDS = 0.5
"""A signal that comes again so soon is the same one, by way of a terminal or a parent process."""
SIGNAL_SECONDS = 0.1
"""Time between two checks for a signal."""
LOOK_SECONDS = 0.02
"""Time between two checks whether all requests have ended."""
GC_THRESHOLDS = (20_000, 20, 100)
"""Objects, and rounds, between two garbage collections: there are hardly any cycles."""
FORCED_SECONDS = 2.0
"""Time for the database to be closed after a second signal."""

OPEN_TO = "anybody who reaches this port, even through a proxy or a tunnel, may do everything"

SIGNALS = {signal.SIGINT, signal.SIGTERM, getattr(signal, "SIGBREAK", signal.SIGTERM)}

log = logging.getLogger("turnabout.server")


def prepare(url: str, *, migrate: bool) -> None:
    """Refuse a database that cannot be served, and with `migrate` bring PostgreSQL to this
    version's schema; SQLite always is. Waits for a database that is away: one that recovers is back
    soon. Raises: UsageError, and like `Installer.up`.
    """
    if url.startswith(("http://", "https://")):
        raise UsageError(
            "a server stands before a database, not before another server: name it with --url, "
            "as sqlite:///path or postgresql://…"
        )
    reach(url, migrate=migrate, tell=lambda e: log.warning("waiting for the database: %s", e))


def run(
    url: str,
    options: ServerOptions,
    *,
    announce: Callable[[Serving], None] = lambda _: None,
) -> bool:
    """Serve the database of that URL until a signal comes. False: requests were cut off.

    announce: called as soon as connections are taken.
    Raises:   UsageError with what to do; Forbidden, Unavailable, WrongVersion.
    """
    # A look for cycles through everything, in the middle of a large body, costs more than the body.
    gc.set_threshold(*GC_THRESHOLDS)
    with asyncio.Runner(loop_factory=_loop_factory()) as runner:
        return runner.run(serve(url, options, announce=announce))


async def serve(
    url: str,
    options: ServerOptions,
    *,
    announce: Callable[[Serving], None] = lambda _: None,
    until: asyncio.Event | None = None,
) -> bool:
    """`run` inside a loop that runs; ends by a signal, or when `until` is set."""
    turnabout = connect_async(url)
    forced = False
    try:
        # Opens the file, or finds out that the database is away or of another version.
        await turnabout.store.run(TokenFind("a" * 12))
        app = create_app(turnabout.store, options, url)
        context: ServerContext = app.state.context
        with listen(options, shared=options.processes > 1) as listener:
            server = Server(app, context, listener, until)
            token = None
            if options.auth == "tokens":
                token = await first_token(turnabout.store)
            else:
                log.warning("no tokens are asked for (auth=none): %s", OPEN_TO)
            await server.serve(lambda: announce(serving(options, listener, token)))
            forced = server.is_forced
            return not server.was_cut
    finally:
        with suppress(TimeoutError):
            async with asyncio.timeout(FORCED_SECONDS if forced else None):
                await turnabout.close()


class Server:
    """An app behind one listener, with our connections and an end in good order."""

    def __init__(
        self,
        app: ASGIApp,
        context: ServerContext,
        listener: socket.socket,
        until: asyncio.Event | None = None,
    ) -> None:
        self.app = app
        self.context = context
        self.was_cut = False
        """Requests were ended before they had an answer."""
        self.is_forced = False
        """A second signal came: running requests get no more time."""
        self._options = options = context.options
        self.certificate: Certificate | None = None
        if options.tls_cert is not None:
            self.certificate = Certificate(options, options.tls_cert)
            context.lifecycle.background.append(self.certificate.keep_renewed)
        self._listener = listener
        self._until = until or asyncio.Event()
        self._reaper = ConnectionReaper(app, options, context.counts)
        context.connections = lambda: len(self._reaper.connections)
        self._signal: int | None = None
        self._first_signal_at: float | None = None

    async def serve(self, tell: Callable[[], None] = lambda: None) -> None:
        """Serve until the end; `tell` is called as soon as connections are taken."""
        loop, tls = asyncio.get_running_loop(), self.certificate
        with self._signals():
            async with self.context.lifecycle.working():
                self._reaper.look()
                create: Any = loop.create_server
                if self._options.unix_socket is not None:
                    create = loop.create_unix_server
                listening: asyncio.Server = await create(
                    lambda: ClientConnection(self._reaper),
                    sock=self._listener,
                    ssl=tls and tls.context,
                    backlog=BACKLOG,
                    ssl_handshake_timeout=tls and self._options.head_seconds,
                )
                tell()
                await self._told_to_end()
                await self._serve_as_lame_duck()
                await self._shut_down(listening)

    async def _told_to_end(self) -> None:
        # A signal sets no event: its handler must not touch the loop.
        while self._first_signal_at is None and not self._until.is_set():
            with suppress(TimeoutError):
                await asyncio.wait_for(self._until.wait(), SIGNAL_SECONDS)

    async def _serve_as_lame_duck(self) -> None:
        """Report not ready, and go on until load balancers have seen it."""
        seconds = self._options.lame_duck_seconds
        if not seconds or self._signal == signal.SIGINT:  # at a terminal nobody is to be told
            return
        log.info("leaving: /readyz says so, and all is served for %g seconds more", seconds)
        self.context.lifecycle.leaving = True
        ends_at = time.monotonic() + seconds
        while time.monotonic() < ends_at:
            if self.is_forced:
                return
            await asyncio.sleep(SIGNAL_SECONDS)

    async def _shut_down(self, listening: asyncio.Server) -> None:
        """Refuse connections, answer the waiters, and give other requests time."""
        log.info(
            "closing: no new connections, %d requests under way", self.context.admission.requests
        )
        listening.close()
        self.context.lifecycle.close()
        for connection in tuple(self._reaper.connections):
            connection.shutdown()
        await self._drain()
        running = tuple(self._reaper.tasks)
        self.was_cut = bool(running)
        for task in running:
            task.cancel()
        self._reaper.stop()
        if running:
            log.warning("%d requests were cut off", len(running))
            await asyncio.wait(running, timeout=FORCED_SECONDS)

    async def _drain(self) -> None:
        ends_at = time.monotonic() + self._options.drain_seconds
        while self._reaper.tasks or self._reaper.connections:
            if self.is_forced or time.monotonic() >= ends_at:
                return
            await asyncio.sleep(LOOK_SECONDS)

    def _signalled(self, number: int, _: object) -> None:
        """The first signal closes in good order, the second at once."""
        now = time.monotonic()
        if self._first_signal_at is None:
            self._signal, self._first_signal_at = number, now
        elif now - self._first_signal_at > ECHO_SECONDS:
            self.is_forced = True

    @contextmanager
    def _signals(self) -> Generator[None]:
        """Take SIGTERM and SIGINT. They are not raised again in the end: they were obeyed."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        before = {sig: signal.signal(sig, self._signalled) for sig in SIGNALS}
        try:
            yield
        finally:
            for sig, handler in before.items():
                signal.signal(sig, handler)


def _loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    """The event loop of uvloop, where that is installed."""
    try:
        import uvloop
    except ImportError:  # Windows
        return None
    return uvloop.new_event_loop
