"""`/metrics`, for Prometheus: the processes' counts, and the queues' totals from the database.

Figures of the queues come from counters that the database keeps, and from one query in five
seconds however many scrape; fairness, of the fullest queues, for a hundredth of the time. Each
replica shows the same ones for them. Names of channels, which may be those of customers, are left
out where the page needs no token.
Cardinality is bounded: the queues with the most messages are named, the rest is `_other`.
"""

from __future__ import annotations

import asyncio
import heapq
import os
import time
from collections import Counter as Tally
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from prometheus_client import CollectorRegistry, GCCollector, ProcessCollector
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    InfoMetricFamily,
    Metric,
)
from prometheus_client.exposition import choose_encoder
from prometheus_client.multiprocess import MultiProcessCollector
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from turnabout import __version__
from turnabout.server.counts import PREFIX, ServerCounts
from turnabout.slices import modules
from turnabout.words.administration import QueueTotals, Totals
from turnabout.words.errors import Busy, Forbidden, TooManyRequests, TurnaboutError, Unavailable
from turnabout.words.fairness import FairShares
from turnabout.words.namespaces import NO_NAMESPACE
from turnabout.words.verbs import Fairness

if TYPE_CHECKING:
    from turnabout.server.context import ServerContext

MULTIPROC: Final = "PROMETHEUS_MULTIPROC_DIR"
"""Set for each of several processes, before `prometheus_client` is imported."""
TAKEN_SECONDS: Final = 1.0
"""Longest age of this process's current figures in the answers of the other processes."""
FRESH_SECONDS: Final = 5.0
"""Lifetime of the database's totals, for scrapes that follow."""
PATIENCE_SECONDS: Final = 3.0
"""Time limit for the database to check the token, and again to give the totals: most scrapers
wait ten seconds."""
SHARED_QUEUES: Final = 8
SHARED_CHANNELS: Final = 5
"""Queues whose fairness is looked at, and channels of each that have figures of their own."""
OTHER: Final = "_other"
"""No queue and no namespace can have this name."""

