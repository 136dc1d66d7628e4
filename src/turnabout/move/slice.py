"""What moving from a file to PostgreSQL brings: see `turnabout.slices`."""

from turnabout.slices import Slice

SLICE = Slice("move", commands="turnabout.move.commands")
