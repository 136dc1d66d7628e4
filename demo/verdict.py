"""What follows from the data: nothing lost, nothing acked twice, nobody starved. Pure.

Fair means, here: when a carrier's last flight was handed out, not many more flights had been handed
out in all than if someone had dealt them like cards, one for each carrier in turn. In a queue
without channels, a small carrier that was sent last would wait for everybody's flights.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from demo.ledger import DemoLedger
from turnabout.words.entities import QueueStats

SHARE_LEAST = 0.8
PLACES_FACTOR = 1.5
BLOCK = 1_600
"""Shares are of this many deliveries at a time: about a hundred for each carrier."""


@dataclass(frozen=True, slots=True)
class DemoSent:
    """The messages sent, for comparison: how many flights, and how late together, by carrier."""

    sizes: Mapping[str, int]
    late: Mapping[str, int]

    @property
    def total(self) -> int:
        """All flights."""
        return sum(self.sizes.values())


@dataclass(frozen=True, slots=True)
class Killing:
    """A worker that was killed: what it held, and what its receipts were answered afterwards."""

    worker: str
    rows: frozenset[int]
    refused: int
    """How many of its receipts were refused when they were used after the end."""


@dataclass(frozen=True, slots=True)
class Service:
    """How a carrier was served. Places count first deliveries of all carriers together."""

    carrier: str
    flights: int
    first_seconds: float
    last_seconds: float
    last_place: int
    fair_place: int
    """Its last place in a perfect round robin."""


@dataclass(frozen=True, slots=True)
class VerdictCheck:
    """One sentence of the verdict, and whether it is good news."""

    good: bool
    text: str


def _yes(text: str) -> VerdictCheck:
    return VerdictCheck(good=True, text=text)


def _no(text: str) -> VerdictCheck:
    return VerdictCheck(good=False, text=text)


@dataclass(frozen=True, slots=True)
class Verdict:
    """The whole of it."""

    checks: tuple[VerdictCheck, ...]
    services: tuple[Service, ...]
    share: float | None
    handled_twice: int
    redelivered: int

    @property
    def good(self) -> bool:
        """True if every check is."""
        return all(check.good for check in self.checks)


def judge(
    sent: DemoSent,
    ledger: DemoLedger,
    stats: QueueStats,
    *,
    started_at: int,
    batch_rows: int,
    killing: Killing | None,
) -> Verdict:
    """The verdict on a run. `batch_rows`: what all workers together lease in one go."""
    services = tuple(_services(sent, ledger, started_at))
    redelivered = {row for row, times in ledger.deliveries.items() if times > 1}
    twice = sum(1 for times in ledger.handled.values() if times > 1)
    share = fairness(sent.sizes, [carrier for _, carrier in in_order(ledger)])
    checks = [
        _complete(sent, ledger),
        _acked(sent, ledger),
        _results(sent, ledger),
        _counts(sent, stats),
        *(_killed(killing, redelivered, twice) if killing else _not_killed(redelivered)),
        _fair(services, share, batch_rows),
    ]
    return Verdict(tuple(checks), services, share, twice, len(redelivered))


def _complete(sent: DemoSent, ledger: DemoLedger) -> VerdictCheck:
    missing = sent.total - len(ledger.handled)
    if missing:
        return _no(f"{missing:,} of {sent.total:,} flights were never handled")
    return _yes(f"nothing lost: all {sent.total:,} flights were handled")


def _acked(sent: DemoSent, ledger: DemoLedger) -> VerdictCheck:
    never = sent.total - len(ledger.acked)
    twice = sum(1 for times in ledger.acked.values() if times > 1)
    if never or twice:
        return _no(f"not each acked once: {never:,} never, {twice:,} more than once")
    return _yes(f"each was acked once ({sent.total:,} acks accepted)")


def _results(sent: DemoSent, ledger: DemoLedger) -> VerdictCheck:
    late: Counter[str] = Counter()
    for row, (_, minutes) in ledger.results.items():
        late[ledger.carrier_of(row)] += minutes or 0
    wrong = [name for name in sent.sizes if late[name] != sent.late[name]]
    if wrong:
        return _no(f"the results do not add up to the file's for {', '.join(wrong)}")
    return _yes(f"the results add up to what the file says for all {len(sent.sizes)} carriers")


def _counts(sent: DemoSent, stats: QueueStats) -> VerdictCheck:
    left = stats.scheduled + stats.ready + stats.leased
    text = (
        f"{stats.sent:,} sent = {stats.done:,} done + {stats.dead:,} dead + "
        f"{stats.cancelled:,} cancelled + {left:,} unfinished"
    )
    good = stats.sent == stats.done == sent.total
    return VerdictCheck(
        good=good, text=f"the queue's own counts {'agree' if good else 'disagree'}: {text}"
    )


def _killed(killing: Killing, redelivered: set[int], twice: int) -> Iterable[VerdictCheck]:
    held = len(killing.rows)
    again = len(killing.rows & redelivered)
    yield VerdictCheck(
        good=again == held,
        text=f"the killed worker held {held:,} leases: {again:,} of them were handed out again; "
        f"{twice:,} flights had been handled before the kill, so twice in all (at least once)",
    )
    yield VerdictCheck(
        good=killing.refused == held,
        text=f"fenced: its {held:,} receipts were used late, {killing.refused:,} were refused",
    )
    other = len(redelivered - killing.rows)
    if other:
        yield _yes(f"{other:,} more were handed out again, as their leases ran out")


def _not_killed(redelivered: set[int]) -> Iterable[VerdictCheck]:
    if redelivered:
        yield _yes(f"{len(redelivered):,} flights were handed out twice: leases ran out")
    else:
        yield _yes("no flight was handed out twice")


def _fair(services: Sequence[Service], share: float | None, batch_rows: int) -> VerdictCheck:
    slack = 2 * batch_rows
    starved = [s for s in services if s.last_place > PLACES_FACTOR * s.fair_place + slack]
    if starved:
        names = ", ".join(service.carrier for service in starved)
        return _no(f"unfair: {names} waited for other carriers' flights")
    if share is not None and share < SHARE_LEAST:
        return _no(f"unfair: a carrier got {share:.0%} of its fair share while carriers competed")
    if not services:
        return _no("nothing was handed out")
    big, small = services[0], services[-1]
    least = (
        ""
        if share is None
        else f"; each got at least {share:.0%} of its fair share while they competed"
    )
    return _yes(
        f"fair: {small.carrier} ({small.flights:,} flights, sent last) was through after "
        f"{small.last_seconds:.2f} s, {big.carrier} ({big.flights:,}, sent first) after "
        f"{big.last_seconds:.2f} s{least}"
    )


def in_order(ledger: DemoLedger) -> list[tuple[int, str]]:
    """Time and carrier of first deliveries, in the order of the store's clock."""
    return sorted(ledger.first, key=lambda delivery: delivery[0])


