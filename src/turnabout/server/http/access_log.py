"""Around every request: its id, its place in the counts, and its line in the access log.

`X-Request-Id` of the client is taken over if it is a short word; else one is made. It is in the
answer, in the log, and in `scope["state"]["request_id"]`.
"""

from __future__ import annotations

import itertools
import logging
import os
import re
import time
from typing import Any

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from turnabout.server.counts import ServerCounts, template
from turnabout.server.http.logs import scrubbed, stack
from turnabout.server.tenants.quotas import Bucket

access = logging.getLogger("turnabout.server.access")
errors = logging.getLogger("turnabout.server.error")

PROBES = frozenset({"/livez", "/readyz", "/healthz", "/metrics"})
PATH_CHARS_MAX = 200
REFUSED_LINES = 50
"""Lines a second about requests that were refused or failed: a client that floods the server
does not flood its disk.
"""

_PROCESS = os.urandom(4).hex().encode()
_NUMBER = itertools.count(1)
"""Numbers that make request ids unique for a day; they may be guessed."""
_SANE = re.compile(rb"[A-Za-z0-9][A-Za-z0-9._-]{0,127}")
_FAILED = (
    b'{"error":{"code":"internal","message":"a bug of the server: its log says more, '
    b'under the X-Request-Id of this answer","retryable":false}}'
)


class AccessLog:
    """The outermost layer of the app."""

    def __init__(
        self,
        app: ASGIApp,
        counts: ServerCounts,
        *,
        logs_all: bool,
    ) -> None:
        """`logs_all`: not only requests that were refused or failed."""
        self.app = app
        self._counts = counts
        self._all = logs_all
        self._clock = time.monotonic
        self._lines = Bucket(REFUSED_LINES, self._clock())
        self._left_out = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, and note how it went."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        started = time.perf_counter()
        request_id = _request_id(scope)
        scope.setdefault("state", {})["request_id"] = request_id.decode()
        status = 0

        async def noted(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                message.setdefault("headers", [])
                message["headers"] = [*message["headers"], (b"x-request-id", request_id)]
            await send(message)

        counts = self._counts
        counts.in_flight += 1
        try:
            await self.app(scope, receive, noted)
        except Exception as error:  # noqa: BLE001 - the client gets an answer, the log the places
            if not _is_disconnect(error):
                # Not `exc_info`: another formatter than ours would show what the error quotes.
                errors.error("a request failed: %s", stack(error), extra=_about(scope))
                if not status:
                    await _fail(noted)
        finally:
            counts.in_flight -= 1
            self._note(scope, status, time.perf_counter() - started)

    def _note(self, scope: Scope, status: int, seconds: float) -> None:
        """`status` 0: the client was gone before there was an answer, counted as 499."""
        status = status or 499
        path = template(scope)
        self._counts.request(path, scope["method"], status, seconds)
        if path in PROBES and status < 400:
            level = logging.DEBUG
        elif status >= 500:
            level = logging.WARNING
        elif status >= 400 or self._all:
            level = logging.INFO
        else:
            return
        if access.isEnabledFor(level) and (self._all or self._has_room()):
            extra = {**_about(scope), "status": status, "seconds": round(seconds, 6)}
            access.log(level, "%s %s", scope["method"][:10], shown_path(scope["path"]), extra=extra)

    def _has_room(self) -> bool:
        """Whether one more line may be written; logs how many were not."""
        if self._lines.take(self._clock()):
            self._left_out += 1
            return False
        if self._left_out:
            access.warning("%d lines about refused requests were left out", self._left_out)
            self._left_out = 0
        return True


def _request_id(scope: Scope) -> bytes:
    for name, value in scope["headers"]:
        if name == b"x-request-id" and _SANE.fullmatch(value):
            return value
    return b"%s%08x" % (_PROCESS, next(_NUMBER) & 0xFFFFFFFF)


def _about(scope: Scope) -> dict[str, Any]:
    """The line of a request. Never a header, a body or a query string."""
    about: dict[str, Any] = {
        "request_id": scope["state"]["request_id"],
        "route": template(scope),
        "client": (scope.get("client") or ("",))[0],
    }
    caller = scope["state"].get("caller")
    if caller is not None:
        about["namespace"] = caller.namespace
        if caller.token is not None:
            about["token"] = caller.token.id
    return about


def shown_path(path: str) -> str:
    """A path fit for a log: one line, not too long, without a token that strayed into it."""
    word = (path if path.isprintable() else repr(path)).replace(" ", "%20")  # no field of the line
    clean = scrubbed(word)
    return clean if len(clean) <= PATH_CHARS_MAX else f"{clean[:PATH_CHARS_MAX]}…"


def _is_disconnect(error: Exception) -> bool:
    return type(error).__name__ == "ClientDisconnect" or isinstance(error, ConnectionError)


async def _fail(send: Send) -> None:
    headers = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(_FAILED))]
    await send({"type": "http.response.start", "status": 500, "headers": headers})
    await send({"type": "http.response.body", "body": _FAILED})
