"""What the dashboard brings: see `turnabout.slices`."""

from turnabout.slices import Slice

SLICE = Slice("dashboard", routes="turnabout.dashboard.routes")
