"""What functions as tasks bring: see `turnabout.slices`. They stand on the public face alone."""

from turnabout.slices import Slice

SLICE = Slice("tasks")
