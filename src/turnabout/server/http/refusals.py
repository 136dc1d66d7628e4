"""Answers of those layers that refuse before any API is asked, in the one form of all errors."""

from __future__ import annotations

from http import HTTPStatus

from turnabout.wire.errors import RETRY_AFTER_SECONDS, plain_error

Headers = list[tuple[bytes, bytes]]


def refusal(code: str, message: str, *, retryable: bool = False) -> tuple[Headers, bytes]:
    """Headers and body. One that may be repeated says when."""
    seconds = RETRY_AFTER_SECONDS if retryable else None
    _, body = plain_error(code, message, retryable=retryable, retry_after_seconds=seconds)
    headers: Headers = [
        (b"content-type", b"application/json"),
        (b"content-length", str(len(body)).encode()),
    ]
    if seconds is not None:
        headers.append((b"retry-after", str(round(seconds)).encode()))
    return headers, body


def raw_refusal(status: int, code: str, message: str, *, retryable: bool = False) -> bytes:
    """A whole answer of HTTP/1.1, after which the connection is closed."""
    headers, body = refusal(code, message, retryable=retryable)
    head = [f"HTTP/1.1 {status} {HTTPStatus(status).phrase}".encode()]
    head += [b"%s: %s" % pair for pair in headers]
    return b"\r\n".join([*head, b"connection: close", b"", body])
