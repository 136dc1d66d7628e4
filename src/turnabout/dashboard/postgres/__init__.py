"""Samples on PostgreSQL: a function for each verb; a table in `migrations/`."""

from typing import Any

import msgspec

from turnabout.dashboard import verbs as d
from turnabout.postgres.call import Call, call, each, nothing

__all__ = ["CALLS", "VIEWS"]

VIEWS = ()

CALLS: dict[type[Any], Call] = {
    d.SamplesKeep: call(
        "select turnabout_dashboard.samples_keep($samples::jsonb, $kept::jsonb, $now::bigint)",
        nothing,
        lambda verb, now: (
            msgspec.json.encode(verb.samples).decode(),
            msgspec.json.encode(d.KEPT_MS).decode(),
            now,
        ),
        repeatable=True,
    ),
    d.SamplesList: call(
        "select * from turnabout_dashboard.samples_list($queue::text, $step_ms::int,"
        " $since::bigint)",
        each(d.Sample),
        repeatable=True,
    ),
}
