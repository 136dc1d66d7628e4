"""Run a server in this process: open the store, listen, and close in good order.

On SIGTERM or SIGINT nobody else is let in, waiters are answered at once, and running requests may
end, for `drain_seconds`. A second signal ends it at once; what was answered is in the database.
"""

from __future__ import annotations

import asyncio
import gc
import logging
import signal
import socket
import ssl
import sys
import threading
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress

from starlette.types import ASGIApp

from turnabout._connect import connect_async, installer
from turnabout.server.app import create_app
from turnabout.server.auth.authenticator import first_token
from turnabout.server.context import ServerContext
from turnabout.server.http.connection import ClientConnection
from turnabout.server.http.connection_reaper import ConnectionReaper
from turnabout.server.options import ServerOptions
from turnabout.server.verbs import TokenFind
from turnabout.words.errors import Unavailable, UsageError
from turnabout.words.value import value

BACKLOG = 2_048
SEND_BUFFER_BYTES = 128 * 1024
"""The system's buffer of answers on each connection. Left alone it takes megabytes: more memory
than ours for clients that are slow, and it says that an answer is gone which nobody has read.
"""
FILES_BESIDE = 128
"""Files that a server needs besides its connections: the database, listeners, logs."""
ECHO_SECONDS = 0.5
"""A signal that comes again so soon is the same one, by way of a terminal or a parent process."""
SIGNAL_SECONDS = 0.1
"""Between two looks whether a signal came."""
LOOK_SECONDS = 0.02
"""Between two looks whether all requests have ended."""
GC_THRESHOLDS = (20_000, 20, 100)
"""Objects, and rounds, between two looks for cycles, of which there are hardly any."""
FORCED_SECONDS = 2.0
"""For the database to be closed after a second signal."""

OPEN_TO = "whoever reaches this port, also through a proxy or a tunnel, may do everything"

SIGNALS = {signal.SIGINT, signal.SIGTERM, getattr(signal, "SIGBREAK", signal.SIGTERM)}

log = logging.getLogger("turnabout.server")


@value
class Serving:
    """Where a server that has begun is found."""

    url: str
    port: int
    dashboard: str | None
    first_token: str | None = None
    """The one that was made as the database had none: shown this once."""


def run(
    url: str,
    options: ServerOptions,
    *,
    migrate: bool = False,
    announce: Callable[[Serving], None] = lambda _: None,
) -> bool:
    """Serve the database of that URL until a signal comes. False: requests were cut off.

    migrate:  bring a PostgreSQL database to this version's schema first; an SQLite file always is.
    announce: called as soon as connections are taken.
    Raises:   UsageError with what to do; Forbidden, Unavailable, WrongVersion.
    """
    _refuse_servers(url)
    if migrate:
        installer(url).up(url)
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
    _refuse_servers(url)
    turnabout = connect_async(url)
    forced = False
    try:
        # Opens the file, or finds out that the database is away or of another version.
        await turnabout.store.run(TokenFind("a" * 12))
        app = create_app(turnabout.store, options)
        context: ServerContext = app.state.context
        with _listener(options) as listener:
            server = Server(app, context, listener, until)
            token = None
            if options.auth == "tokens":
                token = await first_token(turnabout.store)
            else:
                log.warning("no tokens are asked for (auth=none): %s", OPEN_TO)
            await server.serve(lambda: announce(_serving(options, listener, token)))
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
        """A second signal came: nobody is waited for."""
        self._options = options = context.options
        self._tls = _tls(options)
        self._listener = listener
        self._until = until
        self._reaper = ConnectionReaper(app, options, context.counts)
        context.connections = lambda: len(self._reaper.connections)
        self._first_signal_at: float | None = None

    async def serve(self, tell: Callable[[], None] = lambda: None) -> None:
        """Serve until the end; `tell` is called as soon as connections are taken."""
        loop = asyncio.get_running_loop()
        with self._signals():
            async with self.context.lifecycle.working():
                self._reaper.look()
                listening = await loop.create_server(
                    lambda: ClientConnection(self._reaper),
                    sock=self._listener,
                    ssl=self._tls,
                    backlog=BACKLOG,
                    ssl_handshake_timeout=self._options.head_seconds if self._tls else None,
                )
                tell()
                await self._told_to_end()
                await self._shut_down(listening)

    async def _told_to_end(self) -> None:
        # Not an event of the loop's: the handler of a signal must not touch the loop.
        while self._first_signal_at is None:
            if self._until is not None and self._until.is_set():
                return
            await asyncio.sleep(SIGNAL_SECONDS)

    async def _shut_down(self, listening: asyncio.Server) -> None:
        """Let nobody in, answer the waiters, and give other requests time."""
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

    def _signalled(self, *_: object) -> None:
        """The first signal closes in good order, the second at once."""
        now = time.monotonic()
        if self._first_signal_at is None:
            self._first_signal_at = now
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


