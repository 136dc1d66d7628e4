"""The pipeline's verbs on PostgreSQL: `functions/` has each, `calls` calls them; `migrations/`."""

from turnabout.pipeline.postgres.calls import CALLS

__all__ = ["CALLS", "VIEWS"]

VIEWS = ("log_rows", "queue_names", "log_files", "epoch_rows", "dead_rows")
"""Views for bulk reading."""
