"""Alembic's migrations: see `turnabout.slices`."""

from turnabout.slices import Slice

SLICE = Slice("alembic")
