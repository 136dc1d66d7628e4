"""What the HTTP server brings: see `turnabout.slices`."""

from turnabout.slices import Slice

SLICE = Slice("server", commands="turnabout.server.commands")
