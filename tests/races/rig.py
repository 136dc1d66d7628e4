"""A hammer: many processes on one store, a nemesis that kills and stops them, and what is left.

The run's seed fixes every process's choices, not how they interleave. It is printed with the
verdict; `TURNABOUT_HAMMER_SEED=…` repeats the choices, `TURNABOUT_HAMMER_SECONDS=…` runs longer.
`places.py` has where it runs and what may go wrong there, `chaos.py` many runs.
"""

import contextlib
import json
import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pytest

import turnabout
from tests.races.actors import FIFO, FREE, LIMITS, PLAIN
from tests.races.checker import Report, check
from tests.support.ports import free_port
from turnabout import Policy, Rate

ROOT = Path(__file__).resolve().parent.parent.parent
SECONDS = float(os.environ.get("TURNABOUT_HAMMER_SECONDS", "5"))
SEED = int(os.environ.get("TURNABOUT_HAMMER_SEED", str(time.time_ns() % 1_000_000)))
RATE = Rate(150, per_seconds=1, burst=4)
QUEUE_LIMITS = {FREE: 6}
QUEUE_RATES = {FREE: Rate(600, per_seconds=1, burst=6)}
OF_QUEUES = {"queue_limits": QUEUE_LIMITS, "queue_rates": QUEUE_RATES}
TRIES = 4


@dataclass
class Run:
    """What a hammer leaves behind: the history, what is still there, and the faults."""

    events: list[dict[str, Any]]
    left: dict[str, list[Any]]
    stats: dict[str, Any]
    faults: Counter[str] = field(default_factory=Counter)
    drained: bool = True
    effects: list[tuple[str, str]] = field(default_factory=list)
    timeline: list[tuple[float, str]] = field(default_factory=list)
    """Seconds since the beginning, and the fault."""
    clock_is_set: bool = False


@dataclass(frozen=True)
class Place:
    """Where a hammer runs.

    roads: URLs that lead there, for one process after the other.
    faults: what may go wrong besides the processes, and how it is made to; False: not this time.
    clock: where it is set by a fault, what processes read; else None. Then times say nothing of
        when a delivery was due.
    later: sets that clock forward, past whatever a wrong one has put off.
    check: what is wrong there afterwards.
    rows: answers a query with all its rows, in the same database.
    """

    url: str
    roads: Sequence[str]
    rows: Callable[[str], list[Any]]
    faults: Mapping[str, Callable[["Hammer"], object]] = field(default_factory=dict)
    clock: Callable[[], int] | None = None
    later: Callable[["Hammer"], object] | None = None
    check: Callable[[], Sequence[str]] = tuple


