"""`/metrics`, for Prometheus: this process's counts, and the queues' totals from the database.

Figures of the queues come from counters that the database keeps, so no message is looked at, and
from one query in five seconds however many scrape. Each replica shows the same ones for them.
Cardinality is bounded: the queues with the most messages are named, the rest is `_other`.
"""

from __future__ import annotations

import asyncio
import heapq
import time
from collections import Counter as Tally
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Final

from prometheus_client import CollectorRegistry, GCCollector, ProcessCollector
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    InfoMetricFamily,
    Metric,
)
from prometheus_client.exposition import choose_encoder
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from turnabout import __version__
from turnabout.server.counts import BUCKETS, Histogram, ServerCounts
from turnabout.words.administration import QueueTotals, Totals
from turnabout.words.errors import (
    Busy,
    Forbidden,
    TooManyRequests,
    Unavailable,
)
from turnabout.words.namespaces import NO_NAMESPACE

if TYPE_CHECKING:
    from turnabout.server.context import ServerContext

PREFIX: Final = "turnabout_"
FRESH_SECONDS: Final = 5.0
"""How long the totals of the database stand for the next scrapes."""
PATIENCE_SECONDS: Final = 3.0
"""How long the database may take to know the token, and again for the totals: most scrapers
wait ten."""
OTHER: Final = "_other"
"""No queue and no namespace can have this name."""

Place = tuple[str, str]
"""Namespace and queue."""

FLOWS: Final[Mapping[str, str]] = {
    "sent": "Messages sent to the queue.",
    "done": "Messages that ended as done.",
    "dead": "Messages that died.",
    "cancelled": "Messages that were cancelled.",
    "expired": "Messages that expired.",
}
MESSAGES: Final[Mapping[str, tuple[str, str]]] = {
    "accepted": ("messages_accepted", "Messages that this process took in."),
    "deduplicated": ("messages_deduplicated", "Messages suppressed by their dedup key."),
    "refused": ("messages_refused", "Messages refused as a channel or a queue was full."),
    "received": ("messages_received", "Messages handed out, each delivery of them."),
    "redelivered": ("messages_redelivered", "Messages handed out for a second time or later."),
    "acked": ("messages_acked", "Messages acked."),
    "deferred": ("messages_deferred", "Messages put off by those who had them."),
    "failed": ("messages_failed", "Attempts that were reported as failed."),
    "released": ("messages_released", "Messages given back."),
    "lease_lost": ("leases_lost", "Receipts that were refused: the lease was lost before."),
    "receive_empty": ("receive_empty", "Looks for messages that found none."),
}
NOW: Final[Mapping[str, str]] = {
    "http_requests_in_flight": "Requests under way.",
    "connections": "Open connections of clients.",
    "requests_pending": "Requests that want the store.",
    "polls": "Requests that wait for messages or events.",
    "queues_unmaintained": "Queues whose last maintenance has failed.",
}
STORE: Final[Mapping[str, str]] = {
    "connections_open": "Connections to the database that are open.",
    "connections_idle": "Open connections to the database that nobody uses.",
    "connections_max": "As many connections to the database there may be.",
    "calls_waiting": "Calls that wait for a connection, or in line for the writer.",
    "commits": "Transactions of SQLite's writer.",
    "verbs_committed": "Verbs carried out in them.",
    "file_bytes": "Size of the SQLite file.",
    "disk_free_bytes": "Free space on its disk.",
}
_COUNTED_UP: Final = frozenset({"commits", "verbs_committed"})


