"""The slice of the SQS API: see `turnabout.slices`."""

from turnabout.slices import Slice

SLICE = Slice("sqs", routes="turnabout.sqs.routes")
