"""The server that `turnabout serve` runs, in a thread of the tests: `served(url)` gives its URL."""

import asyncio
import contextlib
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any, Final

from starlette.routing import BaseRoute

import turnabout.aio
from tests.support.ports import free_port
from turnabout.server import ServerOptions, create_app
from turnabout.server.context import ServerContext
from turnabout.server.listening import listen
from turnabout.server.serve import Server as Serving
from turnabout.server.serve import _loop_factory

WIDE: Final = ServerOptions(
    auth="none", max_body_bytes=256 * 1024 * 1024, max_messages=10_000, drain_seconds=2
)
"""Limits that are the store's, not the server's."""
PATIENCE_SECONDS = 30.0


class Server:
    """A running one. It can be stopped, and started again on the same port."""

    context: ServerContext
    serving: Serving
    loop: asyncio.AbstractEventLoop

    def __init__(
        self,
        database: str,
        *,
        clock: Callable[[], int] | None = None,
        options: ServerOptions = WIDE,
        background: bool = True,
        routes: Sequence[BaseRoute] = (),
        around: Callable[[Any], Any] = lambda app: app,
    ) -> None:
        """
        background: False for tests that do themselves what the server does beside its requests, as
                    firing schedules.
        routes:     some more, before the others.
        around:     puts something between the connections and the app.
        """
        self._database, self._clock, self._options = (
            database,
            clock,
            replace(options, port=free_port()),
        )
        self._routes, self._around, self._background = routes, around, background
        self._thread: threading.Thread | None = None
        self.start()

    @property
    def port(self) -> int:
        return self._options.port

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def counted(self, name: str, **labels: str) -> float:
        """A figure of `/metrics`."""
        return self.context.counts.registry.get_sample_value(f"turnabout_{name}", labels) or 0

    def start(self) -> None:
        """Begin to answer; connections are taken from now on."""
        self._ready = threading.Event()
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name="server", daemon=True)
        self._thread.start()
        assert self._ready.wait(PATIENCE_SECONDS), "the server does not start"
        self._raise()

    def stop(self) -> None:
        """End as at SIGTERM: what waits is answered."""
        if self._thread is None:
            return
        with contextlib.suppress(RuntimeError):  # its loop has ended by itself
            self.loop.call_soon_threadsafe(self._until.set)
        self._thread.join(PATIENCE_SECONDS)
        assert not self._thread.is_alive(), "the server does not stop"
        self._thread = None
        self._raise()

    def _raise(self) -> None:
        if self._error is not None:
            raise self._error

    def _run(self) -> None:
        try:
            with asyncio.Runner(loop_factory=_loop_factory()) as runner:
                runner.run(self._serve())
        except BaseException as error:  # noqa: BLE001 - raised again, in the test
            self._error = error
        finally:
            self._ready.set()

    async def _serve(self) -> None:
        self.loop, self._until = asyncio.get_running_loop(), asyncio.Event()
        async with turnabout.aio.connect(self._database, clock=self._clock) as mq:
            app = create_app(mq.store, self._options, self._database)
            app.router.routes[:0] = self._routes
            self.context = app.state.context
            if not self._background:
                self.context.lifecycle.background.clear()
            with listen(self._options) as listener:
                self.serving = Serving(self._around(app), self.context, listener, self._until)
                await self.serving.serve(self._ready.set)


@contextlib.contextmanager
def served(database: str, **how: Any) -> Iterator[Server]:
    """A server for the length of a block; what it takes is said at `Server`."""
    server = Server(database, **how)
    try:
        yield server
    finally:
        server.stop()
