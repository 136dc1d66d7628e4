"""`serve`, `token`, `namespace` and `monitoring`."""

from turnabout.server.commands.monitoring import monitoring
from turnabout.server.commands.namespace import namespace
from turnabout.server.commands.serve import serve
from turnabout.server.commands.token import token

__all__ = ["SECTIONS"]

SECTIONS = {"Tenants of a server": (token, namespace), "Programs": (serve, monitoring)}