class Board:
    """The queues' totals, asked for at most once in five seconds."""

    def __init__(self, context: ServerContext) -> None:
        self._context = context
        self._known: dict[str, QueueTotals] | None = None
        self._others: Tally[str] = Tally()
        self._asked_at = float("-inf")
        self._asking: asyncio.Task[None] | None = None
        self.named: list[QueueTotals] = []
        self.rest: list[QueueTotals] = []
        self.up = False
        self.seconds = 0.0

    async def refresh(self) -> None:
        """Ask the database, if nobody did lately. What it does not answer stays as it was."""
        if self._asking is None:
            if time.monotonic() - self._asked_at < FRESH_SECONDS:
                return
            self._asking = asyncio.create_task(self._ask())
        done, _ = await asyncio.wait({self._asking}, timeout=PATIENCE_SECONDS)
        if not done:
            self.up = False

    def close(self) -> None:
        """Ask nothing more."""
        if self._asking is not None:
            self._asking.cancel()

    async def _ask(self) -> None:
        started = time.perf_counter()
        try:
            totals = await self._context.store.run(Totals())
        except Exception:  # noqa: BLE001 - asyncio would log the text of one that nobody awaits
            self.up = False
        else:
            self._take(totals)
            self.up = True
        finally:
            self._asking = None
            self._asked_at = time.monotonic()
            self.seconds = time.perf_counter() - started

    def _take(self, totals: Sequence[QueueTotals]) -> None:
        most = self._context.options.metrics_queues
        ranked = heapq.nlargest(most, totals, key=lambda t: (t.unfinished, t.sent, t.queue))
        names = {total.queue for total in ranked}
        self.named = sorted(ranked, key=lambda total: total.queue)
        self.rest = [total for total in totals if total.queue not in names]
        # A sum over a set that changes would fall and rise. So `_other` adds up what was new in
        # queues that were not named at that moment.
        for total in self.rest if self._known is not None else ():
            before = (self._known or {}).get(total.queue)
            for flow in FLOWS:
                new = getattr(total, flow) - (0 if before is None else getattr(before, flow))
                self._others[flow] += max(new, 0)
        if self._known is None:
            self._others = Tally({f: sum(getattr(t, f) for t in self.rest) for f in FLOWS})
        self._known = {total.queue: total for total in totals}

    def families(self) -> Iterable[Metric]:
        """The totals as metrics."""
        labels = ("namespace", "queue")
        unfinished = GaugeMetricFamily(
            f"{PREFIX}messages_unfinished", "Messages not ended yet, in any state.", labels=labels
        )
        oldest = GaugeMetricFamily(
            f"{PREFIX}oldest_message_age_seconds",
            "How long ago the oldest ready message was sent; 0 if none is ready.",
            labels=labels,
        )
        ran_out = GaugeMetricFamily(
            f"{PREFIX}leases_ran_out",
            "Leases that have run out while nobody looked, up to a thousand.",
            labels=labels,
        )
        for total in self.named:
            ran_out.add_metric(place(total.queue), total.ran_out)
            unfinished.add_metric(place(total.queue), total.unfinished)
            oldest.add_metric(place(total.queue), (total.oldest_ready_ms or 0) / 1000)
        if self.rest:
            unfinished.add_metric((OTHER, OTHER), sum(total.unfinished for total in self.rest))
            ran_out.add_metric((OTHER, OTHER), sum(total.ran_out for total in self.rest))
            ages = [total.oldest_ready_ms or 0 for total in self.rest]
            oldest.add_metric((OTHER, OTHER), max(ages) / 1000)
        yield unfinished
        yield oldest
        yield ran_out
        for flow, about in FLOWS.items():
            family = CounterMetricFamily(f"{PREFIX}messages_{flow}", about, labels=labels)
            for total in self.named:
                family.add_metric(place(total.queue), getattr(total, flow))
            if self.rest or self._others[flow]:
                family.add_metric((OTHER, OTHER), self._others[flow])
            yield family
        count = len(self.named) + len(self.rest)
        yield GaugeMetricFamily(f"{PREFIX}queues", "Queues there are.", count)
        yield _gauge("database_up", "Whether the database answered the last time.", self.up)
        yield _gauge("totals_seconds", "How long the last look at the totals took.", self.seconds)


class _Collector:
    """All metrics, in the form that prometheus_client wants."""

    def __init__(self, context: ServerContext, board: Board) -> None:
        self._context = context
        self._board = board

    def collect(self) -> Iterable[Metric]:
        context = self._context
        store = type(context.store).__module__.split(".")[1]
        info = {"version": __version__, "store": store}
        yield InfoMetricFamily(f"{PREFIX}build", "What runs here.", value=info)
        yield from self._board.families()
        shared = context.shared
        counts, now = (context.counts, context.now()) if shared is None else shared.of_all()
        yield from _of_requests(counts)
        yield from _of_verbs(counts)
        yield from _of_limits(counts)
        for name, about in NOW.items():
            yield _gauge(name, about, now[name])
        yield _gauge("closing", "Whether the server is stopping.", context.lifecycle.leaving)
        yield from _of_store({**context.store.measures(), **now})


