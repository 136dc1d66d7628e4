"""What tests with Spark share: `place`, a database of each kind in turn, and `ps`, its face."""

from tests.spark.places import place, ps

__all__ = ["place", "ps"]
