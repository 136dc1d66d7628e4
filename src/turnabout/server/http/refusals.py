"""Answers of those layers that refuse before any API is asked, in the one form of all errors."""

from __future__ import annotations

from http import HTTPStatus

from turnabout.wire.errors import RETRY_AFTER_SECONDS, plain_error

Headers = list[tuple[bytes, bytes]]


class Refusal(Exception):
    """A request that no API sees. `limit`: the option, or the rule, that it is counted under."""

    def __init__(self, status: int, code: str, limit: str, message: str) -> None:
        super().__init__(message)
        self.status, self.code, self.limit, self.message = status, code, limit, message

    def answer(self) -> tuple[Headers, bytes]:
        """Headers and body; a refusal that may be retried says when."""
        seconds = RETRY_AFTER_SECONDS if self.status == 503 else None
        may = seconds is not None
        _, body = plain_error(self.code, self.message, retryable=may, retry_after_seconds=seconds)
        headers: Headers = [
            (b"content-type", b"application/json"),
            (b"content-length", str(len(body)).encode()),
        ]
        if seconds is not None:
            headers.append((b"retry-after", str(round(seconds)).encode()))
        return headers, body

    def raw(self) -> bytes:
        """A whole answer of HTTP/1.1, after which the connection is closed."""
        headers, body = self.answer()
        head = [f"HTTP/1.1 {self.status} {HTTPStatus(self.status).phrase}".encode()]
        head += [b"%s: %s" % pair for pair in headers]
        return b"\r\n".join([*head, b"connection: close", b"", body])
