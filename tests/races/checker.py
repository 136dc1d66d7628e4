"""Was a history right? The promises, checked over what producers and workers wrote down.

Three rules keep it honest. *Unknown* is a third outcome: a send without an answer may have
happened, and so may an ack. Order is by real time, never by id. And a promise that was hardly
put to the test is not kept: too few opportunities make the verdict `unknown`, which is red.

A lease is *certainly* held from the end of the call that received it until the begin of the call
that settled it, or until the lease's length after the begin of the call that received it (less the
millisecond by which clocks are rounded down), or until the server was killed: that voids leases,
and the same attempt may be leased again, under another number. An event `void` tells when a kill
began, and when the old server was surely gone.
"""

from collections import Counter, defaultdict
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from tests.races.actors import FIFO, value_of
from turnabout import Rate

SLOWEST_CALL_SECONDS = 20.0
RECEIPT = ("id", "attempt", "lease")
ROLLED_BACK = "RolledBack"
"""What comes out of a call in a transaction of the caller's that was given up."""
MET = {"channel": "", "queue": "queue's "}


@dataclass
class Lease:
    """One delivery, as its receiver saw it."""

    value: str | None
    id: int
    attempt: int
    queue: str
    channel: str
    asked: float
    got: float
    granted_ms: int
    lease_ms: int
    sent_ms: int
    lease: int
    until: float = 0.0


@dataclass
class Call:
    """A call that settles a lease, or a send: when it began and ended, and what came of it."""

    op: str
    queue: str
    began: float
    ended: float | None
    out: Any
    said: dict[str, Any]


@dataclass
class Report:
    violations: list[str] = field(default_factory=list)
    numbers: Counter[str] = field(default_factory=Counter)
    missing: list[str] = field(default_factory=list)

    @property
    def verdict(self) -> Literal["valid", "invalid", "unknown"]:
        if self.violations:
            return "invalid"
        return "unknown" if self.missing else "valid"

    def wrong(self, promise: str, what: str) -> None:
        self.violations.append(f"{promise}: {what}")

    def __str__(self) -> str:
        lines = [f"verdict {self.verdict}", f"{dict(self.numbers)}", *self.missing]
        return "\n".join([*lines, *self.violations[:30]])


class History:
    """The events, paired: sends, leases and settlings."""

    def __init__(self, events: list[dict[str, Any]], report: Report) -> None:
        began: dict[tuple[str, int], dict[str, Any]] = {}
        ended: dict[tuple[str, int], dict[str, Any]] = {}
        voids = [(event["t"], event["gone"]) for event in events if event["e"] == "void"]
        for event in events:
            if event["e"] == "void":
                continue
            key = (event["who"], event["n"])
            (began if event["e"] == "inv" else ended)[key] = event
            if event["e"] == "crash":
                report.wrong("P17", f"a call crashed: {event}")
            report.numbers["unknown"] += event["e"] == "info"
        self.sends: list[Call] = []
        self.settles: list[Call] = []
        self.leases: list[Lease] = []
        for key, inv in began.items():
            call = _paired(inv, ended.get(key))
            if call.ended and call.ended - call.began > SLOWEST_CALL_SECONDS:
                report.wrong("P13", f"a call took {call.ended - call.began:.1f} s: {inv}")
            if call.op == "send":
                self.sends.append(call)
            elif call.op != "receive":
                self.settles += _each(call)
            else:
                self.leases += [
                    Lease(v, i, a, call.queue, c, call.began, call.ended or 0, u - ms, ms, s, n)
                    for v, i, a, c, u, ms, s, n in call.out or ()
                ]
        self.settled: dict[tuple[int, int, int], list[Call]] = defaultdict(list)
        for call in sorted(self.settles, key=lambda c: c.began):
            self.settled[_receipt(call.said)].append(call)
        for lease in self.leases:
            settled = self.settled[lease.id, lease.attempt, lease.lease]
            ends = [c.began for c in settled if c.op != "extend"][:1]
            ends += [began for began, gone in voids if lease.asked < gone][:1]
            lease.until = min([lease.asked + (lease.lease_ms - 1) / 1000, *ends])
        self.leases.sort(key=lambda lease: lease.got)


def _paired(inv: dict[str, Any], end: dict[str, Any] | None) -> Call:
    """How a call began, and how it ended, if that is known."""
    end = end or {"e": "info", "t": None}
    out = {"ok": end.get("out"), "no": ROLLED_BACK}.get(end["e"])
    return Call(inv["op"], inv["q"], inv["t"], end["t"], out, inv)


