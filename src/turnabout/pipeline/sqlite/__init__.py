"""The pipeline's verbs on SQLite: a procedure for each; tables in `migrations/`."""

from turnabout.pipeline.sqlite import leases, log, sink
from turnabout.pipeline.verbs import VERBS
from turnabout.sqlite.procedures import procedures

__all__ = ["PROCEDURES"]

PROCEDURES = procedures(VERBS, leases, log, sink)
