"""What tests with Spark share: `place`, a database of each kind in turn, and `mq`, its face."""

from tests.pipeline.spark.places import mq, place

__all__ = ["mq", "place"]
