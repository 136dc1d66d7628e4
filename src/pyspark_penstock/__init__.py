"""Found by Spark on its own, by the name: so `format("penstock")` needs no `register`."""

from penstock.spark.source import PenstockSource as DefaultSource

__all__ = ["DefaultSource"]