def _services(sent: DemoSent, ledger: DemoLedger, started_at: int) -> Iterable[Service]:
    """By size, the biggest first."""
    first: dict[str, int] = {}
    last: dict[str, tuple[int, int]] = {}
    for place, (at, carrier) in enumerate(in_order(ledger), 1):
        first.setdefault(carrier, at)
        last[carrier] = at, place
    for carrier, size in sorted(sent.sizes.items(), key=lambda item: (-item[1], item[0])):
        if carrier in first:
            at, place = last[carrier]
            yield Service(
                carrier,
                size,
                (first[carrier] - started_at) / 1000,
                (at - started_at) / 1000,
                place,
                sum(min(other, size) for other in sent.sizes.values()),
            )


def fairness(sizes: Mapping[str, int], order: Sequence[str], block: int = BLOCK) -> float | None:
    """The least that a carrier got of its fair share, over blocks of deliveries; 1 at best.

    In each block those carriers count that still have flights waiting at its end: they competed
    all the time, so their fair shares are equal. None if there was never more than one.
    """
    left = Counter(sizes)
    got: Counter[str] = Counter()
    fair: dict[str, float] = {}
    for start in range(0, len(order) - block + 1, block):
        served = Counter(itertools.islice(order, start, start + block))
        left.subtract(served)
        competing = [carrier for carrier, rest in left.items() if rest > 0]
        if len(competing) < 2:
            continue
        share = sum(served[carrier] for carrier in competing) / len(competing)
        for carrier in competing:
            got[carrier] += served[carrier]
            fair[carrier] = fair.get(carrier, 0.0) + share
    return min((got[carrier] / share for carrier, share in fair.items() if share), default=None)