def _each(call: Call) -> list[Call]:
    """An ack of many is an ack of each."""
    if call.op != "acks":
        return [call]
    receipts = [dict(zip(RECEIPT, receipt, strict=True)) for receipt in call.said["receipts"]]
    outs = [None] * len(receipts) if call.out is None else call.out
    return [
        replace(call, op="ack", out=out, said=said)
        for out, said in zip(outs, receipts, strict=True)
    ]


def _receipt(said: dict[str, Any]) -> tuple[int, int, int]:
    return said["id"], said["attempt"], said["lease"]


def _values(send: Call) -> list[str]:
    return [value for value, _, _ in send.said["messages"]]


def _ids(send: Call) -> list[int]:
    """Of a send that was answered."""
    return [] if send.out in (None, ROLLED_BACK) else send.out


def check(
    events: list[dict[str, Any]],
    left: dict[str, list[Any]],
    stats: dict[str, Any],
    *,
    limits: dict[str, int],
    rates: dict[str, Rate],
    queue_limits: dict[str, int] | None = None,
    queue_rates: dict[str, Rate] | None = None,
    effects: list[tuple[str, str]] | None = None,
    drained: bool = True,
    clock_is_set: bool = False,
    at_least: dict[str, int] | None = None,
) -> Report:
    """Check a history against what is left, and the rows that were to be committed with sends and
    acks. `at_least` names the opportunities there must be. Where the clock is set during the run,
    delays and rates can't be judged by it.
    """
    report = Report()
    history = History(events, report)
    _delivered_as_sent(history, left, report, drained=drained)
    _committed_together(history, left, effects or [], report, drained=drained)
    _ended_once(history, left, report)
    _one_lease_each(history, report)
    _fenced(history, report)
    if not clock_is_set:
        _never_early(history, report)
    _fifo(history, report)
    for what, slots, buckets in (
        ("channel", limits, rates),
        ("queue", queue_limits or {}, queue_rates or {}),
    ):
        _slots(history, what, slots, report)
        if not clock_is_set:
            _rates(history, what, buckets, report)
    _adds_up(history, stats, report)
    if not drained:
        report.missing.append("not drained: what is undelivered may be lost, or not")
    for what, least in (at_least or {}).items():
        if report.numbers[what] < least:
            report.missing.append(f"only {report.numbers[what]} × {what}, wanted {least}")
    return report


def _delivered_as_sent(
    history: History, left: dict[str, list[Any]], report: Report, *, drained: bool
) -> None:
    """P2, P3, P4. What came out went in, unharmed and once, however often a send was repeated with
    its key; sends of many happened wholly or not at all.
    """
    sent: dict[str | None, tuple[str, str]] = {}
    for call in history.sends:
        sent |= {value: (call.queue, channel) for value, channel, _ in call.said["messages"]}
    seen: dict[int, str | None] = {}
    for lease in history.leases:
        if lease.value is None or sent.get(lease.value) != (lease.queue, lease.channel):
            report.wrong("P2", f"delivered what nobody sent: {lease}")
        elif seen.setdefault(lease.id, lease.value) != lease.value:
            report.wrong("P2", f"message {lease.id} was {seen[lease.id]}, is {lease.value}")
    left_ids = {p.id: value_of(p.payload.decode()) for kept in left.values() for p in kept}
    there = set(left_ids.values())
    ids: dict[str | None, set[int]] = defaultdict(set)
    for number, value in (*seen.items(), *left_ids.items()):
        ids[value].add(number)
    for value, several in ids.items():
        if len(several) > 1:
            report.wrong("P4", f"{value} was sent once, or again with its key, and is {several}")
    if strange := there - sent.keys():
        report.wrong("P2", f"there is what nobody sent: {strange}")
    if drained:  # then every message that there ever was has been seen
        known = {*seen.values(), *there}
        for call in history.sends:
            values = _values(call)
            some = len(known.intersection(values))
            if not _ids(call) and 0 < some < len(values):
                report.wrong("P3", f"a send of many happened in part: {values}")
    report.numbers["attempted"] = len(sent)
    report.numbers["repeated"] = sum(call.said.get("again", False) for call in history.sends)