class Hammer:
    """Producers and workers on the store at `url`, which exists and has no such queues yet."""

    queues: Sequence[str] = (FIFO, FREE, PLAIN)
    faces: Sequence[str] = ("library",)
    place: Place | None = None
    seed: int = SEED
    program = "tests.races.actors"
    more: Mapping[str, Any] = MappingProxyType({})  # for the plan of each of them

    def __init__(self, url: str, folder: Path, *, producers: int = 2, workers: int = 4) -> None:
        self.url, self.log = url, folder / "history.jsonl"
        self.errors = (folder / "errors.txt").open("ab")
        self.dice = random.Random(self.seed)
        self.doors: list[str] = []
        self.timeline: list[tuple[float, str]] = []
        self.faults: Counter[str] = Counter()
        self.ends_at = 0.0
        self.slots = [("producer", n) for n in range(producers)]
        self.slots += [("worker", n) for n in range(workers)]
        self.processes: dict[tuple[str, int], subprocess.Popen[bytes]] = {}
        self.generation: Counter[tuple[str, int]] = Counter()
        self.calm = False
        self.others: Mapping[str, Callable[[Hammer], object]] = {}
        self.seen = 0  # of the log
        self.heard: set[str] = set()

    @classmethod
    def at(cls, place: Place, folder: Path, seed: int, *, bulk: float, size: int = 2) -> "Hammer":
        """Of all faces, and with servers: `size` of them. bulk: the share of sends of hundreds."""
        made = cls(place.url, folder, producers=size + 1, workers=size + 2)
        made.others = place.faults
        made.place, made.seed, made.dice = place, seed, random.Random(seed)
        made.faces = ("library", "within", "http", "asyncio")
        keyed = 0.3 if place.clock is None else 0  # windows end by the clock, too
        made.more = {"bulk": bulk, "keyed": keyed}
        for number in range(size):
            made.doors.append(f"http://127.0.0.1:{free_port()}")
            made.slots.append(("door", number))
        place.rows("create table effect (value text, what text)")
        return made

    def run(self, seconds: float = SECONDS) -> Run:
        """Hammer for so long, then let the workers drain."""
        with contextlib.ExitStack() as stack:
            clock = self.place.clock if self.place else None
            mq = stack.enter_context(turnabout.connect(self.url, clock=clock))
            self._make_queues(mq)
            self.began_at = time.monotonic()
            self.ends_at = self.began_at + seconds
            stack.callback(self._end, signal.SIGKILL)
            for slot in self.slots:
                self._start(slot)
            self._torment()
            return self._left(mq)

    def _left(self, mq: Any) -> Run:
        drained = self._drain(mq)
        self._end(signal.SIGTERM)
        self.errors.close()
        names = [*self.queues, *(f"{name}-dead" for name in self.queues)]
        left = {name: everything(mq.queue(name)) for name in names}
        stats = {name: mq.queue(name).stats() for name in left}
        rows = self.place.rows("select value, what from effect") if self.place else []
        is_set = self.place is not None and self.place.clock is not None
        return Run(read(self.log), left, stats, self.faults, drained, rows, self.timeline, is_set)

    def _make_queues(self, mq: Any) -> None:
        mq.queue(FIFO).create(fifo=True, max_attempts=30)
        mq.queue(FREE).create(
            max_attempts=8, queue_max_concurrency=QUEUE_LIMITS[FREE], queue_rate=QUEUE_RATES[FREE]
        )
        for channel, most in LIMITS.items():
            mq.queue(FREE).channel(channel).set_policy(Policy(max_concurrency=most))
        mq.queue(FREE).channel("slow").set_policy(Policy(rate=RATE))
        mq.queue(PLAIN).create(max_attempts=30)

    def _start(self, slot: tuple[str, int]) -> None:
        role, number = slot
        self.generation[slot] += 1
        if role == "door":
            self._open_door(number)
            return
        plan = {
            "role": role,
            "slot": number,
            "name": self._name(slot),
            "seed": f"{self.seed} {slot} {self.generation[slot]}",
            "url": self.place.roads[number % len(self.place.roads)] if self.place else self.url,
            "own": self.url,
            "face": self.faces[(number + (role == "worker")) % len(self.faces)],
            "doors": self.doors,
            "log": str(self.log),
            "until": self.ends_at,
            "pause": 0.02,
            "calm": self.calm,
        }
        self._spawn(slot, "-m", self.program, json.dumps({**plan, **self.more}))

    def _open_door(self, number: int) -> None:
        port = self.doors[number].rpartition(":")[2]
        url = self.place.roads[0] if self.place else self.url
        options = ("--auth", "none", "--no-dashboard", "--log-level", "error")
        words = ("-m", "turnabout", "serve", "--port", port, "--url", url, *options)
        self._spawn(("door", number), *words)

    def _spawn(self, slot: tuple[str, int], *words: str) -> None:
        source = str(Path(turnabout.__file__).parent.parent)
        environment = {**os.environ, "PYTHONPATH": source}
        self.processes[slot] = subprocess.Popen(
            [sys.executable, *words],
            cwd=ROOT, env=environment, stdout=self.errors, stderr=self.errors,
        )  # fmt: skip

    def note(self, fault: str, where: str = "") -> None:
        """A fault was made."""
        self.faults[fault] += 1
        self.timeline.append((time.monotonic() - self.began_at, f"{fault} {where}".strip()))

    def void(self, began: float) -> None:
        """All leases went with the server that was killed since then."""
        line = json.dumps({"e": "void", "t": began, "gone": time.monotonic()})
        with self.log.open("ab") as log:
            log.write(line.encode() + b"\n")

    def _torment(self) -> None:
        """Kill, stop and start processes at random; the dead are born again."""
        others = self.others
        while time.monotonic() < self.ends_at:
            slot = self.dice.choice(self.slots)
            self._let_begin(slot)
            process = self.processes[slot]
            fault = self.dice.choice(["kill", "kill", "kill", "stop", "none"])
            if others and self.dice.random() < 0.5:
                fault = self.dice.choice([*others])
            if fault == "kill":
                for one in {slot, *self.dice.choices(self.slots, k=self.dice.choice([0, 2, 4]))}:
                    self.processes[one].kill()
                    self.note("kill", self._name(one))
            elif fault == "stop" and slot[0] == "worker":
                self.note("stop", self._name(slot))
                process.send_signal(signal.SIGSTOP)
                time.sleep(self.dice.choice([0.1, 1.0]))
                process.send_signal(signal.SIGCONT)
            elif fault in others and others[fault](self) is not False:
                self.note(fault)
            self._revive()
            time.sleep(self.dice.uniform(0.05, 0.35))

    def _let_begin(self, slot: tuple[str, int]) -> None:
        """Mostly it has done something: else a slow machine would only start processes."""
        if slot[0] == "door":
            return
        patience = min(time.monotonic() + self.dice.choice([0.1, 1.0, 1.0]), self.ends_at)
        while time.monotonic() < patience:
            if self._name(slot) in self._speakers():
                return
            self._revive()
            time.sleep(0.02)

    def _speakers(self) -> set[str]:
        """Who has written into the log."""
        if self.log.exists():
            with self.log.open("rb") as log:
                log.seek(self.seen)
                *lines, rest = log.read().split(b"\n")
                self.seen = log.tell() - len(rest)
            for line in lines:
                _, _, after = line.partition(b'"who": "')
                self.heard.add(after.partition(b'"')[0].decode(errors="replace"))
        return self.heard

    def _name(self, slot: tuple[str, int]) -> str:
        return f"{slot[0][0]}{slot[1]}.{self.generation[slot]}"

    def _revive(self) -> None:
        for slot, process in list(self.processes.items()):
            if process.poll() is not None and time.monotonic() < self.ends_at:
                self._start(slot)

    def _drain(self, mq: Any, most_seconds: float = 90) -> bool:
        """Let everything end, with workers that no longer play tricks."""
        self._end(signal.SIGKILL)
        self.calm = True
        for slot in self.slots:
            if slot[0] != "producer":
                self._start(slot)
        give_up = time.monotonic() + most_seconds
        later = self.place.later if self.place else None
        busy_at = time.monotonic()
        while time.monotonic() < give_up:
            stats = [mq.queue(name).stats() for name in self.queues]
            if not sum(s.scheduled + s.ready + s.leased for s in stats):
                return True
            if sum(s.ready + s.leased for s in stats):
                busy_at = time.monotonic()
            if later and time.monotonic() > busy_at + 10:
                later(self)  # a crash forgets since when a delay lasts
                self.note("late")
                later = None
            time.sleep(0.1)
        return False

    def _end(self, how: signal.Signals) -> None:
        for process in self.processes.values():
            with contextlib.suppress(ProcessLookupError):
                process.send_signal(how)
        for process in self.processes.values():
            try:
                process.wait(15)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        self.processes.clear()


