"""The slice of Django's backend: see `turnabout.slices`. It uses the public face only."""

from turnabout.slices import Slice

SLICE = Slice("django")
