"""Errors as a status and a body, and back: one form for all of them, at our door.

{"error": {"code": "busy", "message": "…", "retryable": true, "retry_after_seconds": 1.0}}
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping

import msgspec

from turnabout.words import errors as e

STATUS: Mapping[str, int] = {
    "usage": 400,
    "no_such_path": 404,
    "no_such_method": 405,
    "queue_not_found": 404,
    "too_slow": 408,
    "too_large": 413,
    "headers_too_large": 431,
    "unauthorized": 401,
    "forbidden": 403,
    "too_many_requests": 429,
    "quota_exceeded": 507,
    "storage_full": 507,
    "refused": 409,
    "uncertain": 502,
    "busy": 503,
    "disconnected": 503,
    "unavailable": 503,
    "wrong_version": 503,
    "broken_invariant": 500,
    "internal": 500,
    "error": 500,
}
"""Statuses by code."""

RETRY_AFTER_SECONDS = 1.0
"""Default of `Retry-After`."""

_TEXTS: Mapping[str, str] = {
    "busy": "the server was not free in time: nothing happened, repeat the request",
    "disconnected": "the server cannot reach its database: nothing happened, repeat the request",
    "unavailable": "the server cannot do that now: nothing happened, repeat the request",
    "storage_full": "the server's disk is full: nothing was written",
    "uncertain": "the database's answer was lost: it may have happened",
    "wrong_version": "the server and its database do not fit; its log says which command to run",
    "broken_invariant": "something impossible was seen on the server: its log has it",
    "internal": "an error of the server's: its log has it",
    "forbidden": "the server's database does not allow it",
}
"""The words for a client where the text might speak of what is behind the server."""


_TELL = (e.Unavailable, e.Forbidden, e.Uncertain)
"""Errors whose texts are for clients, unless they were raised from something beneath."""


class ErrorFields(msgspec.Struct, omit_defaults=True):
    """An error, and whether the same request may be sent again."""

    code: str
    message: str
    retryable: bool
    retry_after_seconds: float | None = None
    queue: str | None = None
    """Name of the queue, with `queue_not_found`."""


class ErrorBody(msgspec.Struct):
    """The body of every answer that is an error."""

    error: ErrorFields


def error_body(error: BaseException) -> tuple[int, bytes]:
    """The status and the body for an error. An error that isn't Turnabout's is `internal`.

    A text that came from below (a driver, a file system) stays in the server's log.
    """
    if not isinstance(error, e.TurnaboutError):
        return plain_error("internal", _TEXTS["internal"])
    code, message = error.code, str(error)
    is_from_below = error.__cause__ is not None and not isinstance(error, e.UsageError)
    if is_from_below or (code in _TEXTS and not isinstance(error, _TELL)):
        message = _TEXTS.get(code, _TEXTS["internal"])
    return plain_error(
        code,
        message,
        retryable=error.retryable,
        retry_after_seconds=_retry_after(error),
        queue=getattr(error, "queue", None),
    )


def plain_error(
    code: str,
    message: str,
    *,
    retryable: bool = False,
    retry_after_seconds: float | None = None,
    queue: str | None = None,
) -> tuple[int, bytes]:
    """The status and the body for a code."""
    text = message.encode(errors="backslashreplace").decode()
    fields = ErrorFields(code, text, retryable, retry_after_seconds, queue)
    return STATUS.get(code, 500), msgspec.json.encode(ErrorBody(fields))


def load_error(status: int, body: bytes) -> e.TurnaboutError:
    """The error in an answer; for a body that isn't Turnabout's, what the status tells."""
    try:
        fields = _decode(body).error
    except (msgspec.DecodeError, ValueError, RecursionError):
        return _by_status(status)
    error = _made(_classes().get(fields.code) or type(_by_status(status)), fields.message)
    for name in ("queue", "retry_after_seconds"):
        if (known := getattr(fields, name)) is not None:
            setattr(error, name, known)
    return error


def retry_after(error: BaseException) -> str | None:
    """The value of the `Retry-After` header that goes with an error: whole seconds."""
    seconds = _retry_after(error)
    return None if seconds is None else str(max(1, math.ceil(seconds)))


def _retry_after(error: BaseException) -> float | None:
    known = getattr(error, "retry_after_seconds", None)
    if known is None and isinstance(error, e.Unavailable):
        return RETRY_AFTER_SECONDS
    return known


def _made(kind: type[e.TurnaboutError], message: str) -> e.TurnaboutError:
    """An error with that very text: some classes make their text of other things."""
    error = kind.__new__(kind)
    Exception.__init__(error, message)
    return error


def _by_status(status: int) -> e.TurnaboutError:
    """A proxy in front of the server has answered, or a server that isn't Turnabout's."""
    if status in {408, 429, 503}:
        return e.Unavailable(f"the server cannot be reached now (status {status})")
    if status >= 500:
        return e.Uncertain(f"not an answer of Turnabout's (status {status}): it may have happened")
    if status in {401, 403, 407}:
        return e.Forbidden(f"refused on the way to the server (status {status})")
    return e.UsageError(f"not an answer of a Turnabout server (status {status}): is the URL right?")


def _classes() -> dict[str, type[e.TurnaboutError]]:
    """Every class by its code; of several with one code the one that stands above."""
    found: dict[str, type[e.TurnaboutError]] = {"internal": e.BrokenInvariant}
    for kind in _all(e.TurnaboutError):
        found.setdefault(kind.code, kind)
    return found


def _all(kind: type[e.TurnaboutError]) -> Iterator[type[e.TurnaboutError]]:
    yield kind
    for below in kind.__subclasses__():
        yield from _all(below)


_decode = msgspec.json.Decoder(ErrorBody).decode
