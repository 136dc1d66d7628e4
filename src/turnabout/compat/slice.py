"""What the compatibility APIs bring: see `turnabout.slices`."""

from turnabout.slices import Slice

SLICE = Slice("compat", routes="turnabout.compat.routes")
