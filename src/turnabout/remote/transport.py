"""The library that speaks HTTP, `httpx2`: its connections, and a request carried to the server.

The transports are used, not the clients above them: no cookies, no redirects, no `.netrc` that
would replace our token, no proxy of the environment; and a third less time for a call.
"""

from __future__ import annotations

import ssl
import time
from collections import deque

import httpx2

from turnabout.remote.address import Address
from turnabout.remote.exchange import Answer, Got

IDLE_SECONDS = 15.0
"""A connection that was idle for longer is not used again: servers close theirs after 30 s."""


def open_blocking(address: Address) -> httpx2.HTTPTransport:
    """Connections for threads."""
    return httpx2.HTTPTransport(
        verify=_verification(address), limits=_limits(address.max_connections)
    )


def open_async(address: Address) -> httpx2.AsyncHTTPTransport:
    """Connections for an event loop."""
    return httpx2.AsyncHTTPTransport(
        verify=_verification(address), limits=_limits(address.max_connections)
    )


class SingleConnections:
    """Connections for an event loop, as many as are used at once, each by itself: one transport for
    a hundred that wait would look at all of them at each request.
    """

    def __init__(self, address: Address) -> None:
        self._verification = _verification(address)
        self._all: set[httpx2.AsyncHTTPTransport] = set()
        self._idle: deque[tuple[httpx2.AsyncHTTPTransport, float]] = deque()

    async def take(self) -> httpx2.AsyncHTTPTransport:
        """The one that was used last, so that those that are not needed grow old."""
        while self._idle and self._idle[0][1] < time.monotonic() - IDLE_SECONDS:
            connection, _ = self._idle.popleft()
            self._all.discard(connection)
            await connection.aclose()
        if self._idle:
            return self._idle.pop()[0]
        connection = httpx2.AsyncHTTPTransport(verify=self._verification, limits=_limits(1))
        self._all.add(connection)
        return connection

    def put(self, connection: httpx2.AsyncHTTPTransport) -> None:
        """Put a connection back."""
        self._idle.append((connection, time.monotonic()))

    async def close(self) -> None:
        """Close all connections."""
        for connection in self._all:
            await connection.aclose()


def carry(transport: httpx2.HTTPTransport, request: httpx2.Request) -> Got:
    """The request to the server, and what came of it."""
    try:
        response = transport.handle_request(request)
        try:
            answer = Answer.of(response)
            if answer.is_plain:
                assert isinstance(response.stream, httpx2.SyncByteStream)
                for part in response.stream:
                    answer.add(part)
        finally:
            response.close()
    except httpx2.TransportError as error:
        return error
    return answer


async def carry_async(transport: httpx2.AsyncHTTPTransport, request: httpx2.Request) -> Got:
    """The same on an event loop."""
    try:
        response = await transport.handle_async_request(request)
        try:
            answer = Answer.of(response)
            if answer.is_plain:
                assert isinstance(response.stream, httpx2.AsyncByteStream)
                async for part in response.stream:
                    answer.add(part)
        finally:
            await response.aclose()
    except httpx2.TransportError as error:
        return error
    return answer


def _limits(connections: int) -> httpx2.Limits:
    return httpx2.Limits(
        max_connections=connections,
        max_keepalive_connections=connections,
        keepalive_expiry=IDLE_SECONDS,
    )


def _verification(address: Address) -> ssl.SSLContext:
    """Certificates are checked; without TLS, reading the known ones would be 20 ms for nothing."""
    is_secure = address.base.startswith("https://")
    return httpx2.create_ssl_context() if is_secure else ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
