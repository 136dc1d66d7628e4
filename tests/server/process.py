"""`turnabout serve` as a process, and clients of it with the standard library only."""

import contextlib
import http.client
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Self

PATIENCE_SECONDS = 30.0


@dataclass
class Process:
    """A server process that takes connections."""

    popen: subprocess.Popen[str]
    port: int

    def kill(self) -> None:
        """At once, without a chance to say anything."""
        self.popen.send_signal(signal.SIGKILL)
        self.popen.wait(PATIENCE_SECONDS)

    def end(self, *signals: signal.Signals) -> int:
        """Send it signals; its exit code."""
        for number in signals or (signal.SIGTERM,):
            self.popen.send_signal(number)
        return self.popen.wait(PATIENCE_SECONDS)


@contextlib.contextmanager
def process(url: str, *options: str, port: int = 0) -> Iterator[Process]:
    """A server of its own process; killed in the end, if it runs still."""
    command = [
        sys.executable,
        "-m",
        "turnabout",
        "serve",
        "--json",
        f"--port={port}",
        "--auth=none",
    ]
    with subprocess.Popen(
        [*command, *options],
        env={**os.environ, "TURNABOUT_URL": url},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as popen:
        try:
            assert popen.stdout is not None
            line = popen.stdout.readline()
            if not line:
                raise AssertionError(popen.communicate()[1])
            yield Process(popen, json.loads(line)["port"])
        finally:
            popen.kill()
            popen.communicate()


class Caller:
    """One connection to a server, renewed where it broke."""

    def __init__(self, port: int) -> None:
        self._connection = http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE_SECONDS)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def post(self, path: str, value: Any) -> Any:
        """The answer to a request. Raises: OSError, HTTPException where none came."""
        try:
            self._connection.request(
                "POST", path, json.dumps(value), {"Content-Type": "application/json"}
            )
            answer = self._connection.getresponse()
            document = json.loads(answer.read())
        except BaseException:
            self.close()
            raise
        assert answer.status == 200, document
        return document

    def close(self) -> None:
        """Hang up."""
        self._connection.close()


def post_once(port: int, path: str, value: Any) -> Any:
    """The answer to a request on a connection of its own."""
    with Caller(port) as caller:
        return caller.post(path, value)
