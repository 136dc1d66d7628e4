"""The slice of the data pipeline: see `turnabout.slices`."""

from turnabout.slices import Slice

SLICE = Slice(
    "pipeline",
    verbs="turnabout.pipeline.verbs",
    sqlite="turnabout.pipeline.sqlite",
    postgres="turnabout.pipeline.postgres",
    commands="turnabout.pipeline.commands",
    checks="turnabout.pipeline.commands.checks",
    metrics="turnabout.pipeline.metrics",
    revision=1,
    digest="755ba8ba9347f3e1",
)
