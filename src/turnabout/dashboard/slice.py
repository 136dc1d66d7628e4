"""The slice of the dashboard: see `turnabout.slices`."""

from turnabout.slices import Slice

SLICE = Slice(
    "dashboard",
    verbs="turnabout.dashboard.verbs",
    sqlite="turnabout.dashboard.sqlite",
    postgres="turnabout.dashboard.postgres",
    routes="turnabout.dashboard.routes",
    revision=1,
    digest="3bd27f67d0dc2f9c",
)