def _tls(options: ServerOptions) -> ssl.SSLContext | None:
    """Raises: UsageError for files that do not hold a certificate and its key."""
    if options.tls_cert is None:
        return None
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    try:
        context.load_cert_chain(options.tls_cert, options.tls_key)
    except OSError as error:  # as is whatever the TLS library says
        raise UsageError(
            f"{options.tls_cert} and {options.tls_key or 'the key in it'} are not a certificate "
            "and key in PEM: see --tls-cert and --tls-key"
        ) from error
    return context


def _refuse_servers(url: str) -> None:
    if url.startswith(("http://", "https://")):
        raise UsageError(
            "a server stands before a database, not before another server: name it with --url, "
            "as sqlite:///path or postgresql://…"
        )


def _loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    """That of uvloop, where it is installed."""
    try:
        import uvloop
    except ImportError:  # Windows
        return None
    return uvloop.new_event_loop


def _listener(options: ServerOptions) -> socket.socket:
    """A bound socket. Raises: UsageError, Unavailable."""
    _allow_files(options.max_connections + FILES_BESIDE)
    host, port = options.host, options.port
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        return _bound(found[0][0], found[0][4][:2])
    except socket.gaierror as error:
        raise UsageError(
            f"{host!r} is not an address of this machine: use 127.0.0.1 or 0.0.0.0"
        ) from error
    except OSError as error:
        raise Unavailable(
            f"cannot listen on {host} port {port}: {error.strerror or error}; stop what listens "
            "there, or give another --port (0: any that is free)"
        ) from error


def _bound(family: int, address: tuple[object, ...]) -> socket.socket:
    # The protocol is named: asyncio turns Nagle's algorithm off for no other, and with it an answer
    # in two pieces takes 40 ms.
    listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        if sys.platform != "win32":  # there it would let two servers have one port
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        # Connections have it from their listener.
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, SEND_BUFFER_BYTES)
        listener.bind(address)
        listener.listen(BACKLOG)
    except OSError:
        listener.close()
        raise
    return listener


def _allow_files(wanted: int) -> None:
    """A connection is an open file. Where fewer are allowed than connections, ask for more."""
    try:
        import resource
    except ImportError:  # Windows has no such limit
        return
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY or soft >= wanted:
        return
    most = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))
    if most < wanted:
        log.warning(
            "only %d open files are allowed, too few for max_connections: raise the limit "
            "(`ulimit -n %d`, LimitNOFILE=%d), or lower max_connections to %d",
            most, wanted, wanted, max(most - FILES_BESIDE, 1),
        )  # fmt: skip


def _serving(options: ServerOptions, listener: socket.socket, token: str | None) -> Serving:
    port: int = listener.getsockname()[1]
    host = options.host
    if host in ("0.0.0.0", "::", "localhost"):  # noqa: S104 - shown, not bound
        host = "localhost"
    elif ":" in host:
        host = f"[{host}]"
    url = f"{'https' if options.tls_cert else 'http'}://{host}:{port}"
    return Serving(url, port, f"{url}/dashboard" if options.dashboard else None, token)
