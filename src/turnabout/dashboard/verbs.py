"""The verbs of the dashboard: samples of queues, which a server keeps for its charts.

They are the server's own: no door carries them. Names are those that stores know.
"""

from __future__ import annotations

from typing import Any

from turnabout.words.value import Value
from turnabout.words.verbs import Verb

KEPT_MS = {60_000: 2 * 3_600_000, 600_000: 2 * 86_400_000, 3_600_000: 30 * 86_400_000}
"""The distances of samples, and for how long samples of each are kept: two hours of minutes, two
days of ten minutes, a month of hours."""


class Sample(Value):
    """One queue at one time. sent, done, dead: since the queue was made."""

    queue: str
    step_ms: int
    at: int
    ready: int
    leased: int
    oldest_ms: int | None
    sent: int
    done: int
    dead: int
    shares: str | None = None
    """Messages that the worst off channels got, and their fair shares: `{channel: [got, fair]}`."""


class SamplesKeep(Verb[None]):
    """Keep samples, and remove those that are too old. One that is there stays as it is."""

    samples: tuple[Sample, ...]


class SamplesList(Verb[tuple[Sample, ...]]):
    """List a queue's samples of one distance, since a time, the oldest first."""

    reads = True
    queue: str = ""
    step_ms: int = 60_000
    since: int = 0


VERBS: tuple[type[Verb[Any]], ...] = (SamplesKeep, SamplesList)
