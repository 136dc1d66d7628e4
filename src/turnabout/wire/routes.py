"""Routes of verbs over HTTP: one row per verb, which a test checks."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from turnabout.words import outcomes as o
from turnabout.words import verbs as v
from turnabout.words.value import Value

Verb = v.Verb
Method = Literal["GET", "POST", "PUT", "PATCH", "DELETE"]


class Route(Value):
    """One verb's place.

    path    with the fields that are part of it in braces
    query   fields of the query; all others are in the JSON body
    also    a second path, for the verb without the field that it lacks
    body    the only field of the body, where it is the body itself
    waits   the request may say `wait_seconds`
    """

    verb: type[Verb[Any]]
    method: Method
    path: str
    query: tuple[str, ...] = ()
    also: str | None = None
    body: str | None = None
    waits: bool = False

    @property
    def in_path(self) -> tuple[str, ...]:
        """The fields in the path."""
        parts = self.path.split("/")
        return tuple(part[1:-1] for part in parts if part.startswith("{"))


_QUEUE = "/v1/queues/{queue}"

ROUTES: tuple[Route, ...] = (
    Route(v.Send, "POST", f"{_QUEUE}/messages"),
    Route(v.Receive, "POST", f"{_QUEUE}/receive", waits=True),
    Route(v.Ack, "POST", f"{_QUEUE}/ack"),
    Route(v.Defer, "POST", f"{_QUEUE}/defer"),
    Route(v.Fail, "POST", f"{_QUEUE}/fail"),
    Route(v.Extend, "POST", f"{_QUEUE}/extend"),
    Route(v.Release, "POST", f"{_QUEUE}/release"),
    Route(v.Cancel, "POST", f"{_QUEUE}/cancel"),
    Route(v.Retry, "POST", f"{_QUEUE}/retry"),
    Route(v.Peek, "GET", f"{_QUEUE}/messages", ("limit", "state", "channel", "after_id")),
    Route(v.Stats, "GET", f"{_QUEUE}/stats", ("after", "limit"), also="/v1/stats"),
    Route(v.StatsOfChannels, "GET", f"{_QUEUE}/channels", ("limit",)),
    Route(
        v.Fairness,
        "GET",
        f"{_QUEUE}/fairness",
        ("window_ms", "sort", "find", "offset", "limit"),
    ),
    Route(v.WorkerReport, "POST", f"{_QUEUE}/workers"),
    Route(v.WorkerList, "GET", f"{_QUEUE}/workers"),
    Route(v.Purge, "POST", f"{_QUEUE}/purge"),
    Route(v.Endings, "POST", f"{_QUEUE}/endings", waits=True),
    Route(
        v.History,
        "GET",
        f"{_QUEUE}/history",
        ("limit", "outcome", "channel", "error", "finished_from", "finished_until", "cursor"),
    ),
    Route(v.Clear, "POST", f"{_QUEUE}/history/clear"),
    Route(v.Events, "GET", f"{_QUEUE}/events", ("cursor", "limit"), waits=True),
    Route(v.RedriveStart, "POST", f"{_QUEUE}/redrives"),
    Route(v.RedriveStep, "POST", "/v1/redrives/{id}/step"),
    Route(v.RedriveCancel, "POST", "/v1/redrives/{id}/cancel"),
    Route(v.RedriveList, "GET", "/v1/redrives", ("queue", "limit")),
    Route(v.QueueCreate, "POST", "/v1/queues"),
    Route(v.QueueGet, "GET", _QUEUE),
    Route(v.QueueUpdate, "PATCH", _QUEUE, body="changes"),
    Route(v.QueueList, "GET", "/v1/queues", ("after", "limit")),
    Route(v.QueueDelete, "DELETE", _QUEUE),
    Route(
        v.PolicySet, "PATCH", f"{_QUEUE}/policy", ("channel", "replace", "pause_ms"), body="changes"
    ),
    Route(v.PolicyGet, "GET", f"{_QUEUE}/policy", ("channel",)),
    Route(v.PolicyList, "GET", f"{_QUEUE}/policies", ("after", "limit")),
    Route(v.ChannelDelete, "DELETE", f"{_QUEUE}/channel", ("channel",)),
    Route(v.ScheduleSet, "PUT", "/v1/schedules/{schedule}"),
    Route(v.ScheduleDelete, "DELETE", "/v1/schedules/{schedule}"),
    Route(v.ScheduleList, "GET", "/v1/schedules", ("queue", "due", "schedule", "after", "limit")),
    Route(v.ScheduleFire, "POST", "/v1/schedules/{schedule}/fire"),
    Route(v.Maintain, "POST", f"{_QUEUE}/maintain"),
)

ROUTE_OF: Mapping[type[Verb[Any]], Route] = {route.verb: route for route in ROUTES}

NOT_ON_THE_WIRE = frozenset({"namespace", "refused", "room_bytes"})
"""Fields that no request has: the namespace is the token's, the others are the server's."""

REFUSALS: tuple[type[Any], ...] = (o.ChannelFull, o.QueueFull, o.AlreadyExists)
"""Outcomes that refuse the whole request: answered with 409. Those of many-forms don't."""


def status_of(answer: object) -> int:
    """The status of an answer."""
    return 409 if isinstance(answer, REFUSALS) else 200
