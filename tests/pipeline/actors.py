"""Processes that race for one queue, killed at any step: readers of a subscription, and workers.

    python -m tests.pipeline.actors '{"role": "reader", …}'

A reader does as Spark does: it notes an epoch before it reads it (the offset log) and when its
output is published (the commit log), in one file that its successors go by. A note is one write to
a file opened for appending, so a kill tears at most the last line.
"""

import json
import os
import random
import signal
import sys
import time
import uuid
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import turnabout
from tests.pipeline.steps import connection, select
from turnabout import message
from turnabout._connect import database
from turnabout.pipeline import verbs as p

SUBSCRIPTION, SINK = "race", "race-sink"
LEASE_MS = 60_000
"""Longer than a race, so that no lease is lost and all counts are exact."""


class Actor:
    """One process: it dies by its own hand at any step, until a file says: be calm."""

    def __init__(self, plan: dict[str, Any]) -> None:
        self.plan, self.dice = plan, random.Random()
        self.log = os.open(plan["log"], os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)

    def write(self, *what: Any) -> None:
        os.write(self.log, json.dumps(what).encode() + b"\n")

    def step(self) -> None:
        """Here, somebody may pull the plug."""
        if self.dice.random() < self.plan["risk"] and not Path(self.plan["calm"]).exists():
            os.kill(os.getpid(), signal.SIGKILL)

    def reader(self) -> None:
        """Read, publish and acknowledge epoch after epoch; when another reader comes, come back."""
        url = self.plan["url"]
        with closing(database(url)) as store, closing(connection(url)) as raw:
            while True:
                mine = store.run(p.SubscriptionOpen(SUBSCRIPTION, f"process {os.getpid()}"))
                while self.epoch(store, raw, mine.generation):
                    pass
                self.write("superseded", 0)
                time.sleep(self.dice.uniform(0.02, 0.1))

    def epoch(self, store: Any, raw: Any, generation: int) -> bool:
        """Whether the subscription is ours still."""
        done = [number for what, number, *_ in notes(self.plan["log"]) if what == "done"]
        after = max(done, default=0)
        self.step()
        leased = store.run(
            p.EpochLease(
                SUBSCRIPTION, generation, (self.plan["queue"],), after, 9, LEASE_MS, parts=2
            )
        )
        self.step()
        if isinstance(leased, p.Superseded):
            return False
        if leased.epoch == after:
            time.sleep(0.005)
        else:
            self.write("next", leased.epoch)
            self.step()
            self.batch(store, raw, generation, leased.epoch)
        return True

    def batch(self, store: Any, raw: Any, generation: int, epoch: int) -> None:
        plan = p.EpochPlan(SUBSCRIPTION, generation, epoch, LEASE_MS, 1_000_000, "killed")
        planned = store.run(plan)
        if not isinstance(planned, p.Planned):
            return
        rows = select(
            raw,
            "select message_id, value from epoch_rows where subscription = ? and epoch = ?"
            " order by part, place",
            *(SUBSCRIPTION, epoch),
        )
        if len(rows) < sum(part.messages for part in planned.parts):
            # Between plan and read a newer reader has been through it and acknowledged it.
            assert not isinstance(store.run(plan), p.Planned)
            return
        self.write("read", epoch, [row["message_id"] for row in rows])
        attempt = uuid.uuid4().hex
        self.step()
        staged = [message(bytes(row["value"]), headers={"epoch": str(epoch)}) for row in rows]
        store.run(p.Stage(attempt, (p.StagedMessages.of("out", staged),)))
        self.step()
        outcome = store.run(p.Publish(SINK, epoch, (attempt,), len(staged)))
        if isinstance(outcome, p.PublishedLater):
            return  # another reader is far ahead
        self.write(type(outcome).__name__, epoch, outcome.messages)
        self.step()
        self.write("done", epoch)
        self.step()

    def worker(self) -> None:
        """A plain worker on the same queue."""
        with turnabout.connect(self.plan["url"]) as mq:
            queue = mq.queue(self.plan["queue"])
            while True:
                for held in queue.receive(3, lease_seconds=0.5):
                    self.step()
                    if held.ack() == turnabout.Acked():
                        self.write("acked", held.id)
                time.sleep(self.dice.uniform(0, 0.02))


def notes(log: str) -> Iterator[list[Any]]:
    """What was written down, but for what a kill has torn."""
    with suppress(FileNotFoundError):
        for line in Path(log).read_bytes().splitlines():
            with suppress(ValueError):
                yield json.loads(line)


def main() -> None:
    """Be born again whenever dead: a child of a process that has loaded everything is quick."""
    plan = json.loads(sys.argv[1])
    while True:
        child = os.fork()
        if not child:
            with suppress(turnabout.Unavailable, turnabout.Uncertain):
                getattr(Actor(plan), plan["role"])()
            os._exit(0)
        _, status = os.waitpid(child, 0)
        if os.WIFSIGNALED(status):
            Actor(plan).write("killed", 0)


if __name__ == "__main__":
    main()
