"""Samples on SQLite: a procedure for each verb; a table in `migrations/`."""

from turnabout.dashboard.sqlite import samples
from turnabout.dashboard.verbs import VERBS
from turnabout.sqlite.procedures import procedures

__all__ = ["PROCEDURES"]

PROCEDURES = procedures(VERBS, samples)
