"""The slice of tools for trying and developing: see `turnabout.slices`."""

from turnabout.slices import Slice

SLICE = Slice("dev", commands="turnabout.dev.commands")
