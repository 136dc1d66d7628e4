"""A server to measure: ours over a store, or one of the same framework with handlers that do
nothing, each in a process of its own.
"""

from __future__ import annotations

import contextlib
import subprocess
import sys
import threading
from collections.abc import Sequence
from pathlib import Path

from benchmarks.crew import Base

EMPTY = "empty"
START_SECONDS = 30.0


class ServerBase:
    """A server, started; for the crew, with the processor time of what stands behind it."""

    def __init__(self, what: str, behind: Base | None = None) -> None:
        """`what`: `EMPTY`, or the URL of the store."""
        self._behind = behind
        self._process = subprocess.Popen(
            [sys.executable, "-m", "benchmarks.on_server", what],
            stdout=subprocess.PIPE,
            text=True,
        )
        timer = threading.Timer(START_SECONDS, self._process.kill)
        timer.start()
        assert self._process.stdout is not None
        self.url = self._process.stdout.readline().strip()
        timer.cancel()
        if not self.url:
            self.close()
            raise RuntimeError("the server to be measured did not start")

    @property
    def pid(self) -> int:
        """Of the server's process."""
        return self._process.pid

    def server_ns(self) -> dict[int, int]:
        """Processor time so far, by process: all threads of the server; and of its database's."""
        spent = dict(self._behind.server_ns()) if self._behind is not None else {}
        spent[self.pid] = 0
        for task in Path(f"/proc/{self.pid}/task").glob("*/schedstat"):
            with contextlib.suppress(OSError):
                spent[self.pid] += int(task.read_text().split()[0])
        return spent

    def close(self) -> None:
        """Stop it."""
        self._process.terminate()
        try:
            self._process.wait(10.0)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        if self._process.stdout is not None:
            self._process.stdout.close()


def main(words: Sequence[str]) -> None:
    """Serve, and print the address."""
    (what,) = words
    if what == EMPTY:
        _serve_empty()
    else:
        from turnabout.server import ServerOptions
        from turnabout.server.serve import run

        run(
            what,
            ServerOptions(auth="none", port=0),
            announce=lambda serving: print(serving.url, flush=True),
        )


def _serve_empty() -> None:
    """Starlette on uvicorn, set up as our server sets it up, with nothing around its handlers."""
    import gc
    import socket

    import uvicorn
    from starlette.applications import Starlette
    from starlette.requests import Request
    from starlette.responses import Response
    from starlette.routing import Route

    from turnabout.server.serve import GC_THRESHOLDS

    gc.set_threshold(*GC_THRESHOLDS)

    async def nothing(_: Request) -> Response:
        return Response(b"{}", media_type="application/json")

    app = Starlette(routes=[Route("/nothing", nothing, methods=["POST"])])
    config = uvicorn.Config(
        app,
        lifespan="on",
        ws="none",
        log_config=None,
        log_level="warning",
        access_log=False,
        server_header=False,
        proxy_headers=False,
    )
    with socket.create_server(("127.0.0.1", 0), backlog=2_048) as listener:
        print(f"http://127.0.0.1:{listener.getsockname()[1]}", flush=True)
        uvicorn.Server(config).run([listener])


if __name__ == "__main__":
    main(sys.argv[1:])
