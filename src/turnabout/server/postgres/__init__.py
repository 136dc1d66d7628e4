"""Tokens and namespaces on PostgreSQL: a function for each verb; tables in `migrations/`."""

from turnabout.server.postgres.calls import CALLS

__all__ = ["CALLS", "VIEWS"]

VIEWS = ()
