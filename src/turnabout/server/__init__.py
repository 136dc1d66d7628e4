"""HTTP in front of a store: `turnabout serve` runs it, `create_app` gives the ASGI app."""

from turnabout.server.app import create_app
from turnabout.server.options import ServerOptions

__all__ = ["ServerOptions", "create_app"]
