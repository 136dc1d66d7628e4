"""Checks of a request before any API sees it; and headers that every answer has.

Its Host must be one of ours, so that no page can reach a loopback server by a name of its own (DNS
rebinding). It must not come from a web page other than ours and those allowed, as a browser sends
anything that a page tells it to. Its body must not be too large, and there must be room.
"""

from __future__ import annotations

import ipaddress
import re

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from turnabout.server.counts import ServerCounts
from turnabout.server.http.compression import compressed, takes_gzip
from turnabout.server.http.exchange import CUT
from turnabout.server.http.refusals import Headers, Refusal
from turnabout.server.lifecycle import Lifecycle
from turnabout.server.options import ServerOptions, is_loopback
from turnabout.server.tenants.admission import Admission
from turnabout.words.limits import shown

ALWAYS = frozenset({"/livez", "/readyz"})
"""Asked by address, by machines, also of a full or closing server."""
PAGES = ("/dashboard", "/web")
"""Paths that links on other sites may lead to; viewing them changes nothing."""
HEADERS = (
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"cache-control", b"no-store"),
    (b"content-security-policy", b"default-src 'none'; frame-ancestors 'none'"),
)
"""Default headers; an API may set its own."""
SMALL_BYTES = 64 * 1024
"""Largest body that is not counted."""
_HOST = re.compile(r"(?:\[([0-9a-f:.]+)\]|([^:\[\]]*))(?::\d*)?")
_KNOWN_MAX, _KNOWN_BYTES_MAX = 1_024, 256
_HSTS = (b"strict-transport-security", b"max-age=31536000")
"""A browser that was here by HTTPS comes by nothing else for a year. Not on loopback, where other
servers have the same name.
"""
_CORS = (
    (b"access-control-allow-methods", b"GET, POST, PUT, PATCH, DELETE"),
    (b"access-control-max-age", b"600"),
)
_EXPOSED = (b"access-control-expose-headers", b"retry-after, turnabout-fence, x-request-id")


class RequestGuard:
    """ASGI middleware around all APIs."""

    def __init__(
        self,
        app: ASGIApp,
        options: ServerOptions,
        admission: Admission,
        lifecycle: Lifecycle,
        counts: ServerCounts,
    ) -> None:
        self.app = app
        self._options = options
        self._admission = admission
        self._lifecycle = lifecycle
        self._counts = counts
        self._hosts = {name.lower() for name in options.allowed_hosts}
        self._hosts |= {"localhost", options.host.lower()}
        self._headers = [*HEADERS]
        if options.tls_cert is not None and not options.is_loopback:
            self._headers.append(_HSTS)
        self._good: set[bytes] = set()
        """Host headers that were looked at and found good."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, or refuse it."""
        if scope["type"] != "http":
            if scope["type"] == "lifespan":
                await self.app(scope, receive, send)
            return
        admission = self._admission
        origin: bytes | None = None
        counted = started = False
        body: _Body | None = None

        async def answer(message: Message) -> None:
            nonlocal started
            if message["type"] == "http.response.start":
                started = True
                message["headers"] = _with_ours(message.get("headers", ()), self._headers, origin)
                await send(message)
                return
            size, cut = len(message.get("body", b"")), scope.get("extensions", {}).get(CUT)
            with admission.answers.writing(_namespace(scope), size, cut):
                await send(message)

        try:
            host, page, length, is_chunked, site, accepted = _read(scope)
            self._check_room(scope)
            self._check_host(scope, host)
            origin = self._check_origin(scope, host, page, site)
            if length > self._options.max_body_bytes:
                raise self._too_large()
            if origin is not None and scope["method"] == "OPTIONS":
                await _preflight(scope, answer)
                return
            admission.requests += 1
            counted = True
            if is_chunked or length > SMALL_BYTES:
                body = _Body(self, _sender(scope), receive)
                receive = body.receive
            takes = takes_gzip(accepted)
            await self.app(scope, receive, compressed(answer) if takes else answer)
        except Refusal as refused:
            self._counts.refused(refused.limit)
            if not started:
                await _refuse(refused, answer)
        finally:
            if counted:
                admission.requests -= 1
            if body is not None:
                admission.give_body(body.sender, body.taken)

    # --- the rules ------------------------------------------------------------------------------

    def _check_room(self, scope: Scope) -> None:
        if scope["path"] in ALWAYS:
            return
        if self._lifecycle.closing:
            raise Refusal(
                503, "unavailable", "closing",
                "the server is closing: repeat at another one, or later",
            )  # fmt: skip

    def _check_host(self, scope: Scope, host: list[bytes]) -> None:
        if scope["path"] in ALWAYS:
            return
        if len(host) != 1:
            raise Refusal(400, "usage", "host", "a request has exactly one Host header")
        header = host[0]
        if header in self._good:
            return
        name = _host_name(header)
        if not self._is_ours(name):
            raise Refusal(
                400, "usage", "host",
                f"this server is not known as {shown(name)}: if it should be, start it with "
                f"--allow-host {name if name.isprintable() and name else 'NAME'}",
            )  # fmt: skip
        if len(self._good) < _KNOWN_MAX and len(header) <= _KNOWN_BYTES_MAX:
            self._good.add(header)

    def _is_ours(self, name: str) -> bool:
        if "*" in self._hosts or name in self._hosts:
            return True
        try:
            ipaddress.ip_address(name)
        except ValueError:
            return False
        # A page's own name is never an address, so on a network any address is right.
        return is_loopback(name) or not self._options.is_loopback

    def _check_origin(
        self, scope: Scope, host: list[bytes], origin: bytes | None, site: tuple[bytes, bytes]
    ) -> bytes | None:
        """The origin that has to be told it may read the answer; None for our own pages."""
        if origin is not None:
            text = origin.decode("latin-1")
            if host and text.partition("://")[2].lower() == host[0].decode("latin-1").lower():
                return None
            if text in self._options.allowed_origins:
                return origin
            raise self._foreign(text)
        # An image or a form's GET has no Origin. Browsers say all the same where it comes from.
        where, mode = site
        if where in (b"cross-site", b"same-site"):
            path = scope["path"]
            is_page = path == "/" or path.startswith(PAGES)
            if not (is_page and mode == b"navigate" and scope["method"] == "GET"):
                raise self._foreign("another site")
        return None

    @staticmethod
    def _foreign(origin: str) -> Refusal:
        return Refusal(
            403, "forbidden", "origin",
            f"pages of {shown(origin)} may not use this server: if they should, start it with "
            "--allow-origin and the page's scheme, host and port",
        )  # fmt: skip

    def _too_large(self) -> Refusal:
        most = self._options.max_body_bytes
        return Refusal(413, "too_large", "max_body_bytes", f"a body has at most {most:,} bytes")

    @staticmethod
    def _too_many() -> Refusal:
        return Refusal(
            503, "busy", "max_body_bytes",
            "other large bodies of yours take your share of the memory: repeat later",
        )  # fmt: skip

    def take(self, body: _Body, more: int) -> None:
        """Count bytes of a body that is kept until its request ends. Raises: Refusal."""
        most = self._options.max_body_bytes
        body.taken += more
        has_room = self._admission.take_body(body.sender, more, self._admission.memory)
        if body.taken > most:
            raise self._too_large()
        if not has_room:
            raise self._too_many()


