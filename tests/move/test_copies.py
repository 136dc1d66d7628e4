"""A file and its copy, of which one is moved: whatever is asked of both, they answer the same.

Random contents, made by the store's own verbs. Messages are known by their payloads, each of which
is sent once: ids that are given out after the move differ.
"""

import os
import random
import sqlite3
import time
from contextlib import closing
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

import turnabout
from tests.move.endpoints import fresh_endpoints, one_version
from tests.support.doors import Clock
from tests.support.postgres import Server
from tests.support.seeds import EVERYTHING
from turnabout import Deferral, Failure, Policy, Rate, Receipt, message, pacing
from turnabout.move import move
from turnabout.words import verbs as v
from turnabout.words.policy import DEDUP_MODES
from turnabout.words.prepare import result

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]
SEED = int(os.environ.get("TURNABOUT_MOVE_SEED", str(time.time_ns() % 1_000_000)))
PAIRS = int(os.environ.get("TURNABOUT_MOVE_PAIRS", "4" if EVERYTHING else "2"))
QUEUES = {
    "free": {"max_attempts": 2, "dedup_window_seconds": 20.0},
    "order": {"fifo": True, "max_attempts": 2, "on_exhausted": "block"},
    "tight": {"max_attempts": 2, "policy": Policy(max_concurrency=1, max_size=6)},
    "slow": {"policy": Policy(rate=Rate(1, per_seconds=3, burst=2)), "ttl_seconds": 3600.0},
}
POLICIES = (
    Policy(),
    Policy(max_concurrency=1),
    Policy(rate=Rate(1, per_seconds=5)),
    Policy(paused=True, pause_reason="a person"),
    Policy(max_size=3),
)


class Pair:
    """One store, later two, to which the same things happen."""

    def __init__(self, dice: random.Random, clock: Clock, first: Any) -> None:
        self.dice, self.clock = dice, clock
        self.sides = [first]
        self.sent = 0
        self.ids: list[tuple[str, list[int]]] = []
        self.receipts: list[tuple[str, list[Receipt]]] = []
        self.seen: set[str] = set()
        for name, settings in QUEUES.items():
            first.queue(name).create(backoff_jitter=0.0, history_payload=True, **settings)

    def add(self, second: Any) -> None:
        """From now on there are two, with the same ids and receipts so far."""
        self.sides.append(second)
        self.ids = [(name, ids * 2) for name, ids in self.ids]
        self.receipts = [(name, receipts * 2) for name, receipts in self.receipts]

    def both(self, verb: Any) -> list[Any]:
        """The answers of each side to the verb that `verb(side)` makes."""
        return [mq.store.run(verb(side)) for side, mq in enumerate(self.sides)]

    def agree(self, what: str, answers: list[Any]) -> None:
        for answer in answers[1:]:
            assert answer == answers[0], f"{what}:\n{_apart(answers[0], answer)}"
        self.seen.add(f"{what} {type(answers[0]).__name__}")

    def step(self) -> None:
        steps = (
            *(self.send,) * 4,
            *(self.receive,) * 3,
            *(self.settle,) * 5,
            *(self.tick,) * 2,
            *(self.policy, self.dispose, self.redrive, self.clear, self.pause),
        )
        self.dice.choice(steps)()
        self.compare()

    # --- what happens ---

    def send(self) -> None:
        name, dice = self.queue(), self.dice
        messages: list[Any] = []
        for _ in range(dice.choice((1, 1, 3))):
            self.sent += 1
            key: dict[str, Any] = {}
            if dice.random() < 0.6:
                key = {"dedup_key": dice.choice("kl"), "dedup_mode": dice.choice(DEDUP_MODES)}
                key["dedup_scope"] = dice.choice(("queue", "channel"))
            messages.append(
                message(
                    f"m{self.sent}",
                    channel=dice.choice("abü"),
                    priority=dice.choice((0, 0, 1)),
                    delay_seconds=dice.choice((None, None, 2)),
                    ttl_seconds=dice.choice((None, 1800)),  # when one expires is up to the store
                    headers={"n": str(self.sent)},
                    **key,
                )
            )
        answers = self.both(lambda _: v.Send(name, tuple(messages)))
        if not isinstance(answers[0], turnabout.Sent):
            self.agree("send", [type(answer) for answer in answers])  # (they count up to the limit)
            return
        places = [(a.duplicates, a.replaced) for a in answers]
        self.agree("send", places)
        self.seen.add(f"suppressed {bool(answers[0].duplicates)}")
        self.ids += [(name, list(ids)) for ids in zip(*(a.ids for a in answers), strict=True)]

    def receive(self) -> None:
        name, lease_ms = self.queue(dead=True), self.dice.choice((2_000, 9_000))
        answers = self.both(lambda _: v.Receive(name, 1000, lease_ms))
        batches = [sorted(a.deliveries, key=lambda d: d.payload) for a in answers]
        self.agree("receive", [[_plain(d) for d in batch] for batch in batches])
        for same in zip(*batches, strict=True):
            self.receipts.append((name, [d.receipt for d in same]))

    def settle(self) -> None:
        if not self.receipts:
            return
        recent = self.receipts[-12:]
        name, receipts = self.dice.choice(recent)
        ways: dict[str, Any] = {
            "ack": lambda r: v.Ack(name, (r,), (result({"n": 1}),)),
            "fail": lambda r: v.Fail(name, (Failure(r, "no luck", delay_ms=1_000),)),
            "refuse": lambda r: v.Fail(name, (Failure(r, "never", retry=False),)),
            "defer": lambda r: v.Defer(name, (Deferral(r, 3_000, b"s"),)),
            "release": lambda r: v.Release(name, (r,)),
            "extend": lambda r: v.Extend(name, (r,), 6_000),
        }
        way = self.dice.choice(list(ways))
        self.agree(way, [_loose(a) for a in self.both(lambda side: ways[way](receipts[side]))])

    def dispose(self) -> None:
        if not self.ids:
            return
        name, ids = self.dice.choice(self.ids[-12:])
        verb = self.dice.choice((v.Cancel, v.Retry))
        self.agree(verb.name, self.both(lambda side: verb(name, (ids[side],))))

    def policy(self) -> None:
        name, channel, policy = self.queue(), self.dice.choice("abü"), self.dice.choice(POLICIES)
        self.agree("policy", [
            mq.queue(name).channel(channel).set_policy(policy) for mq in self.sides
        ])  # fmt: skip

    def pause(self) -> None:
        name, paused = self.queue(), self.dice.random() < 0.3
        for mq in self.sides:
            mq.queue(name).update(paused=paused, pause_reason="why" if paused else None)

    def redrive(self) -> None:
        name, limited = f"{self.queue()}-dead", self.dice.choice((None, 1))
        started = self.both(lambda _: v.RedriveStart(name, None, per_second=limited))
        moved = self.both(lambda side: v.RedriveStep(started[side].id))
        self.agree("redrive", [(r.moved, r.skipped) for r in moved])

    def clear(self) -> None:
        name, which = self.queue(), self.dice.choice(("done", "failed", "all"))
        self.agree("clear", self.both(lambda _: v.Clear(name, which)))

    def tick(self) -> None:
        self.clock.advance(ms=self.dice.choice((1, 999, 1_000, 3_000, 9_000)))

    def queue(self, *, dead: bool = False) -> str:
        name = self.dice.choice(list(QUEUES))
        return f"{name}-dead" if dead and self.dice.random() < 0.15 else name

    # --- what is seen ---

    def compare(self) -> None:
        for name in (n for queue in QUEUES for n in (queue, f"{queue}-dead")):
            queues = [mq.queue(name) for mq in self.sides]
            now = self.clock()
            self.agree("peek", [[_seen(p, now) for p in q.peek(1000)] for q in queues])
            self.agree("stats", [_counts(q.stats()) for q in queues])
            self.agree("policies", [q.policies() for q in queues])
            past = [sorted(map(_plain, q.history_entries()), key=repr) for q in queues]
            self.agree("history", past)
        for name, ids in self.ids[-6:]:
            answers = self.both(lambda side, n=name, i=ids: v.Endings(n, (i[side],)))
            self.agree("endings", [a[0] and _without(a[0], "id") for a in answers])