def _committed_together(
    history: History,
    left: dict[str, list[Any]],
    effects: list[tuple[str, str]],
    report: Report,
    *,
    drained: bool,
) -> None:
    """P3. Rows and messages of one transaction are both there, or neither; no row is twice."""
    rows = {what: Counter(v for v, kind in effects if kind == what) for what in ("sent", "done")}
    values = {lease.id: lease.value for lease in history.leases}
    seen = {*values.values(), *(value_of(p.payload.decode()) for k in left.values() for p in k)}
    said = {call_value: set[bool]() for call in history.sends for call_value in _values(call)}
    for call in history.sends:  # one that is repeated with its keys may be rolled back once
        for value in _values(call):
            said[value].add(call.out == ROLLED_BACK)
    for value in seen.intersection(said):
        if said[value] == {True}:
            report.wrong("P3", f"{value} is there, and its transaction was rolled back")
    acked = {values.get(c.said["id"]) for c in history.settles if (c.op, c.out) == ("ack", "Acked")}
    maybe = {values.get(c.said["id"]) for c in history.settles if (c.op, c.out) == ("ack", None)}
    for value, times in rows["done"].items():
        if times > 1:
            report.wrong("P3", f"{value} was acked in {times} transactions")
        if value not in acked | maybe:
            report.wrong("P3", f"a row says that {value} was acked, and it was not")
    if drained:
        for value in rows["sent"]:
            if value not in seen:
                report.wrong("P3", f"a row was committed with {value}, and that is lost")
    report.numbers.update(rows=len(effects))


def _ended_once(history: History, left: dict[str, list[Any]], report: Report) -> None:
    """P1, P7. What was accepted ended once, or is still there; what has ended stays ended."""
    acked: Counter[int] = Counter()
    maybe, done_at = set(), {}
    for call in history.settles:
        if call.op == "ack" and call.out == "Acked":
            acked[call.said["id"]] += 1
            done_at[call.said["id"]] = call.ended
        elif call.op == "ack" and call.out is None:
            maybe.add(call.said["id"])
    dead = {p.id for name, kept in left.items() if name.endswith("-dead") for p in kept}
    waiting = {p.id for name, kept in left.items() if not name.endswith("-dead") for p in kept}
    accepted = {number for call in history.sends for number in _ids(call)}
    for number in accepted:
        ends = acked[number] + (number in dead)
        if ends > 1:
            report.wrong("P1", f"message {number} ended {ends} times")
        if ends and number in waiting:
            report.wrong("P7", f"message {number} ended, and is still there")
        if not ends and number not in maybe and number not in waiting:
            report.wrong("P1", f"message {number} was accepted and is lost")
    for lease in history.leases:
        if lease.asked > done_at.get(lease.id, float("inf")):
            report.wrong("P7", f"{lease.value} was delivered after its ack")
    report.numbers.update(
        accepted=len(accepted),
        deliveries=len(history.leases),
        redeliveries=sum(lease.attempt > 1 for lease in history.leases),
        acked=sum(acked.values()),
        dead=len(dead),
        left=len(waiting),
    )


def _one_lease_each(history: History, report: Report) -> None:
    """P5. A receipt is given once; certain leases of one message never overlap."""
    seen: set[tuple[int, int, int]] = set()
    by_message: dict[int, list[Lease]] = defaultdict(list)
    for lease in history.leases:
        key = (lease.id, lease.attempt, lease.lease)
        if key in seen:
            report.wrong("P5", f"receipt {key} was given twice")
        seen.add(key)
        by_message[lease.id].append(lease)
    for leases in by_message.values():
        for before, after in overlaps(leases):
            report.wrong("P5", f"two live leases: {before} and {after}")


def overlaps(leases: list[Lease]) -> list[tuple[Lease, Lease]]:
    found, last = [], None
    for lease in sorted(leases, key=lambda lease: lease.got):
        if lease.until <= lease.got:
            continue
        if last is not None and lease.got < last.until:
            found.append((last, lease))
        if last is None or lease.until > last.until:
            last = lease
    return found


def _fenced(history: History, report: Report) -> None:
    """P6. Once a later delivery was seen, nothing is done with an earlier receipt."""
    latest: dict[int, list[Lease]] = defaultdict(list)
    for lease in history.leases:
        latest[lease.id].append(lease)
    for call in history.settles:
        number, *receipt = _receipt(call.said)
        later = [x for x in latest[number] if [x.attempt, x.lease] > receipt and x.got < call.began]
        if later:
            live = any(x.until > call.began for x in later)
            report.numbers["stale receipts"] += 1
            report.numbers["stale receipts, another lease live"] += live
            if call.out not in (None, "LeaseLost", ROLLED_BACK):
                report.wrong("P6", f"a stale receipt was honoured: {call}")


