"""A real server over a database, in a thread of the tests: `served(url)` gives its URL.

Plain uvicorn over `create_app`, on a port of its own.
"""

import asyncio
import contextlib
import socket
import threading
from collections.abc import Callable, Iterator
from typing import Any, Final

import uvicorn

import penstock.aio
from penstock.server import ServerOptions, create_app

WIDE: Final = ServerOptions(
    max_body_bytes=256 * 1024 * 1024, max_messages=10_000, max_connections=100_000
)
"""Limits that are the store's, not the server's."""


class Server:
    """A running one. It can be stopped, and started again on the same port."""

    def __init__(
        self,
        database: str,
        *,
        clock: Callable[[], int] | None = None,
        options: ServerOptions = WIDE,
        background: bool = True,
        around: Callable[[Any], Any] = lambda app: app,
    ) -> None:
        """
        background: False for tests that do themselves what the server does beside its requests, as
                    firing schedules.
        around:     puts something between uvicorn and the app.
        """
        self._database, self._clock, self._options = database, clock, options
        self._around, self._background = around, background
        self._port = 0
        self._thread: threading.Thread | None = None
        self.start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._port}"

    def start(self) -> None:
        """Begin to answer; connections are taken from now on."""
        # With the protocol named: only then does asyncio turn Nagle's algorithm off, which makes
        # each answer take 40 ms.
        sock = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sock.bind(("127.0.0.1", self._port))
        sock.listen(2_048)
        self._port = sock.getsockname()[1]
        self._ready = threading.Event()
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._run, args=(sock,), name="server", daemon=True)
        self._thread.start()
        assert self._ready.wait(30), "the server does not start"
        self._raise()

    def stop(self) -> None:
        """End as at SIGTERM: what waits is answered."""
        if self._thread is None:
            return
        with contextlib.suppress(RuntimeError):  # its loop has ended by itself
            self._loop.call_soon_threadsafe(self._end)
        self._thread.join(30)
        assert not self._thread.is_alive(), "the server does not stop"
        self._thread = None
        self._raise()

    def _raise(self) -> None:
        if self._error is not None:
            raise self._error

    def _end(self) -> None:
        self._house.close()
        self._server.should_exit = True

    def _run(self, sock: socket.socket) -> None:
        try:
            with contextlib.closing(sock):
                asyncio.run(self._serve(sock))
        except BaseException as error:  # noqa: BLE001 - raised again, in the test
            self._error = error
        finally:
            self._ready.set()

    async def _serve(self, sock: socket.socket) -> None:
        self._loop = asyncio.get_running_loop()
        async with penstock.aio.connect(self._database, clock=self._clock) as ps:
            app = create_app(ps.store, self._options)
            self._house = app.state.house
            if not self._background:
                self._house.background.clear()
            config = uvicorn.Config(
                self._around(app),
                http="httptools",
                ws="none",
                log_level="warning",
                timeout_graceful_shutdown=2,
                timeout_keep_alive=30,
            )
            self._server = uvicorn.Server(config)
            self._ready.set()
            await self._server.serve(sockets=[sock])


@contextlib.contextmanager
def served(database: str, **how: Any) -> Iterator[Server]:
    """A server for the length of a block; what it takes is said at `Server`."""
    server = Server(database, **how)
    try:
        yield server
    finally:
        server.stop()
