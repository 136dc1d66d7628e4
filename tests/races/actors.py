"""The processes of a hammer: producers and workers, killed at will, each writing down what it does.

    python -m tests.races.actors '{"role": "worker", …}'

Before a call one line says what is tried (`inv`), after it one line says what came of it: `ok`;
`info` where nobody can know; `no` where it was rolled back. One line is one write to a file opened
for appending, so a kill tears at most the last line. Times are CLOCK_MONOTONIC, which all processes
of a host share.
"""

import asyncio
import contextlib
import json
import os
import random
import signal
import sqlite3
import sys
import time
import zlib
from collections.abc import Callable, Iterator, Sequence
from types import FrameType
from typing import Any

import psycopg

import turnabout
import turnabout.aio
from turnabout import StorageFull, Unavailable, Uncertain

LEASE_SECONDS = 0.8
FIFO, FREE, PLAIN = "fifo", "free", "plain"
"""Three queues: an order; limits and tricks; and as a queue comes, for many at a time."""
LIMITS = {"one": 1, "three": 3}
"""Channels of the queue `free` with that max_concurrency; `slow` there has a rate."""


class RolledBack(Exception):
    """The caller's own transaction was given up: nothing of it may have happened."""


class Actor:
    """One process: its connection, its dice, and its part of the history.

    Its face is `library`, `asyncio`, `http` (by one of the servers) or `within`: as `library`, but
    sends and acks are in transactions of its own, with a row in the table `effect`.
    """

    pardons: tuple[type[Exception], ...] = (
        *(Unavailable, Uncertain, StorageFull),
        *(psycopg.OperationalError, psycopg.InterfaceError, sqlite3.OperationalError),
    )

    def __init__(self, plan: dict[str, Any]) -> None:
        self.plan = plan
        self.dice = random.Random(plan["seed"])
        self.log = os.open(plan["log"], os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
        self.calls = 0
        self.stopped = False
        self.done: dict[str, list[Any]] = {}
        signal.signal(signal.SIGTERM, self._stop)
        self.face = plan.get("face", "library")
        if plan.get("functions"):  # for bugs that are planted in them
            from turnabout.postgres.everyday import Shortcuts

            Shortcuts.everyday = lambda *_, **__: ()  # type: ignore[method-assign]
        self.own: Any = None
        self.mq = self._connected()

    def _connected(self) -> Any:
        if self.face == "asyncio":
            from tests.support.doors import blocking  # slow to load

            return blocking(asyncio.Runner(), turnabout.aio.connect(self.plan["url"]))
        place = self.dice.choice(self.plan["doors"]) if self.face == "http" else self.plan["url"]
        while True:
            try:
                return turnabout.connect(place)
            except self.pardons:
                time.sleep(0.05)

    @contextlib.contextmanager
    def transaction(self, queue: Any, values: Sequence[str], what: str) -> Iterator[Any]:
        """One of ours with a row for each value; the queue in it. It is given up now and then."""
        url = self.plan.get("own", self.plan["url"])
        is_file = url.startswith("sqlite")
        if self.own is None:
            self.own = (
                sqlite3.connect(url.removeprefix("sqlite:///"), timeout=10, isolation_level=None)
                if is_file
                else psycopg.connect(url, autocommit=True)
            )
            self.own.execute("pragma wal_autocheckpoint = 0" if is_file else "select 1")
        own, holder = self.own, "?" if is_file else "%s"
        try:
            own.execute("begin immediate" if is_file else "begin")
            for value in values:
                row = f"insert into effect (value, what) values ({holder}, {holder})"
                own.execute(row, (value, what))
            yield queue.within(own)
            if self.dice.random() < 0.1:
                raise RolledBack
            own.execute("commit")
        except BaseException:
            with contextlib.suppress(Exception):
                own.execute("rollback")
            with contextlib.suppress(Exception):
                own.close()
            self.own = None
            raise

    def _stop(self, _: int, __: FrameType | None) -> None:
        self.stopped = True

    def write(self, **event: Any) -> None:
        line = json.dumps({"t": time.monotonic(), "who": self.plan["name"], **event})
        os.write(self.log, line.encode() + b"\n")

    def call(self, say: dict[str, Any], verb: Callable[[], Any], tell: Callable[[Any], Any]) -> Any:
        """Make a call and write down both ends of it; None if its answer was lost."""
        number = self.begin(say)
        try:
            answer = verb()
        except RolledBack:
            self.write(e="no", n=number, op=say["op"])
            return None
        except self.pardons as error:
            self.write(e="info", n=number, op=say["op"], error=repr(error)[:300])
            time.sleep(0.05)
            return None
        except Exception as error:
            self.write(e="crash", n=number, op=say["op"], error=repr(error)[:500])
            raise
        self.write(e="ok", n=number, op=say["op"], out=tell(answer))
        return answer

    def begin(self, say: dict[str, Any]) -> int:
        self.calls += 1
        self.write(e="inv", n=self.calls, **say)
        return self.calls


def value_of(payload: str) -> str | None:
    """The value in a payload, if it came through unharmed."""
    value, _, check = payload.partition(" ")
    return value if check == str(zlib.crc32(value.encode())) else None


class Producer(Actor):
    def run(self) -> None:
        until = self.plan["until"]
        while not self.stopped and time.monotonic() < until:
            if self.dice.random() < self.plan.get("bulk", 0):
                self.send_many()
                continue
            fifo = self.dice.random() < 0.35
            keyed = self.dice.random() < self.plan.get("keyed", 0.3)
            messages, told = [], []
            channel = f"mine-{self.plan['slot']}"
            for _ in range(self.dice.choice([1, 1, 2, 5])):
                if not fifo:
                    kinds = [f"open-{n}" for n in range(5)] + ["one", "three", "slow"]
                    channel = self.dice.choice(kinds)
                value = f"{self.plan['name']}.{self.calls}.{len(messages)}"
                delay = self.dice.choice([None, None, None, 0.3]) if not fifo else None
                messages.append(
                    turnabout.message(
                        f"{value} {zlib.crc32(value.encode())}",
                        channel=channel,
                        delay_seconds=delay,
                        priority=0 if fifo else self.dice.choice([0, 0, 5]),
                        dedup_key=value if keyed else None,
                    )
                )
                told.append([value, channel, delay or 0])
            self.send(FIFO if fifo else FREE, messages, told, keyed=keyed)
            time.sleep(self.dice.uniform(0, self.plan["pause"]))

    def send(self, name: str, messages: list[Any], told: list[Any], *, keyed: bool) -> None:
        """With keys a send is repeated: for certain if its answer was lost, and else at times."""
        queue = self.mq.queue(name)
        for turn in range(4):
            ids = self.call(
                {"op": "send", "q": name, "messages": told, "again": turn > 0},
                lambda: self.put(queue, messages),
                lambda sent: list(sent.ids),
            )
            if not keyed or (ids is not None and self.dice.random() < 0.7):
                return

    def send_many(self) -> None:
        """A hundred and more, in ten channels."""
        many = [f"{self.plan['name']}.{self.calls}.{n}" for n in range(self.dice.randint(50, 500))]
        told = [[value, f"open-{n % 10}", 0] for n, value in enumerate(many)]
        messages = [
            turnabout.message(f"{value} {zlib.crc32(value.encode())}", channel=channel)
            for value, channel, _ in told
        ]
        self.send(PLAIN, messages, told, keyed=False)

    def put(self, queue: Any, messages: list[Any]) -> Any:
        if self.face != "within":
            return queue.send_many(messages)
        values = [message.payload.decode().partition(" ")[0] for message in messages]
        with self.transaction(queue, values, "sent") as joined:
            return joined.send_many(messages)


class Worker(Actor):
    queues = (FIFO, FREE)
    lease_seconds = LEASE_SECONDS

    def run(self) -> None:
        while not self.stopped:
            name = self.dice.choice(self.queues)
            if self.plan.get("bulk") and self.dice.random() < self.plan["bulk"]:
                name = PLAIN
            sizes = [1, 100, 500] if name == PLAIN else [1, 3, 10]
            calm = self.plan["calm"]  # then the rest is drained as fast as it goes
            batch = self.take(name, sizes[-1] if calm else self.dice.choice(sizes))
            for place, message in enumerate(batch or ()):
                if place < (1 if calm and name == PLAIN else 10):
                    self.handle(name, message)
                else:  # with the next receive
                    self.done.setdefault(name, []).append(message)
            if not batch:
                time.sleep(0.01)

    def take(self, name: str, most: int) -> Any:
        """Receive, and ack in the same call what was left for it: each is an ack of its own."""
        queue, acks = self.mq.queue(name), self.done.pop(name, [])
        number = None
        if acks:
            number = self.begin({"op": "acks", "q": name, "receipts": [[*m.receipt] for m in acks]})
        batch = self.call(
            {"op": "receive", "q": name},
            lambda: self.receive(queue, most, acks),
            lambda got: [
                [value_of(m.text()), m.id, m.attempt, m.channel, m.lease_until,
                 m.delivery.lease_ms, m.sent_at, m.receipt.lease]
                for m in got
            ],
        )  # fmt: skip
        if number is not None and batch is None:
            self.write(e="info", n=number, op="acks", error="with a receive")
        elif number is not None:
            became = [type(one).__name__ for one in batch.acked]
            self.write(e="ok", n=number, op="acks", out=became)
        return batch

    def receive(self, queue: Any, most: int, acks: Any) -> Any:
        seconds = self.lease_seconds * (4 if queue.name == PLAIN else 1)
        return queue.receive(most, lease_seconds=seconds, acks=acks)

    def handle(self, name: str, message: Any) -> None:
        luck = self.dice.random()
        if message.attempt > 1 and luck < 0.4:
            time.sleep(0.3 * LEASE_SECONDS)  # so that a stale receipt meets a live lease
        if luck < 0.02 and not self.plan["calm"]:
            return  # forgotten: the lease runs out
        if luck < 0.05 and not self.plan["calm"]:
            time.sleep(1.3 * LEASE_SECONDS)  # outlived, and then acked all the same
        if 0.05 < luck < 0.08:
            self.settle(name, "extend", message, lambda: message.extend(lease_seconds=1.5))
        if 0.08 < luck < 0.13 and not self.plan["calm"]:
            self.settle(name, "fail", message, lambda: message.fail("no luck", delay_seconds=0.05))
        elif 0.13 < luck < 0.17:
            self.settle(name, "defer", message, lambda: message.defer(delay_seconds=0.02))
        elif 0.17 < luck < 0.20:
            self.settle(name, "release", message, message.release)
        else:
            self.ack(name, message, message.ack)

    def ack(self, name: str, message: Any, verb: Callable[[], Any]) -> None:
        """At once, or with the next receive; or with a row of ours."""
        if self.face == "within":
            self.settle(name, "ack", message, lambda: self.commit(name, message))
        elif self.dice.random() < 0.5:
            self.done.setdefault(name, []).append(message)
        else:
            self.settle(name, "ack", message, verb)

    def commit(self, name: str, message: Any) -> Any:
        value = value_of(message.text()) or ""
        with self.transaction(self.mq.queue(name), [value], "done") as joined:
            (outcome,) = joined.ack([message.receipt])
            if not isinstance(outcome, turnabout.Acked):
                raise RolledBack
            return outcome

    def settle(self, name: str, op: str, message: Any, verb: Callable[[], Any]) -> None:
        say = {"op": op, "q": name, **message.receipt._asdict()}
        self.call(say, verb, lambda outcome: type(outcome).__name__)


def main(producer: type[Actor], worker: type[Actor]) -> None:
    plan = json.loads(sys.argv[1])
    actor = {"producer": producer, "worker": worker}[plan["role"]](plan)
    actor.run()
    actor.mq.close()


if __name__ == "__main__":
    main(Producer, Worker)
