"""The client's own address, from the headers of proxies that the server was told to trust.

A proxy adds the address of its client at the right of `X-Forwarded-For`; anything further left was
sent by that client. So the list is read from the right, up to the first untrusted address.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Sequence

from starlette.types import ASGIApp, Receive, Scope, Send

from turnabout.server.options import Network, network


class Forwarded:
    """A layer of the app, around all that looks at the client's address."""

    def __init__(self, app: ASGIApp, proxies: Sequence[str]) -> None:
        self.app = app
        found = [network(proxy) for proxy in proxies]
        self._networks: list[Network] = [one for one in found if one is not None]
        self._trusts_socket = None in found

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, as that of the client."""
        if scope["type"] == "http" and self._trusts(scope.get("client")):
            hops: list[str] = []
            for name, value in scope["headers"]:
                if name == b"x-forwarded-for":
                    hops += value.decode("latin-1").split(",")
                elif name == b"x-forwarded-proto" and value in (b"http", b"https"):
                    scope["scheme"] = value.decode()
            self._follow(scope, hops)
        await self.app(scope, receive, send)

    def _follow(self, scope: Scope, hops: list[str]) -> None:
        while hops and self._trusts(scope.get("client")):
            address = _address(hops.pop())
            if address is None:
                return
            scope["client"] = (address, 0)

    def _trusts(self, client: tuple[str, int] | None) -> bool:
        if client is None:
            return self._trusts_socket
        address = ipaddress.ip_address(client[0])
        mapped = getattr(address, "ipv4_mapped", None)
        return any((mapped or address) in one for one in self._networks)


def _address(text: str) -> str | None:
    """An address, perhaps with brackets and a port; None for anything else."""
    text = text.strip()
    if text.startswith("["):
        text = text[1:].partition("]")[0]
    elif text.count(":") == 1:
        text = text.partition(":")[0]
    try:
        return str(ipaddress.ip_address(text))
    except ValueError:
        return None
