"""Fixtures for pytest: see `turnabout.slices`."""

from turnabout.slices import Slice

SLICE = Slice("testing")
