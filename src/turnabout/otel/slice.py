"""Parts that tracing adds: see `turnabout.slices`."""

from turnabout.slices import Slice

SLICE = Slice("otel", tracing="turnabout.otel.tracing")
