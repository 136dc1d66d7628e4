"""Samples on SQLite."""

from __future__ import annotations

from pathlib import Path

from turnabout.dashboard import verbs as d
from turnabout.sqlite._connection import Connection
from turnabout.sqlite._statements import statements

_SAMPLES = statements("samples", Path(__file__).parent / "sql")


def samples_keep(connection: Connection, verb: d.SamplesKeep, now: int) -> None:
    """Keep samples, where none of that time is kept; and remove those that are too old."""
    for one in verb.samples:
        row = {name: getattr(one, name) for name in d.Sample.__struct_fields__}
        connection.execute(_SAMPLES["keep"], row)
    for step, kept in d.KEPT_MS.items():
        connection.execute(_SAMPLES["drop"], {"step": step, "before": now - kept})


def samples_list(connection: Connection, verb: d.SamplesList, _now: int) -> tuple[d.Sample, ...]:
    """A queue's samples of one distance, since a time, the oldest first."""
    parameters = {"queue": verb.queue, "step": verb.step_ms, "since": verb.since}
    return tuple(d.Sample(*row) for row in connection.execute(_SAMPLES["list"], parameters))
