"""The slice that moves a file to PostgreSQL: see `turnabout.slices`."""

from turnabout.slices import Slice

SLICE = Slice("move", commands="turnabout.move.commands")
