"""Several server processes at one port, as one process uses one core: `serve --processes`.

Each binds to the port by itself (SO_REUSEPORT), and the system shares new connections out. The
first process only starts, watches and stops the others, as it does those of a worker. A child that
ends, however it does, is replaced, so that `kill` of one after the other renews them all.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from dataclasses import fields, replace
from functools import partial
from typing import Any

from prometheus_client import multiprocess

from turnabout import _connect
from turnabout.cli._places import is_sqlite, sqlite_path
from turnabout.server.api.metrics import MULTIPROC
from turnabout.server.auth.authenticator import first_token
from turnabout.server.http.logs import configure
from turnabout.server.listening import Serving, listen, serving
from turnabout.server.options import ServerOptions
from turnabout.server.serve import run
from turnabout.words.errors import TurnaboutError, UsageError
from turnabout.worker.processes import USED_UP, WRONG_CALL, stop_at_eof, supervise

VARIABLE = "TURNABOUT_SERVER_PROCESS"
"""Variable that gives a child its settings. Not on its command line, which every user can read."""
KNOCK_SECONDS = 0.02


def run_processes(
    url: str,
    options: ServerOptions,
    *,
    log_level: str,
    announce: Callable[[Serving], None] = lambda _: None,
) -> bool:
    """Like `serve.run`, with `options.processes` processes. False: not all ended in good order.

    Raises: UsageError if processes cannot share the port or database, and like `serve.run`.
    """
    if not hasattr(socket, "SO_REUSEPORT"):
        raise UsageError("this system cannot share a port: leave --processes out")
    if options.unix_socket is not None:
        raise UsageError("processes share a port, not a Unix socket: leave --unix-socket out")
    if is_sqlite(url) and sqlite_path(url) is None:
        raise UsageError("a database in memory belongs to one process: leave --processes out")
    token = asyncio.run(_first_token(url)) if options.auth == "tokens" else None
    with listen(options) as alone:  # no other program has the port
        options = replace(options, port=alone.getsockname()[1])
    with (
        listen(options, shared=True) as reserved,
        tempfile.TemporaryDirectory(prefix="turnabout-") as counts,  # `/metrics` of any shows all
    ):
        server = serving(options, reserved, token)
        settings = {
            "url": url,
            "options": {one.name: getattr(options, one.name) for one in fields(options)},
            "log_level": log_level,
        }
        place = reserved.getsockname()[:2]
        threading.Thread(target=_announce, args=(place, server, announce), daemon=True).start()
        command = [sys.executable, "-m", "turnabout.server"]
        environment = {**os.environ, VARIABLE: json.dumps(settings), MULTIPROC: counts}
        library: Any = multiprocess  # whose arguments have no types
        ended = partial(library.mark_process_dead, path=counts)
        return supervise(command, environment, options.processes, ended=ended) == 0


async def _first_token(url: str) -> str | None:
    async with _connect.connect_async(url) as turnabout:
        return await first_token(turnabout.store)


def _announce(place: tuple[str, int], server: Serving, announce: Callable[[Serving], None]) -> None:
    """Announce as soon as one of them takes connections."""
    host, port = place
    known = {"0.0.0.0": "127.0.0.1", "::": "::1"}  # noqa: S104 - to reach it, not to bind
    while True:
        try:
            socket.create_connection((known.get(host, host), port)).close()
        except OSError:
            time.sleep(KNOCK_SECONDS)
        else:
            announce(server)
            return


class _ThisProcess:
    def stop(self) -> None:
        """Stop in good order."""
        os.kill(os.getpid(), signal.SIGTERM)


def main() -> int:
    """Be one of the processes: `python -m turnabout.server`."""
    settings = json.loads(os.environ.pop(VARIABLE))
    values: dict[str, Any] = settings["options"]
    for one in fields(ServerOptions):
        if isinstance(one.default, tuple):  # JSON has lists only
            values[one.name] = tuple(values[one.name])
    options = ServerOptions(**values)
    configure(options.log_format, settings["log_level"])
    stop_at_eof(_ThisProcess())
    try:
        return USED_UP if run(settings["url"], options) else 1
    except TurnaboutError as error:
        sys.stderr.write(f"{error}\n")
        return WRONG_CALL if isinstance(error, UsageError) else 1
