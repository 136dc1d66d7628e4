"""Parts that the compatibility APIs add: see `turnabout.slices`."""

from turnabout.slices import Slice

SLICE = Slice("compat", routes="turnabout.compat.routes")
