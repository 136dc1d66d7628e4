"""A server's counters, by prometheus_client; `/metrics` shows them.

Labels come from closed sets only: a route's template, a verb, a code. Never from a name, a token or
a path. So their children can be kept, as finding one costs more than counting.

Each of several processes writes its counts to files of the folder PROMETHEUS_MULTIPROC_DIR, and any
of them adds up all. The counts of a process that has ended stay there, so that no sum falls.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from functools import cache, partial
from typing import Any, Final, TypeVar, cast

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from turnabout.store import AsyncForwardingStore, AsyncStore
from turnabout.words import outcomes as o
from turnabout.words.entities import Delivery
from turnabout.words.errors import StorageFull, TurnaboutError
from turnabout.words.verbs import Ack, Defer, Extend, Fail, Receive, Release, Send, Verb

A = TypeVar("A")

PREFIX: Final = "turnabout_"
BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)
"""Upper ends of the histograms' buckets, in seconds; one more takes anything longer."""
METHODS = frozenset({"GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS"})
NO_ROUTE = "none"
"""The label of requests that no route took: their path is the client's, and may be anything."""
COUNTERS: Final = (
    ("http_requests", "Answered requests.", "route", "method", "status"),
    ("refusals", "What a limit of the server refused.", "limit"),
    ("verb_errors", "Verbs that ended with an error.", "verb", "code"),
)
HISTOGRAMS: Final = (
    ("http_request_duration_seconds",
     "From a request's head to the end of its answer; waiting for messages is in it.",
     "route", "method"),
    ("verb_duration_seconds",
     "How long verbs took, with the wait to be merged with others.", "verb"),
)  # fmt: skip
MESSAGES: Final[Mapping[str, str]] = {
    "messages_accepted": "Messages that this process took in.",
    "messages_deduplicated": "Messages suppressed by their dedup key.",
    "messages_refused": "Messages refused as a channel or a queue was full.",
    "messages_received": "Messages handed out, each delivery of them.",
    "messages_redelivered": "Messages handed out for a second time or later.",
    "messages_acked": "Messages acked.",
    "messages_deferred": "Messages put off by those who had them.",
    "messages_failed": "Attempts that were reported as failed.",
    "messages_released": "Messages given back.",
    "leases_lost": "Receipts that were refused: the lease was lost before.",
    "receive_empty": "Looks for messages that found none.",
}
NOW: Final[Mapping[str, str]] = {
    "http_requests_in_flight": "Requests under way.",
    "connections": "Open connections of clients.",
    "requests_pending": "Requests that want the store.",
    "polls": "Requests that wait for messages or events.",
    "queues_unmaintained": "Queues whose last maintenance has failed.",
    "store_connections_open": "Connections to the database that are open.",
    "store_connections_idle": "Open connections to the database that nobody uses.",
    "store_connections_max": "As many connections to the database there may be.",
    "store_calls_waiting": "Calls that wait for a connection, or in line for the writer.",
    "store_commits": "Transactions of SQLite's writer.",
    "store_verbs_committed": "Verbs carried out in them.",
    "store_file_bytes": "Size of the SQLite file.",
    "store_disk_free_bytes": "Free space on its disk.",
}
_COUNTED_UP: Final = frozenset({"store_commits", "store_verbs_committed"})
_OF_THE_DATABASE: Final = frozenset({"store_file_bytes", "store_disk_free_bytes"})
"""Gauges that have one value in all processes; any other is summed over the running ones."""
_DONE: Mapping[type[Verb[Any]], str | None] = {
    Ack: "messages_acked",
    Defer: "messages_deferred",
    Fail: "messages_failed",
    Release: "messages_released",
    Extend: None,
}


def template(scope: Mapping[str, Any]) -> str:
    """The path of the route that took a request, as it was declared."""
    route = scope.get("route")
    return NO_ROUTE if route is None else route.path