class _Body:
    """The body of a request, if it is large or of unknown length."""

    __slots__ = ("_guard", "_receive", "sender", "taken")

    def __init__(self, guard: RequestGuard, sender: bytes | str, receive: Receive) -> None:
        self._guard = guard
        self._receive = receive
        self.sender = sender
        self.taken = 0

    async def receive(self) -> Message:
        """Receive the next part of the body, and count it."""
        message = await self._receive()
        if message["type"] == "http.request":
            self._guard.take(self, len(message.get("body", b"")))
        return message


def _read(
    scope: Scope,
) -> tuple[list[bytes], bytes | None, int, bool, tuple[bytes, bytes], bytes]:
    """Read the headers: Host, Origin, the body's length and whether it is chunked, the site, and
    the accepted encodings.
    """
    host: list[bytes] = []
    origin: bytes | None = None
    length = 0
    is_chunked = False
    where = mode = accepted = b""
    for name, value in scope["headers"]:
        match name:
            case b"host":
                host.append(value)
            case b"origin":
                origin = value
            case b"content-length":
                length = int(value) if value.isdigit() and len(value) < 20 else 10**20
            case b"transfer-encoding":
                is_chunked = True
            case b"content-encoding" if value.lower() != b"identity":
                raise Refusal(
                    415, "usage", "content_encoding",
                    "a body is taken as it is, and not decoded: send it without Content-Encoding",
                )  # fmt: skip
            case b"sec-fetch-site":
                where = value
            case b"sec-fetch-mode":
                mode = value
            case b"accept-encoding":
                accepted = value
            case _:
                pass
    return host, origin, length, is_chunked, (where, mode), accepted


def _namespace(scope: Scope) -> str:
    """The namespace whose answer it is."""
    caller = scope.get("state", {}).get("caller")
    return "" if caller is None else caller.namespace


def _sender(scope: Scope) -> bytes | str:
    """The sender of a body, before its token was checked."""
    token = next((value for name, value in scope["headers"] if name == b"authorization"), None)
    return token or (scope.get("client") or ("",))[0]


def _host_name(host: bytes) -> str:
    """The name in a Host header, without port, brackets and the root's dot."""
    text = host.decode("latin-1").lower()
    parts = _HOST.fullmatch(text)
    return text if parts is None else parts[1] or parts[2].rstrip(".")


def _with_ours(
    headers: list[tuple[bytes, bytes]] | tuple[()], ours: Headers, origin: bytes | None
) -> list[tuple[bytes, bytes]]:
    answered = list(headers)
    own = {name for name, _ in answered}
    answered += [pair for pair in ours if pair[0] not in own]
    if origin is not None:
        answered += [(b"access-control-allow-origin", origin), (b"vary", b"origin"), _EXPOSED]
    return answered


async def _preflight(scope: Scope, send: Send) -> None:
    """Allow the request that a browser asks about, for a page of an allowed origin."""
    headers = [*_CORS]
    for name, value in scope["headers"]:
        if name == b"access-control-request-headers":
            headers.append((b"access-control-allow-headers", value))
    await send({"type": "http.response.start", "status": 204, "headers": headers})
    await send({"type": "http.response.body", "body": b""})


async def _refuse(refused: Refusal, send: Send) -> None:
    headers, body = refused.answer()
    await send({"type": "http.response.start", "status": refused.status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