def _of_requests(counts: ServerCounts) -> Iterable[Metric]:
    requests = CounterMetricFamily(
        f"{PREFIX}http_requests", "Answered requests.", labels=("route", "method", "status")
    )
    for (route, method, status), number in counts.requests.items():
        requests.add_metric((route, method, str(status)), number)
    yield requests
    yield _histograms(
        "http_request_duration_seconds",
        "From a request's head to the end of its answer; waiting for messages is in it.",
        ("route", "method"),
        counts.request_seconds.items(),
    )


def _of_verbs(counts: ServerCounts) -> Iterable[Metric]:
    yield _histograms(
        "verb_duration_seconds",
        "How long verbs took, with the wait to be merged with others.",
        ("verb",),
        [((verb,), histogram) for verb, histogram in counts.verb_seconds.items()],
    )
    errors = CounterMetricFamily(
        f"{PREFIX}verb_errors", "Verbs that ended with an error.", labels=("verb", "code")
    )
    for labels, number in counts.verb_errors.items():
        errors.add_metric(labels, number)
    yield errors
    for key, (name, about) in MESSAGES.items():
        yield CounterMetricFamily(f"{PREFIX}{name}", about, counts.messages[key])
    yield _histograms(
        "message_wait_seconds",
        "From sending to the first delivery; a delay that was asked for is in it.",
        (),
        [((), counts.wait_seconds)],
    )


def _of_limits(counts: ServerCounts) -> Iterable[Metric]:
    refusals = CounterMetricFamily(
        f"{PREFIX}refusals", "What a limit of the server refused.", labels=("limit",)
    )
    for limit, number in counts.refusals.items():
        refusals.add_metric((limit,), number)
    yield refusals


def _of_store(measured: Mapping[str, float]) -> Iterable[Metric]:
    for name, value in measured.items():
        if name in NOW:
            continue
        if name in _COUNTED_UP:
            yield CounterMetricFamily(f"{PREFIX}store_{name}", STORE[name], value)
        else:
            yield _gauge(f"store_{name}", STORE[name], value)


def _gauge(name: str, about: str, value: float) -> Metric:
    return GaugeMetricFamily(PREFIX + name, about, float(value))


def _histograms(
    name: str,
    about: str,
    labels: Sequence[str],
    items: Iterable[tuple[Sequence[str], Histogram]],
) -> Metric:
    family = HistogramMetricFamily(PREFIX + name, about, labels=labels)
    for values, histogram in items:
        total, buckets = 0, list[tuple[str, float]]()
        for end, number in zip((*map(str, BUCKETS), "+Inf"), histogram.buckets, strict=True):
            total += number
            buckets.append((end, total))
        family.add_metric(values, buckets, histogram.seconds)
    return family


def place(queue: str) -> Place:
    """Namespace and plain name of a queue's stored name."""
    namespace, slash, name = queue.partition("/")
    return (namespace, name) if slash else ("", queue)


async def check_look(context: ServerContext, request: Request) -> None:
    """Returns if the caller may see figures of all namespaces. Raises: Unauthorized, Forbidden,
    Unavailable.
    """
    if context.options.metrics_public:
        return
    try:
        async with asyncio.timeout(PATIENCE_SECONDS):
            rights = (await context.caller(request)).rights
    except TooManyRequests:
        raise
    except (TimeoutError, Unavailable) as error:
        # That the database is away is what somebody has to be able to see then.
        known = context.authenticator.believed(request.scope)
        if known is None:
            raise Busy("the database did not check the token in time: repeat later") from error
        rights = known
    # A tenant's token sees its own namespace only, whatever its scopes are (P14).
    if rights.namespace != NO_NAMESPACE or not rights.allows(Totals, None):
        raise Forbidden(
            "metrics show the queues of all namespaces: that needs a token of no namespace with "
            "the scope totals (`turnabout token create --scope totals`), or a server with "
            "--metrics-public"
        )


def routes(context: ServerContext) -> Sequence[BaseRoute]:
    """The route of `/metrics`."""
    board = Board(context)
    context.lifecycle.on_close.append(board.close)
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_Collector(context, board))
    if context.options.processes == 1:  # else they would be of whichever process answers
        ProcessCollector(registry=registry)
        GCCollector(registry=registry)

    async def metrics(request: Request) -> Response:
        await check_look(context, request)
        await board.refresh()
        encode, kind = choose_encoder(request.headers.get("accept", ""))
        return Response(encode(registry), headers={"content-type": kind})

    return [Route("/metrics", metrics, methods=["GET"])]
