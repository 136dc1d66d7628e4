"""Checks of namespaces and tokens for `doctor`: counts, by the `doctor.sql` of each store."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from turnabout._connect import counts_of
from turnabout.server.slice import SLICE
from turnabout.words.findings import Finding, Question

QUESTIONS: Mapping[str, Question] = {
    "namespaces": Question(
        "all queues with a namespace belong to one that exists",
        "queues have a namespace that does not exist: no token opens them",
        "make it: `turnabout token create`, or delete them: `turnabout queue delete`",
    ),
    "tenants": Question(
        "no dead letter and no schedule leads from one namespace to another (P14)",
        "queues or schedules lead from one namespace to another (P14)",
        "no token can do that, but anybody with the database's URL can: name another dead-letter"
        " queue (`turnabout queue update`), or delete the schedule, unless that is what you want",
    ),
    "tokens": Question(
        "none ends within a week",
        "tokens end within a week",
        "see `turnabout token list`; make new ones in time: `turnabout token create`",
    ),
}


def checks(url: str) -> Iterator[Finding]:
    """All findings about namespaces and tokens."""
    yield from counts_of(url, SLICE, QUESTIONS)