class ServerCounts:
    """The counts of one server process, since it started."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self.in_flight = 0
        self.full_at = float("-inf")
        """Time when the store last refused a verb for want of room, by the monotonic clock."""
        self._now: dict[str, Gauge] = {}
        self._up: dict[str, tuple[Counter, float]] = {}
        self._counter = counter = partial(Counter, registry=self.registry)
        histogram = partial(Histogram, registry=self.registry, buckets=BUCKETS)
        self._messages = {name: counter(PREFIX + name, about) for name, about in MESSAGES.items()}
        self._requests, self._refusals, self._verb_errors = (
            cache(counter(PREFIX + name, about, labels).labels) for name, about, *labels in COUNTERS
        )
        self._request_seconds, self._verb_seconds = (
            cache(histogram(PREFIX + name, about, labels).labels)
            for name, about, *labels in HISTOGRAMS
        )
        self._wait_seconds = histogram(
            f"{PREFIX}message_wait_seconds",
            "From sending to the first delivery; a delay that was asked for is in it.",
        )

    def request(self, route: str, method: str, status: int, seconds: float) -> None:
        """Count a request that was answered."""
        if method not in METHODS:
            method = "other"
        self._requests(route, method, status).inc()
        self._request_seconds(route, method).observe(seconds)

    def refused(self, limit: str) -> None:
        """A limit of the server refused something; `limit` is its option's name."""
        self._refusals(limit).inc()

    def take(self, now: Mapping[str, float]) -> None:
        """Take figures of this moment, by the names of `NOW`."""
        for name, value in now.items():
            full, about = PREFIX + name, NOW[name]
            if name in _COUNTED_UP:
                counter, was = self._up.get(name) or (self._counter(full, about), 0)
                counter.inc(value - was)
                self._up[name] = counter, value
                continue
            if name not in self._now:
                mode = "livemax" if name in _OF_THE_DATABASE else "livesum"
                self._now[name] = Gauge(full, about, registry=self.registry, multiprocess_mode=mode)
            self._now[name].set(value)

    # --- verbs -----------------------------------------------------------------------------------

    def took(self, verb: str, seconds: float) -> None:
        """A verb has ended, however it did."""
        self._verb_seconds(verb).observe(seconds)

    def failed(self, verb: str, code: str) -> None:
        """A verb raised an error of that code."""
        self._verb_errors(verb, code).inc()
        if code == StorageFull.code:
            self.full_at = time.monotonic()

    def carried(self, verb: Verb[Any], answer: Any) -> None:
        """Count the messages that a verb sent, delivered or settled."""
        kind = type(verb)
        if kind is Receive:
            self._received(answer.deliveries)
            if answer.acked:
                self._settled(_DONE[Ack], answer.acked)
        elif kind is Send:
            self._sent(answer, len(cast("Send", verb).messages))
        elif kind in _DONE:
            self._settled(_DONE[kind], answer)

    def _sent(self, answer: o.SendOutcome, count: int) -> None:
        messages = self._messages
        if type(answer) is not o.Sent:
            messages["messages_refused"].inc(count)
            return
        messages["messages_accepted"].inc(len(answer.ids) - len(answer.duplicates))
        if answer.duplicates:
            messages["messages_deduplicated"].inc(len(answer.duplicates))

    def _received(self, deliveries: Sequence[Delivery]) -> None:
        messages = self._messages
        messages["messages_received" if deliveries else "receive_empty"].inc(len(deliveries) or 1)
        for delivery in deliveries:
            if delivery.attempt == 1:
                now = delivery.lease_until - delivery.lease_ms
                self._wait_seconds.observe(max(now - delivery.sent_at, 0) / 1000)
            else:
                messages["messages_redelivered"].inc()

    def _settled(self, done: str | None, outcomes: Sequence[object]) -> None:
        lost = sum(type(outcome) is o.LeaseLost for outcome in outcomes)
        if lost:
            self._messages["leases_lost"].inc(lost)
        if done is not None:
            self._messages[done].inc(len(outcomes) - lost)


class CountingStore(AsyncForwardingStore):
    """A store that counts and times the verbs run on another one."""

    def __init__(self, store: AsyncStore, counts: ServerCounts) -> None:
        super().__init__(store)
        self._counts = counts

    async def run(self, verb: Verb[A]) -> A:
        """Run a verb; count and time it."""
        counts, started = self._counts, time.perf_counter()
        try:
            answer = await self._store.run(verb)
        except TurnaboutError as error:
            counts.failed(verb.name, error.code)
            raise
        finally:
            counts.took(verb.name, time.perf_counter() - started)
        counts.carried(verb, answer)
        return answer

    async def run_transaction(
        self, verbs: Sequence[Verb[Any]], *, all_or_none: bool = False
    ) -> list[Any]:
        """Run verbs in one transaction, which is timed as a verb of its own."""
        counts, started = self._counts, time.perf_counter()
        try:
            answers = await self._store.run_transaction(verbs, all_or_none=all_or_none)
        except TurnaboutError as error:
            counts.failed("transaction", error.code)
            raise
        finally:
            counts.took("transaction", time.perf_counter() - started)
        for verb, answer in zip(verbs, answers, strict=True):
            counts.carried(verb, answer)
        return answers
