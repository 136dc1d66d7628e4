"""HTTP in front of a store: `turnabout serve` runs it, `create_app` gives the ASGI app."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from turnabout.server.app import create_app
    from turnabout.server.options import ServerOptions

__all__ = ["ServerOptions", "create_app"]


def __getattr__(name: str) -> Any:
    """Import on first use: the commands work without the packages that a server needs."""
    if name == "create_app":
        from turnabout.server.app import create_app

        return create_app
    if name == "ServerOptions":
        from turnabout.server.options import ServerOptions

        return ServerOptions
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
