"""A server that answers what a test tells it, byte for byte, and keeps what it was asked."""

import contextlib
import socket
import threading
from collections.abc import Callable, Iterator

Answer = bytes | Callable[[socket.socket], None]


def answer(
    status: int, body: bytes = b"", content_type: str = "application/json", headers: str = ""
) -> bytes:
    """An answer as it goes over the wire."""
    head = f"HTTP/1.1 {status} x\r\ncontent-length: {len(body)}\r\n{headers}"
    kind = f"content-type: {content_type}\r\n" if content_type else ""
    return (head + kind + "\r\n").encode() + body


class Liar:
    """One connection at a time; the next answer to each request, the last one again and again.
    `b""`: it hangs up instead.
    """

    def __init__(self, *answers: Answer) -> None:
        self.answers = list(answers)
        self.asked: list[bytes] = []
        self.connections = 0
        self._sock = socket.create_server(("127.0.0.1", 0))
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._sock.getsockname()[1]}"

    def close(self) -> None:
        self._sock.shutdown(socket.SHUT_RDWR)
        self._thread.join(10)
        self._sock.close()

    def _serve(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                connection, _ = self._sock.accept()
                self.connections += 1
                with connection, contextlib.suppress(OSError):
                    connection.settimeout(10)
                    while self._talk(connection):
                        pass

    def _talk(self, connection: socket.socket) -> bool:
        request = self._read(connection)
        if not request:
            return False
        self.asked.append(request)
        said = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if callable(said):
            said(connection)
            return False
        connection.sendall(said)
        return bool(said)

    @staticmethod
    def _read(connection: socket.socket) -> bytes:
        got = b""
        while b"\r\n\r\n" not in got:
            if not (part := connection.recv(65_536)):
                return b""
            got += part
        head, _, body = got.partition(b"\r\n\r\n")
        sizes = [line for line in head.lower().split(b"\r\n") if line.startswith(b"content-length")]
        size = int(sizes[0].split(b":")[1]) if sizes else 0
        while len(body) < size:
            body += connection.recv(65_536)
        return head + b"\r\n\r\n" + body


@contextlib.contextmanager
def liar(*answers: Answer) -> Iterator[Liar]:
    """Such a server, for the length of a block."""
    with contextlib.closing(Liar(*answers)) as made:
        yield made