LABELS: Final = ("namespace", "queue")
OF_QUEUES: Final[Mapping[str, tuple[str, Callable[[QueueTotals], float], Callable[..., float]]]] = {
    "messages_unfinished": (
        "Messages not ended yet, in any state.", lambda total: total.unfinished, sum
    ),
    "oldest_message_age_seconds": (
        "How long ago the oldest ready message was sent; 0 if none is ready.",
        lambda total: (total.oldest_ready_ms or 0) / 1000, max,
    ),
    "leases_ran_out": (
        "Leases that have run out while nobody looked, up to a thousand.",
        lambda total: total.ran_out, sum,
    ),
}  # fmt: skip
"""A figure of a queue, and how those of queues that are not named become one."""
FLOWS: Final[Mapping[str, str]] = {
    "sent": "Messages sent to the queue.",
    "done": "Messages that ended as done.",
    "dead": "Messages that died.",
    "cancelled": "Messages that were cancelled.",
    "expired": "Messages that expired.",
}


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
        self.shares: dict[str, FairShares] = {}
        """The fullest queues, and their worst off channels."""
        self.of_slices: list[Metric] = []
        self._shares_at = float("-inf")
        self._sharing: asyncio.Task[None] | None = None
        """The look at fairness under way: a scrape does not wait for it."""
        self.up = False
        self.seconds = 0.0

    async def refresh(self) -> None:
        """Query the database, unless the totals are recent. Figures it cannot give stay."""
        if self._asking is None:
            if time.monotonic() - self._asked_at < FRESH_SECONDS:
                return
            self._asking = asyncio.create_task(self._ask())
        done, _ = await asyncio.wait({self._asking}, timeout=PATIENCE_SECONDS)
        if not done:
            self.up = False

    def close(self) -> None:
        """Cancel queries that are under way."""
        for task in (self._asking, self._sharing):
            if task is not None:
                task.cancel()

    async def _ask(self) -> None:
        started = time.perf_counter()
        try:
            totals = await self._context.store.run(Totals())
        except Exception:  # noqa: BLE001 - asyncio would log the text of one that nobody awaits
            self.up = False
        else:
            self._take(totals)
            self.up = True
            if self._sharing is None or self._sharing.done():
                self._sharing = asyncio.create_task(self._take_shares(totals))
        finally:
            self._asking = None
            self._asked_at = time.monotonic()
            self.seconds = time.perf_counter() - started

    async def _take_shares(self, totals: Sequence[QueueTotals]) -> None:
        """Look at the fairness of the fullest queues, and at what slices have, for a hundredth of
        the time at most.
        """
        began = time.monotonic()
        if began < self._shares_at:
            return
        fullest = heapq.nlargest(SHARED_QUEUES, totals, key=lambda total: total.unfinished)
        shares: dict[str, FairShares] = {}
        with suppress(TurnaboutError):  # the next time will do
            for total in fullest:
                if total.unfinished:
                    verb = Fairness(total.queue, limit=SHARED_CHANNELS)
                    shares[total.queue] = await self._context.store.run(verb)
            self.of_slices = [
                family
                for module in modules("metrics")
                for family in await module.gauges(self._context.store.run, totals)
            ]
        now = time.monotonic()
        self.shares, self._shares_at = shares, now + 99 * (now - began)

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
        for name, (about, figure, together) in OF_QUEUES.items():
            family = GaugeMetricFamily(PREFIX + name, about, labels=LABELS)
            for total in self.named:
                family.add_metric(place(total.queue), figure(total))
            if self.rest:
                family.add_metric((OTHER, OTHER), together(map(figure, self.rest)))
            yield family
        for flow, about in FLOWS.items():
            family = CounterMetricFamily(f"{PREFIX}messages_{flow}", about, labels=LABELS)
            for total in self.named:
                family.add_metric(place(total.queue), getattr(total, flow))
            if self.rest or self._others[flow]:
                family.add_metric((OTHER, OTHER), self._others[flow])
            yield family
        yield from self._shares_families()
        yield from self.of_slices
        count = len(self.named) + len(self.rest)
        yield GaugeMetricFamily(f"{PREFIX}queues", "Queues there are.", count)
        yield _gauge("database_up", "Whether the database answered the last time.", self.up)
        yield _gauge("totals_seconds", "How long the last look at the totals took.", self.seconds)

    def _shares_families(self) -> Iterable[Metric]:
        starved = GaugeMetricFamily(
            f"{PREFIX}channels_starved",
            "Channels under 0.7 of their fair share that no limit of their own holds.",
            labels=LABELS,
        )
        labels = (*LABELS, "channel")
        ratio = GaugeMetricFamily(
            f"{PREFIX}channel_fair_share_ratio",
            "What the worst off channels got of their fair share: 1 is fair.",
            labels=labels,
        )
        age = GaugeMetricFamily(
            f"{PREFIX}channel_oldest_message_age_seconds",
            "How long the oldest message of these channels has been ready.",
            labels=labels,
        )
        for queue, shares in self.shares.items():
            starved.add_metric(place(queue), shares.starved)
            for one in () if self._context.options.metrics_public else shares.channels:
                if one.ratio is not None:
                    ratio.add_metric((*place(queue), one.channel), one.ratio)
                    age.add_metric((*place(queue), one.channel), (one.oldest_ready_ms or 0) / 1000)
        yield from (starved, ratio, age)


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
        context.counts.take(context.now())
        yield from _counted(context.counts)
        yield _gauge("closing", "Whether the server is stopping.", context.lifecycle.leaving)


def _counted(counts: ServerCounts) -> Iterable[Metric]:
    """The counts of this process; of all, where there are several."""
    if MULTIPROC in os.environ:
        yield from MultiProcessCollector(None).collect()
        return
    for family in counts.registry.collect():
        # When a series began doubles the length, and is shown for one process only.
        family.samples = [one for one in family.samples if not one.name.endswith("_created")]
        yield family


def _gauge(name: str, about: str, value: float) -> Metric:
    return GaugeMetricFamily(PREFIX + name, about, float(value))


def place(queue: str) -> tuple[str, str]:
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

    async def keep_taken() -> None:
        while True:
            context.counts.take(context.now())
            await asyncio.sleep(TAKEN_SECONDS)

    if MULTIPROC in os.environ:
        context.lifecycle.background.append(keep_taken)

    async def metrics(request: Request) -> Response:
        await check_look(context, request)
        await board.refresh()
        encode, kind = choose_encoder(request.headers.get("accept", ""))
        return Response(encode(registry), headers={"content-type": kind})

    return [Route("/metrics", metrics, methods=["GET"])]
