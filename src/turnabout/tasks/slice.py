"""The slice of functions as tasks: see `turnabout.slices`. It uses the public face only."""

from turnabout.slices import Slice

SLICE = Slice("tasks")
