"""Parts that the HTTP server adds: see `turnabout.slices`."""

from turnabout.slices import Slice

SLICE = Slice(
    "server",
    verbs="turnabout.server.verbs",
    sqlite="turnabout.server.sqlite",
    postgres="turnabout.server.postgres",
    commands="turnabout.server.commands",
    checks="turnabout.server.commands.checks",
    revision=1,
    digest="f6961cf59ccbff01",
)
