"""The routes of all compatibility APIs."""

from collections.abc import Sequence

from starlette.routing import BaseRoute

from turnabout.compat import hq, toxmq
from turnabout.server.context import ServerContext


def routes(context: ServerContext) -> Sequence[BaseRoute]:
    """Routes of hq, then routes of ToxMQ."""
    return [*hq.routes(context), *toxmq.routes(context)]
