"""HTTP in front of a store: `penstock serve` runs it, `create_app` gives the ASGI app."""

from penstock.server.app import create_app
from penstock.server.options import ServerOptions

__all__ = ["ServerOptions", "create_app"]
