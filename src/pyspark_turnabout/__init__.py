"""Found by Spark on its own, by the name: so `format("turnabout")` needs no `register`."""

from turnabout.pipeline.spark.source import TurnaboutSource as DefaultSource

__all__ = ["DefaultSource"]
