"""What Django's backend brings: see `turnabout.slices`. It stands on the public face alone."""

from turnabout.slices import Slice

SLICE = Slice("django")
