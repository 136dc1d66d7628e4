"""What a server counts as it works: plain numbers, as this is on the way of every request.

One event loop counts, so nothing is locked; `metrics` reads and names the numbers. Labels come from
closed sets only: a route's template, a verb, a code. Never from a name, a token or a path.
"""

from __future__ import annotations

import time
from bisect import bisect_left
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, TypeVar, cast

from turnabout.store import AsyncForwardingStore, AsyncStore
from turnabout.words import outcomes as o
from turnabout.words.entities import Delivery
from turnabout.words.errors import StorageFull, TurnaboutError
from turnabout.words.verbs import Ack, Defer, Extend, Fail, Receive, Release, Send, Verb

A = TypeVar("A")

BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)
"""Upper ends of the histograms' buckets, in seconds; one more is for what is longer."""
METHODS = frozenset({"GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS"})
NO_ROUTE = "none"
"""The label of requests that no route took: their path is the client's, and may be anything."""
_DONE: Mapping[type[Verb[Any]], str | None] = {
    Ack: "acked",
    Defer: "deferred",
    Fail: "failed",
    Release: "released",
    Extend: None,
}


def template(scope: Mapping[str, Any]) -> str:
    """The path of the route that took a request, as it was declared."""
    route = scope.get("route")
    return NO_ROUTE if route is None else route.path


class Histogram:
    """How often it took how long."""

    __slots__ = ("buckets", "seconds")

    def __init__(self) -> None:
        self.buckets = [0] * (len(BUCKETS) + 1)
        self.seconds = 0.0

    def observe(self, seconds: float) -> None:
        """Note one that took `seconds`."""
        self.buckets[bisect_left(BUCKETS, seconds)] += 1
        self.seconds += seconds

    def add(self, buckets: Sequence[int], seconds: float) -> None:
        """Add what another one has noted."""
        self.buckets = [mine + other for mine, other in zip(self.buckets, buckets, strict=True)]
        self.seconds += seconds


_COUNTERS = ("requests", "verb_errors", "messages", "refusals")
_HISTOGRAMS = ("request_seconds", "verb_seconds")


class ServerCounts:
    """The numbers of one server process, since it started."""

    def __init__(self) -> None:
        self.requests: Counter[tuple[str, str, int]] = Counter()
        """By route, method and status."""
        self.request_seconds: dict[tuple[str, str], Histogram] = {}
        self.verb_seconds: dict[str, Histogram] = {}
        self.verb_errors: Counter[tuple[str, str]] = Counter()
        """By verb and code."""
        self.wait_seconds = Histogram()
        self.messages: Counter[str] = Counter()
        self.refusals: Counter[str] = Counter()
        self.in_flight = 0
        self.full_at = float("-inf")
        """When the store last refused a verb for want of room, by the monotonic clock."""

    def request(self, route: str, method: str, status: int, seconds: float) -> None:
        """A request was answered."""
        if method not in METHODS:
            method = "other"
        self.requests[route, method, status] += 1
        histogram = self.request_seconds.get((route, method))
        if histogram is None:
            histogram = self.request_seconds[route, method] = Histogram()
        histogram.observe(seconds)

    def refused(self, limit: str) -> None:
        """A limit of the server refused something; `limit` is its option's name."""
        self.refusals[limit] += 1

    # --- those of several processes ---------------------------------------------------------------

    def dumped(self) -> dict[str, Any]:
        """All of it but what is of this moment, for JSON."""
        document: dict[str, Any] = {name: list(getattr(self, name).items()) for name in _COUNTERS}
        for name in _HISTOGRAMS:
            histograms: dict[Any, Histogram] = getattr(self, name)
            document[name] = [(key, one.buckets, one.seconds) for key, one in histograms.items()]
        document["wait_seconds"] = (self.wait_seconds.buckets, self.wait_seconds.seconds)
        return document

    def add(self, document: Mapping[str, Any]) -> None:
        """Add what another process has dumped."""
        for name in _COUNTERS:
            for key, number in document[name]:
                getattr(self, name)[_key(key)] += number
        for name in _HISTOGRAMS:
            histograms: dict[Any, Histogram] = getattr(self, name)
            for key, *told in document[name]:
                histograms.setdefault(_key(key), Histogram()).add(*told)
        self.wait_seconds.add(*document["wait_seconds"])

    # --- verbs -----------------------------------------------------------------------------------

    def failed(self, name: str, code: str) -> None:
        """A verb raised an error of that code."""
        self.verb_errors[name, code] += 1
        if code == StorageFull.code:
            self.full_at = time.monotonic()

    def carried(self, verb: Verb[Any], answer: Any) -> None:
        """Count what a verb did with messages."""
        kind = type(verb)
        if kind is Receive:
            self._received(answer.deliveries)
            if answer.acked:
                self._settled(_DONE[Ack], answer.acked)
        elif kind is Send:
            self._sent(answer, len(cast("Send", verb).messages))
        elif kind in _DONE:
            self._settled(_DONE[kind], answer)

    def _sent(self, answer: o.SendOutcome, asked: int) -> None:
        messages = self.messages
        if type(answer) is not o.Sent:
            messages["refused"] += asked
            return
        messages["accepted"] += len(answer.ids) - len(answer.duplicates)
        if answer.duplicates:
            messages["deduplicated"] += len(answer.duplicates)

    def _received(self, deliveries: Sequence[Delivery]) -> None:
        messages = self.messages
        messages["received" if deliveries else "receive_empty"] += len(deliveries) or 1
        for delivery in deliveries:
            if delivery.attempt == 1:
                now = delivery.lease_until - delivery.lease_ms
                self.wait_seconds.observe(max(now - delivery.sent_at, 0) / 1000)
            else:
                messages["redelivered"] += 1

    def _settled(self, done: str | None, outcomes: Sequence[object]) -> None:
        lost = sum(type(outcome) is o.LeaseLost for outcome in outcomes)
        if lost:
            self.messages["lease_lost"] += lost
        if done is not None:
            self.messages[done] += len(outcomes) - lost


def _key(key: Any) -> Any:
    """As it was before JSON made a list of it."""
    return key if isinstance(key, str) else tuple(key)


class CountingStore(AsyncForwardingStore):
    """A store that counts what is asked of another one, and how long it takes."""

    def __init__(self, store: AsyncStore, counts: ServerCounts) -> None:
        super().__init__(store)
        self._counts = counts

    async def run(self, verb: Verb[A]) -> A:
        """As the store's."""
        counts, started = self._counts, time.perf_counter()
        try:
            answer = await self._store.run(verb)
        except TurnaboutError as error:
            counts.failed(verb.name, error.code)
            raise
        finally:
            self._took(verb.name, time.perf_counter() - started)
        counts.carried(verb, answer)
        return answer

    async def run_transaction(
        self, verbs: Sequence[Verb[Any]], *, all_or_none: bool = False
    ) -> list[Any]:
        """As the store's; timed as a verb of its own."""
        counts, started = self._counts, time.perf_counter()
        try:
            answers = await self._store.run_transaction(verbs, all_or_none=all_or_none)
        except TurnaboutError as error:
            counts.failed("transaction", error.code)
            raise
        finally:
            self._took("transaction", time.perf_counter() - started)
        for verb, answer in zip(verbs, answers, strict=True):
            counts.carried(verb, answer)
        return answers

    def _took(self, name: str, seconds: float) -> None:
        histogram = self._counts.verb_seconds.get(name)
        if histogram is None:
            histogram = self._counts.verb_seconds[name] = Histogram()
        histogram.observe(seconds)
