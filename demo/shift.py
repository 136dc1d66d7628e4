"""The shift: a crew works the queue off, one of it is killed on the way, and all is judged."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import turnabout
from demo.crew import Crew
from demo.ledger import DemoLedger, Reader
from demo.show import Scene, Show
from demo.verdict import DemoSent, Killing, Verdict, fairness, judge
from demo.work import Task

LOOK_SECONDS = 0.2
START_SECONDS = 30.0
STUCK_LEASES = 10
RECENT = 1_600
SMALL_ROWS = 20_000


@dataclass(frozen=True, slots=True)
class ShiftPlan:
    """The options of the command line."""

    url: str
    queue: str
    folder: Path
    rows: int
    workers: int
    batch: int
    lease_seconds: float
    kill: bool

    def tasks(self) -> dict[str, Task]:
        """A task for each worker. The first is the one that gets killed."""
        stall = None
        if self.kill:  # a third of the way; in a small demo with its first batch
            stall = 0 if self.rows < SMALL_ROWS else self.rows // (self.workers * 3)
        return {
            f"worker-{number}": Task(
                self.url,
                self.queue,
                str(self.folder / f"worker-{number}.jsonl"),
                self.batch,
                self.lease_seconds,
                stall if number == 1 else None,
            )
            for number in range(1, self.workers + 1)
        }


class Shift:
    """From the start of the workers to the verdict."""

    def __init__(self, plan: ShiftPlan, queue: turnabout.Queue, sent: DemoSent, show: Show) -> None:
        self.ledger = DemoLedger()
        self.seconds = 0.0
        self._plan = plan
        self._queue = queue
        self._sent = sent
        self._show = show
        self._tasks = plan.tasks()
        self._victim = next(iter(self._tasks))
        self._reader = Reader(Path(task.file) for task in self._tasks.values())
        self._errors = plan.folder / "errors.txt"
        self._held: dict[int, str] | None = None
        self._moved_at = self._started_at = time.monotonic()
        self._started_at_ms = 0

    def work(self) -> None:
        """Until all is acked, or nothing moves any more, or a worker crashed."""
        with Crew(self._tasks, self._errors) as crew:
            if self._begin(crew):
                while len(self.ledger.acked) < self._sent.total and self._goes_on(crew):
                    self._show.scene(self._scene())
                    self._look()
                    if self._victim in self.ledger.stalled and self._held is None:
                        self._kill(crew)
        self.seconds = time.monotonic() - self._started_at
        self._look(0.0)

    def verdict(self) -> Verdict:
        """The verdict on it all."""
        killing = None
        if self._held is not None:
            killing = Killing(self._victim, frozenset(self._held), self._use_late(self._held))
        return judge(
            self._sent,
            self.ledger,
            self._queue.stats(),
            started_at=self._started_at_ms,
            batch_rows=self._plan.workers * self._plan.batch,
            killing=killing,
        )

    def _begin(self, crew: Crew) -> bool:
        """All wait until all are up. The one to be killed gets the first batch, so it has one."""
        if not self._until(crew, lambda: len(self.ledger.ready) == len(self._tasks)):
            return False
        self._moved_at = self._started_at = time.monotonic()
        self._started_at_ms = time.time_ns() // 1_000_000
        crew.go(self._victim)
        if self._plan.kill and not self._until(crew, lambda: self._victim in self.ledger.held):
            return False
        for name in self._tasks:
            crew.go(name)
        return True

    def _until(self, crew: Crew, is_so: Callable[[], bool]) -> bool:
        while not is_so():
            self._look(0.01)
            if not self._goes_on(crew):
                return False
        return True

    def _look(self, seconds: float = LOOK_SECONDS) -> None:
        time.sleep(seconds)
        if self._reader.read_into(self.ledger):
            self._moved_at = time.monotonic()

    def _goes_on(self, crew: Crew) -> bool:
        if crashed := crew.crashed():
            codes = ", ".join(f"{name} with code {code}" for name, code in crashed.items())
            self._show.step(f"  ended by itself: {codes}\n{_tail(self._errors)}")
            return False
        patience = max(STUCK_LEASES * self._plan.lease_seconds, START_SECONDS)
        if time.monotonic() - self._moved_at > patience:
            self._show.step(f"  nothing has moved for {patience:.0f} s")
            return False
        return True

    def _kill(self, crew: Crew) -> None:
        crew.kill(self._victim)
        self._held = self.ledger.held[self._victim]
        self._show.step(
            f"  {self._victim} was killed (SIGKILL) while it held {len(self._held)} leases"
        )

    def _use_late(self, held: dict[int, str]) -> int:
        """Use the dead worker's receipts, as if it had only been slow; how many were refused."""
        answers = self._queue.ack([turnabout.Receipt.parse(text) for text in held.values()])
        return sum(1 for answer in answers if isinstance(answer, turnabout.LeaseLost))

    def _scene(self) -> Scene:
        ledger, sizes = self.ledger, self._sent.sizes
        recent = Counter(carrier for _, carrier in ledger.first[-RECENT:])
        left = {name: size - ledger.handed[name] + recent[name] for name, size in sizes.items()}
        return Scene(
            "done",
            len(ledger.acked),
            self._sent.total,
            time.monotonic() - self._started_at,
            {carrier: (ledger.carriers[carrier], size) for carrier, size in sizes.items()},
            sum(ledger.deliveries.values()) - len(ledger.deliveries),
            fairness(left, [carrier for _, carrier in ledger.first[-RECENT:]]),
        )


def _tail(file: Path) -> str:
    return file.read_text(encoding="utf-8", errors="replace")[-2_000:] if file.exists() else ""
