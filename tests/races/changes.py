"""Queues that are changed while they are at work: who does that, and whether it was kept to.

The operator is a thread of the test, and is not killed: it writes down what it sets, as the others
do what they do. A value is *certain* from the end of the call that set it to the begin of the next
one. What is asked for and answered while a limit is certain has to keep to it, and counts each
lease that was answered before and held until after it, also those decided under older settings.
"""

import random
import time
import zlib
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from typing import Any

import psycopg

import turnabout
from tests.races.actors import Actor, Producer, Worker
from tests.races.checker import History, Lease, Report, check, overlaps
from turnabout import Policy, QueueNotFound, Unavailable, Uncertain

BUSY, GONE, PLAIN = "busy", "gone", "plain"
"""The last one is left as it is, without history: everyday statements do all its work."""
CHANNELS = ["c0", "c1", "c2"]
LEASE_SECONDS = 0.4


def overtaken(actor: Actor, queue: Any, verb: Callable[[Any], Any]) -> Any:
    """At times in a transaction that stays open for a moment, so that changes overtake it."""
    if actor.dice.random() < 0.7 or not actor.plan["url"].startswith("postgresql"):
        return verb(queue)
    try:
        with psycopg.connect(actor.plan["url"]) as connection:
            answer = verb(queue.within(connection))
            time.sleep(actor.dice.uniform(0, 0.05))
    except psycopg.OperationalError as error:
        raise Uncertain(str(error)) from error
    return answer


class ProducerHere(Producer):
    pardons = (*Producer.pardons, QueueNotFound)

    def run(self) -> None:
        while not self.stopped and time.monotonic() < self.plan["until"]:
            messages, told = [], []
            for _ in range(self.dice.choice([1, 1, 2, 25])):
                value = f"{self.plan['name']}.{self.calls}.{len(messages)}"
                channel = self.dice.choice(CHANNELS)
                text = f"{value} {zlib.crc32(value.encode())}"
                messages.append(turnabout.message(text, channel=channel))
                told.append([value, channel, 0])
            self.send(self.dice.choice([BUSY, BUSY, GONE, PLAIN]), messages, told, keyed=False)
            time.sleep(self.dice.uniform(0, 2 * self.plan["pause"]))

    def put(self, queue: Any, messages: list[Any]) -> Any:
        return overtaken(self, queue, lambda here: here.send_many(messages))


class WorkerHere(Worker):
    queues = (BUSY, BUSY, GONE, PLAIN, PLAIN)
    pardons = (*Worker.pardons, QueueNotFound)
    lease_seconds = LEASE_SECONDS

    def receive(self, queue: Any, most: int, acks: Any) -> Any:
        receive = partial(super().receive, most=1 if queue.name == PLAIN else most, acks=acks)
        return overtaken(self, queue, receive)

    def handle(self, name: str, message: Any) -> None:
        luck = 1.0 if self.plan["calm"] else self.dice.random()
        often = 5 if name == PLAIN else 1
        if message.attempt > 1 and luck < 0.8:
            time.sleep(0.5 * LEASE_SECONDS)  # so that a stale receipt meets a live lease
        elif luck < 0.03 * often:
            time.sleep(1.2 * LEASE_SECONDS)  # outlived, and acked all the same
        elif luck < 0.3:
            time.sleep(self.dice.uniform(0, 0.02))
        ack = self.mq.queue(name).ack
        self.ack(name, message, lambda: ack([message.receipt])[0])


class Operator(Actor):
    """Changes what there is to change, in any order."""

    def __init__(self, plan: dict[str, Any]) -> None:
        self.plan, self.calls, self.stopped = plan, 0, False
        self.dice = random.Random(plan["seed"])
        self.log = plan["open_log"]
        self.mq = turnabout.connect(plan["url"])

    def run(self) -> None:
        busy = self.mq.queue(BUSY)
        acts: dict[str, tuple[list[Any], Callable[[Any], Any]]] = {
            "default": (
                [None, None, 3],
                lambda most: busy.update(policy=Policy(max_concurrency=most)),
            ),
            "queue": ([None, 4, 9], lambda most: busy.update(queue_max_concurrency=most)),
            "events": (["off", "all"], lambda value: busy.update(events=value)),
            "history": ([0, 3600, 3600], lambda seconds: self._keep(busy, seconds)),
        }
        for name in CHANNELS:
            limit = busy.channel(name).set_policy
            acts[name] = (
                [None, 1, 2, 5],
                lambda most, limit=limit: limit(Policy(max_concurrency=most)),
            )
        while not self.stopped:
            what = self.dice.choice([*acts, "history", "paused", "deleted"])
            if what == "paused":
                self.set(what, True, busy.pause)
                time.sleep(self.dice.uniform(0, 0.05))
                self.set(what, False, busy.resume)
            elif what == "deleted":
                self.set(what, True, self._delete)
            else:
                values, act = acts[what]
                value = self.dice.choice(values)
                self.set(what, value, partial(act, value))
            time.sleep(self.dice.uniform(0, 0.04))

    def end(self) -> None:
        """From now on nothing is certain."""
        self.stopped = True
        for what in (*CHANNELS, "default", "queue", "history", "events", "paused"):
            self.calls += 1
            self.write(e="set", n=self.calls, what=what, end=False)

    def set(self, what: str, value: Any, verb: Callable[[], Any]) -> None:
        """Until it is done for certain: what a crash has left open is set again."""
        self.calls += 1
        self.write(e="set", n=self.calls, what=what, value=value, end=False)
        while True:
            try:
                kept = verb()
                break
            except (Unavailable, Uncertain):
                time.sleep(0.02)
        more = {"kept": kept} if isinstance(kept, list) else {}
        self.write(e="set", n=self.calls, what=what, value=value, end=True, **more)

    def _keep(self, queue: Any, seconds: int) -> list[int]:
        """What is in the history goes when that is switched off, so it is read before."""
        kept = kept_of(queue)
        queue.update(history_seconds=seconds)
        return kept

    def _delete(self) -> None:
        with suppress(QueueNotFound):
            self.mq.queue(GONE).delete()