def _apart(one: Any, other: Any) -> str:
    """Where two answers differ."""
    if isinstance(one, list) and isinstance(other, list) and len(one) == len(other):
        pairs = zip(one, other, strict=True)
        return "\n".join(_apart(a, b) for a, b in pairs if a != b)
    if isinstance(one, dict) and isinstance(other, dict):
        return (
            f"{one}: {[(name, one[name], other[name]) for name in one if one[name] != other[name]]}"
        )
    return f"{one}\n{other}"


def _plain(thing: Any) -> dict[str, Any]:
    """All but the id, which is another one if it was given out after the move, and the number of
    the lease, which a file has not.
    """
    if hasattr(thing, "_asdict"):  # a delivery; each store writes an origin in an order of its own
        fields = thing._asdict() | {"origin_json": thing.origin}
    else:
        fields = asdict(thing)
    return {name: value for name, value in fields.items() if name not in ("id", "lease")}


def _seen(peeked: Any, now: int) -> dict[str, Any]:
    """Of a message that is due, ready and scheduled are both true."""
    fields = _plain(peeked)
    if fields["state"] == "ready" or (fields["state"] == "scheduled" and fields["due_at"] <= now):
        fields |= {"state": "ready", "due_at": None}
    return fields


def _counts(stats: Any) -> dict[str, Any]:
    fields = _without(stats, "oldest_ready_ms")
    return fields | {"ready": fields["ready"] + fields.pop("scheduled")}


def _without(thing: Any, name: str) -> dict[str, Any]:
    return {n: value for n, value in asdict(thing).items() if n != name}


def _loose(answer: Any) -> Any:
    """Of a message that is due, ready and scheduled are both true."""
    (outcome,) = answer
    if isinstance(outcome, turnabout.LeaseLost) and outcome.now == "scheduled":
        return (turnabout.LeaseLost("ready"),)
    return answer


@one_version
@pytest.mark.parametrize("number", range(PAIRS))
def test_what_moved_answers_as_what_stayed(
    postgres_server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    monkeypatch.setattr(pacing, "MAINTAIN_SECONDS", float("inf"))
    seed = SEED + number
    print(f"TURNABOUT_MOVE_SEED={seed}")  # noqa: T201 (shown if it fails)
    dice, clock = random.Random(seed), Clock()
    with fresh_endpoints(postgres_server, tmp_path) as endpoints:
        with turnabout.connect(endpoints.source, clock=clock) as mq:
            pair = Pair(dice, clock, mq)
            for _ in range(60):
                pair.step()
        copied = f"{tmp_path}/copy.db"
        with (
            closing(sqlite3.connect(endpoints.path)) as file,
            closing(sqlite3.connect(copied)) as copy,
        ):
            file.backup(copy)
        move(endpoints.source, endpoints.target)
        with (
            turnabout.connect(f"sqlite:///{copied}", clock=clock) as stayed,
            turnabout.connect(endpoints.target, clock=clock) as moved,
        ):
            pair.sides = [stayed]
            pair.add(moved)
            pair.compare()
            for _ in range(60):
                pair.step()
    assert len(pair.seen) > 15
