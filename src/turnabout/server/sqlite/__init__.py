"""Tokens and namespaces on SQLite: a procedure for each verb; tables in `migrations/`."""

from turnabout.server.sqlite import tenants
from turnabout.server.verbs import VERBS
from turnabout.sqlite.procedures import procedures

__all__ = ["PROCEDURES"]

PROCEDURES = procedures(VERBS, tenants)
