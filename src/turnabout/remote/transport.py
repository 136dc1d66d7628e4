"""The library that speaks HTTP, `httpx2`: its connections, and a request carried to the server.

The transports are used, not the clients above them: no cookies, no redirects, no `.netrc` that
would replace our token, no proxy of the environment; and a third less time for a call.
"""

from __future__ import annotations

import ssl

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


def open_async(address: Address, connections: int | None) -> httpx2.AsyncHTTPTransport:
    """Connections for an event loop; None: as many as it takes."""
    return httpx2.AsyncHTTPTransport(verify=_verification(address), limits=_limits(connections))


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


def _limits(connections: int | None) -> httpx2.Limits:
    return httpx2.Limits(
        max_connections=connections,
        max_keepalive_connections=connections,
        keepalive_expiry=IDLE_SECONDS,
    )


def _verification(address: Address) -> ssl.SSLContext | bool:
    """Certificates are checked; without TLS, reading the known ones would be 20 ms for nothing."""
    is_secure = address.base.startswith("https://")
    return True if is_secure else ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
