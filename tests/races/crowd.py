"""A crowd: processes that all do the same work, killed and cut off at will, until it is done.

    python -m tests.races.crowd '{"role": "keyed", …}'

Each of them is born again from the start when it is killed, so it repeats what it has done. What
was answered is written down, one line a write, to a file opened for appending.
"""

import contextlib
import json
import os
import random
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import turnabout
from turnabout import Unavailable, Uncertain

ROOT = Path(__file__).resolve().parent.parent.parent


def insist(verb: Callable[[], Any]) -> Any:
    """Repeat a call until it is answered: what is called so must be safe to repeat."""
    while True:
        try:
            return verb()
        except (Unavailable, Uncertain):
            time.sleep(0.01)


class Member:
    """One process of the crowd."""

    def __init__(self, plan: dict[str, Any]) -> None:
        self.plan = plan
        self.dice = random.Random()  # unlike its former lives
        self.log = os.open(plan["log"], os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
        self.mq = insist(lambda: turnabout.connect(plan["url"]))
        self.queue = self.mq.queue(plan["queue"])

    def write(self, *what: Any) -> None:
        os.write(self.log, json.dumps(what).encode() + b"\n")

    def keyed(self) -> None:
        """Send a message for each key, a few at a time, in an order of its own."""
        keys = [f"k{n}" for n in range(self.plan["keys"])]
        self.dice.shuffle(keys)
        while keys:
            batch = [keys.pop() for _ in range(min(len(keys), self.dice.choice([1, 1, 3, 8])))]
            messages = [turnabout.message(key, dedup_key=key, channel=key[-1]) for key in batch]
            outcome = insist(lambda messages=messages: self.queue.send_many(messages))
            for key, number in zip(batch, outcome.ids, strict=True):
                self.write(key, number)

    def redrive(self) -> None:
        """Take a redrive on to its end."""
        while insist(lambda: self.mq.redrive_step(self.plan["redrive"])).state == "running":
            time.sleep(0.001)

    def fire(self) -> None:
        """Fire what is due until nothing is."""
        while True:
            insist(self.mq.schedules.fire_due)
            entry = insist(lambda: self.mq.schedules.get(self.plan["schedule"]))
            if entry.next_at is None or entry.next_at > entry.now:
                return


def torment(
    plan: dict[str, Any],
    folder: Path,
    *,
    size: int = 3,
    faults: int = 8,
    cut: Callable[[], object] | None = None,
    seconds: float = 120,
) -> list[Any]:
    """Let a crowd do its work to the end, killing and cutting meanwhile; what it wrote down."""
    plan = {**plan, "log": str(folder / "log.jsonl")}
    words = [sys.executable, "-m", "tests.races.crowd", json.dumps(plan)]
    environment = {**os.environ, "PYTHONPATH": str(Path(turnabout.__file__).parent.parent)}
    errors = (folder / "errors.txt").open("ab")
    dice, gives_up = random.Random(), time.monotonic() + seconds

    def born() -> subprocess.Popen[bytes]:
        return subprocess.Popen(words, cwd=ROOT, env=environment, stdout=errors, stderr=errors)

    crowd = [born() for _ in range(size)]
    try:
        while any(process.poll() is None for process in crowd):
            assert time.monotonic() < gives_up, "the crowd is never done"
            time.sleep(dice.uniform(0.02, 0.25))
            if faults > 0:
                faults -= 1
                if cut is not None and dice.random() < 0.5:
                    cut()
                else:
                    place = dice.randrange(size)
                    crowd[place].kill()
                    crowd[place].wait()
                    crowd[place] = born()
        told = (folder / "errors.txt").read_text(errors="replace")
        assert all(process.returncode == 0 for process in crowd), told[-3000:]
    finally:
        for process in crowd:
            process.kill()
            process.wait()
        errors.close()
    lines = []
    with contextlib.suppress(FileNotFoundError):
        for line in Path(plan["log"]).read_bytes().splitlines():
            with contextlib.suppress(ValueError):  # torn by a kill
                lines.append(json.loads(line))
    return lines


def main() -> None:
    plan = json.loads(sys.argv[1])
    getattr(Member(plan), plan["role"])()


if __name__ == "__main__":
    main()