def _never_early(history: History, report: Report) -> None:
    """P8. By the store's own clock, what was sent with a delay waited for it."""
    delays = {v: delay for call in history.sends for v, _, delay in call.said["messages"]}
    for lease in history.leases:
        wait = delays.get(lease.value or "", 0) * 1000
        report.numbers["delayed"] += bool(wait)
        # The store's time is taken when the call begins; what is sent meanwhile may still be seen.
        call_ms = 0 if wait else (lease.got - lease.asked) * 1000
        if lease.granted_ms + call_ms < lease.sent_ms + wait:
            report.wrong("P8", f"delivered {lease.granted_ms - lease.sent_ms} ms after: {lease}")


def _fifo(history: History, report: Report) -> None:
    """P9. In a FIFO queue one message of a channel at a time, in order of sending."""
    order: dict[str, int] = {}
    for place, call in enumerate(sorted(history.sends, key=lambda call: call.began)):
        if call.queue == FIFO and _ids(call):
            for index, (value, _, _) in enumerate(call.said["messages"]):
                order[value] = place * 1000 + index
    channels: dict[str, list[Lease]] = defaultdict(list)
    for lease in history.leases:
        if lease.queue == FIFO:
            channels[lease.channel].append(lease)
    for leases in channels.values():
        for before, after in overlaps(leases):
            report.wrong("P9", f"two at a time in a FIFO channel: {before} and {after}")
        # Only what is certain: a lease that had ended its call when the other's call began. The
        # store's time will not do, since it is taken when a call begins.
        known = [(x, order[x.value]) for x in leases if x.value in order]
        answered = sorted(known, key=lambda item: item[0].got)
        at, last, done = -1, "", 0
        for lease, place in sorted(known, key=lambda item: item[0].asked):
            while done < len(answered) and answered[done][0].got < lease.asked:
                if answered[done][1] > at:
                    at, last = answered[done][1], str(answered[done][0])
                done += 1
            if place < at:
                report.wrong("P9", f"{lease} came after a later one of its channel, {last}")
        handed = len(known)
        report.numbers["in order"] += handed


def _slots(history: History, what: str, limits: dict[str, int], report: Report) -> None:
    """P10. Certain leases of a channel, or of a queue, at any instant are at most so many."""
    for name, most in limits.items():
        edges = []
        for lease in history.leases:
            if getattr(lease, what) == name and lease.until > lease.got:
                edges += [(lease.got, 1, lease), (lease.until, -1, lease)]
        out = 0
        for _, step, lease in sorted(edges, key=lambda edge: edge[:2]):
            out += step
            report.numbers[f"{MET[what]}slots full"] += step > 0 and out == most
            if out > most:
                report.wrong("P10", f"{out} leases in {name!r}, at most {most}: {lease}")


def _rates(history: History, what: str, rates: dict[str, Rate], report: Report) -> None:
    """P11. By the store's own clock, no window has more deliveries than the rate allows."""
    for name, rate in rates.items():
        interval = rate.per_seconds * 1000 / rate.count
        starts = sorted(x.granted_ms for x in history.leases if getattr(x, what) == name)
        tat = 0.0
        for start in starts:
            early = tat - (rate.burst - 1) * interval - start
            if early > 1:
                report.wrong("P11", f"{name!r} gave {early:.1f} ms too early at {start}")
            report.numbers[f"{MET[what]}rate met"] += tat > start
            tat = max(tat, start) + interval


def _adds_up(history: History, stats: dict[str, Any], report: Report) -> None:
    """P15. Counts add up, and agree with what producers and workers know."""
    for name, s in stats.items():
        ended = s.done + s.dead + s.cancelled + s.expired
        if s.sent != s.scheduled + s.ready + s.leased + ended:
            report.wrong("P15", f"{name} does not add up: {s}")
        sends = [call for call in history.sends if call.queue == name]
        sure = len({number for call in sends for number in _ids(call)})
        most = len({value for call in sends for value in _values(call)})
        if sends and not sure <= s.sent <= most:
            report.wrong("P15", f"{name} counts {s.sent} sent, not {sure} to {most}")
        acks = [c for c in history.settles if c.queue == name and c.op == "ack"]
        sure = sum(call.out == "Acked" for call in acks)
        most = sure + sum(call.out is None for call in acks)
        if acks and not sure <= s.done <= most:
            report.wrong("P15", f"{name} counts {s.done} done, not {sure} to {most}")