def kept_of(queue: Any) -> list[int]:
    return [entry.id for entry in queue.history_entries(outcome="done")]


# --- the judge -----------------------------------------------------------------------------------


class Settings:
    """What was set, and from when to when that is certain."""

    def __init__(self, events: list[dict[str, Any]]) -> None:
        begins: dict[int, dict[str, Any]] = {}
        self.spans: dict[str, list[tuple[float, float, Any]]] = defaultdict(
            lambda: [(0.0, 0.0, None)]
        )
        self.kept: set[int] = set()
        for event in events:
            if not event["end"]:
                begins[event["n"]] = event
            else:
                began = begins.pop(event["n"])["t"]
                self.spans[event["what"]].append((began, event["t"], event["value"]))
                self.kept |= set(event.get("kept", ()))
        for event in begins.values():
            self.spans[event["what"]].append((event["t"], float("inf"), "?"))

    def certain(self, what: str, began: float, ended: float) -> Any:
        """The value all that time; "?": it is not certain."""
        spans = self.spans[what]
        index = bisect_left(spans, (ended,)) - 1
        at, done, value = spans[max(index, 0)]
        return value if done <= began and at <= began else "?"

    def most(self, channel: str, began: float, ended: float) -> Any:
        """The limit of a channel: its own, or the default."""
        own = self.certain(channel, began, ended)
        return self.certain("default", began, ended) if own is None else own


def judge(
    events: list[dict[str, Any]], left: dict[str, list[Any]], kept: set[int], told: set[int]
) -> Report:
    """`kept` and `told`: messages that history and events know as done, in the end."""
    settings = Settings([e for e in events if e["e"] == "set"])
    others = [e for e in events if e["e"] != "set"]
    report = check(others, left, {}, limits={}, rates={})
    history = History(others, Report())
    excused = set(_gone_with_their_queue(history, settings))
    report.violations = [line for line in report.violations if line not in excused]
    _limits_were_kept(history, settings, report)
    _acks_were_kept(history, settings, report, kept | settings.kept, told)
    report.numbers["changes"] = sum(map(len, settings.spans.values()))
    return report


def _gone_with_their_queue(history: History, settings: Settings) -> Iterator[str]:
    """What the checker may say of messages whose queue was deleted after they were sent, or of
    leases there: their messages go to the next queue of that name, and are leased anew.
    """
    _, last, _ = settings.spans["deleted"][-1]
    leases = [lease for lease in history.leases if lease.queue == GONE]
    for number in {lease.id for lease in leases if lease.asked < last}:
        for before, after in overlaps([lease for lease in leases if lease.id == number]):
            if settings.certain("deleted", before.asked - 1, after.got) == "?":
                yield f"P5: two live leases: {before} and {after}"
    for call in history.sends:
        if call.queue == GONE and call.began < last:
            for number in call.out or ():
                yield f"P1: message {number} was accepted and is lost"
            values = [value for value, _, _ in call.said["messages"]]
            yield f"P3: a send of many happened in part: {values}"


def _limits_were_kept(history: History, settings: Settings, report: Report) -> None:
    leases = [lease for lease in history.leases if lease.queue == BUSY]
    calls: dict[tuple[float, float], list[Lease]] = defaultdict(list)
    for lease in leases:
        calls[lease.asked, lease.got].append(lease)
    ends = [lease.got for lease in leases]
    for (asked, got), batch in calls.items():
        if settings.certain("paused", asked, got) is True:
            report.wrong("P12", f"handed out while paused: {batch[0]}")
        first = bisect_left(ends, got - LEASE_SECONDS - 1)
        held = [x for x in leases[first : bisect_left(ends, asked)] if x.until > got]
        for what in ("queue", *{lease.channel for lease in batch}):
            limit = settings.certain if what == "queue" else settings.most
            most = limit(what, asked, got)
            if most is None or most == "?":
                continue
            out = sum(what in ("queue", lease.channel) for lease in (*held, *batch))
            report.numbers["limit met"] += out == most
            if out > most:
                report.wrong("P10", f"{out} leases in {what!r}, at most {most}: {batch}, {held}")


def _acks_were_kept(
    history: History, settings: Settings, report: Report, kept: set[int], told: set[int]
) -> None:
    for call in history.settles:
        if call.queue != BUSY or call.out != "Acked" or call.ended is None:
            continue
        number = call.said["id"]
        for what, value, found in (("history", 3600, kept), ("events", "all", told)):
            if settings.certain(what, call.began, call.ended) == value:
                report.numbers[f"kept in {what}"] += 1
                if number not in found:
                    report.wrong("history", f"acked, and not in {what}: {call}")


if __name__ == "__main__":
    from tests.races.actors import main

    main(ProducerHere, WorkerHere)
