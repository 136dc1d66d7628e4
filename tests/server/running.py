"""A server in a thread, and a client that speaks bytes."""

import contextlib
import json
import socket
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Self

from starlette.routing import BaseRoute

from tests.support.served import Server
from turnabout.server import ServerOptions

PATIENCE_SECONDS = 30.0
"""For what should happen at once: only a bug makes a test wait so long."""


class Running(Server):
    """A server that takes connections."""

    def routes(self) -> list[Any]:
        """Of all doors."""
        app: Any = self.serving.app
        return [route for route in app.router.routes if hasattr(route, "endpoint")]

    def connect(self) -> "Client":
        """A connection to it."""
        return Client(self.port)

    def ask(self, request: bytes) -> "Answer":
        """What a connection of its own is answered."""
        with self.connect() as client:
            return client.ask(request)


@contextlib.contextmanager
def running(
    options: ServerOptions | None = None,
    *,
    url: str = "sqlite://",
    routes: Sequence[BaseRoute] = (),
) -> Iterator[Running]:
    """A server over a database, with a few more routes."""
    server = Running(url, options=options or ServerOptions(auth="none", port=0), routes=routes)
    try:
        yield server
    finally:
        server.stop()


@dataclass
class Answer:
    """What a server answered."""

    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def code(self) -> str:
        """The stable code of an error."""
        return str(json.loads(self.body)["error"]["code"])


class Client:
    """A connection of bytes."""

    def __init__(self, port: int) -> None:
        self._socket = socket.create_connection(("127.0.0.1", port), PATIENCE_SECONDS)
        self._rest = b""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Hang up."""
        self._socket.close()

    def send(self, data: bytes) -> None:
        """Send, even to one who has hung up: what it said before can be read still."""
        with contextlib.suppress(ConnectionError):
            self._socket.sendall(data)

    def trickle(self, data: bytes, seconds: float) -> bool:
        """Send byte for byte, so long apart, until something comes back; whether it did."""
        self._socket.settimeout(seconds)
        try:
            for byte in data:
                try:
                    self.send(bytes([byte]))
                    self._rest += self._socket.recv(65_536)
                except TimeoutError:
                    continue
                return True
        except ConnectionError:
            return True
        finally:
            self._socket.settimeout(PATIENCE_SECONDS)
        return False

    def ask(self, request: bytes) -> Answer:
        """Send, and read one answer."""
        self.send(request)
        return self.answer()

    def answer(self) -> Answer:
        """Read one answer."""
        head = self._until(b"\r\n\r\n").decode("latin-1").split("\r\n")
        headers = dict(line.lower().split(": ", 1) for line in head[1:] if line)
        body = self._take(int(headers.get("content-length", 0)))
        if headers.get("transfer-encoding") == "chunked":
            while size := int(self._until(b"\r\n"), 16):
                body += self._take(size + 2)[:-2]
            self._until(b"\r\n")
        return Answer(int(head[0].split()[1]), headers, body)

    def _take(self, length: int) -> bytes:
        while len(self._rest) < length:
            self._more()
        taken, self._rest = self._rest[:length], self._rest[length:]
        return taken

    def finish(self) -> None:
        """Read whatever comes until the server hangs up."""
        with contextlib.suppress(ConnectionError):
            while self._socket.recv(65_536):
                pass

    def is_closed(self) -> bool:
        """Whether the server hangs up now, without another word."""
        try:
            return self._rest == b"" and self._socket.recv(1) == b""
        except ConnectionError:
            return True

    def _until(self, end: bytes) -> bytes:
        while end not in self._rest:
            self._more()
        found, _, self._rest = self._rest.partition(end)
        return found

    def _more(self) -> None:
        data = self._socket.recv(65_536)
        if not data:
            raise ConnectionError(f"hung up after {self._rest!r}")
        self._rest += data


def get(path: str = "/livez", *headers: str) -> bytes:
    """A request without a body."""
    return request("GET", path, *headers)


def request(method: str, path: str, *headers: str, body: bytes = b"") -> bytes:
    """A request as bytes; `Host` unless one is given."""
    lines = [f"{method} {path} HTTP/1.1", *headers]
    if not any(line.lower().startswith("host:") for line in headers):
        lines.append("Host: localhost")
    if body and not any(line.lower().startswith("transfer-encoding") for line in headers):
        lines.append(f"Content-Length: {len(body)}")
    return "\r\n".join([*lines, "", ""]).encode() + body


def post(path: str, value: Any) -> bytes:
    """A request with a JSON body."""
    body = json.dumps(value).encode()
    return request("POST", path, "Content-Type: application/json", body=body)