def everything(queue: Any) -> list[Any]:
    """All unfinished messages."""
    got: list[Any] = []
    while page := queue.peek(1000, after_id=got[-1].id if got else 0):
        got.extend(page)
    return got


def read(log: Path) -> list[dict[str, Any]]:
    """The history in order of time. A torn line is a call that nobody knows the end of."""
    if not log.exists():
        return []
    events = []
    for line in log.read_bytes().splitlines():
        with contextlib.suppress(ValueError):
            events.append(json.loads(line))
    return sorted(events, key=lambda event: event["t"])


def report_on(run: Run, **more: Any) -> Report:
    """What the checker says of a run."""
    return check(
        run.events,
        run.left,
        run.stats,
        limits=LIMITS,
        rates={"slow": RATE},
        drained=run.drained,
        effects=run.effects,
        clock_is_set=run.clock_is_set,
        **more,
    )


def judge(run: Run, folder: Path, at_least: Mapping[str, int], *missing: str) -> Report:
    """What the checker says; `missing` are other chances that the run didn't give."""
    told = (folder / "errors.txt").read_text(errors="replace")
    report = report_on(run, at_least=at_least)
    report.missing += [*missing, *(["only a kill or two"] if run.faults["kill"] < 3 else [])]
    print(f"seed {SEED}, faults {dict(run.faults)}, {report}")  # noqa: T201 (`pytest -s`)
    assert report.verdict != "invalid", f"seed {SEED}\n{report}\n{told[-3000:]}"
    return report


def until_enough_was_seen(hammer: Callable[[Path, float], Report], folder: Path) -> None:
    """A run that gave too few chances for a fault proves nothing: another, longer one."""
    for number in range(TRIES):
        place = folder / str(number)
        place.mkdir()
        report = hammer(place, SECONDS * 2**number)
        if report.verdict == "valid":
            return
    pytest.fail(f"{TRIES} runs, and each gave too few chances: {report}")
