"""A move while producers and workers run, are killed, and follow; the checker judges it all."""

import contextlib
import signal
import threading
import time
from pathlib import Path
from typing import Any

import pytest

import turnabout
from tests.move.endpoints import Endpoints, fresh_endpoints, one_version
from tests.races.actors import FIFO, FREE, LIMITS
from tests.races.checker import Report, check
from tests.races.rig import RATE, SECONDS, SEED, Hammer, Run, _all, read
from tests.support.postgres import Server
from turnabout.move import Moved

pytestmark = [
    one_version,
    pytest.mark.slow,
    pytest.mark.real_time,
    pytest.mark.timeout(SECONDS * 20 + 300),
]
AT_LEAST = {
    "accepted": 60,
    "redeliveries": 4,
    "slots full": 3,
    "in order": 15,
    "delayed": 5,
}
TRIES = 4


class MovingHammer(Hammer):
    """A hammer whose queues move in the middle; what is left is looked for where they went."""

    program = "tests.move.actors"

    def __init__(self, endpoints: Endpoints, folder: Path) -> None:
        super().__init__(endpoints.source, folder)
        self.endpoints = endpoints
        self.more = {"next": endpoints.target}
        self.moved: Moved | None = None

    def hammer(self, seconds: float) -> Run:
        with contextlib.ExitStack() as stack:
            with turnabout.connect(self.url) as mq:
                self._make_queues(mq)
            self.ends_at = time.monotonic() + seconds
            stack.callback(self._end, signal.SIGKILL)
            for slot in self.slots:
                self._start(slot)
            mover = threading.Thread(target=self._move, args=(seconds / 3,))
            mover.start()
            self._torment(None)
            mover.join(60)
            assert self.moved is not None, "the move has failed"
            mq = stack.enter_context(turnabout.connect(self.endpoints.target))
            drained = self._drain(mq)
            self._end(signal.SIGTERM)
            self.errors.close()
            names = [FIFO, FREE, f"{FIFO}-dead", f"{FREE}-dead"]
            left = {name: _all(mq.queue(name)) for name in names}
            stats = {name: mq.queue(name).stats() for name in names}
            return Run(read(self.log), left, stats, self.faults, drained)

    def _move(self, after: float) -> None:
        time.sleep(after)
        self.moved = self.endpoints.move()


def judge(hammer: MovingHammer, run: Run, folder: Path) -> Report:
    report = check(
        run.events,
        run.left,
        run.stats,
        limits=LIMITS,
        rates={"slow": RATE},
        drained=run.drained,
        at_least=AT_LEAST,
    )
    moved = hammer.moved
    assert moved is not None
    if not moved.messages or not any(queue.leased for queue in moved.queues):
        report.missing.append("nothing was leased when it moved")
    if run.faults["kill"] < 3:
        report.missing.append(f"only {run.faults['kill']} kills")
    told = (folder / "errors.txt").read_text(errors="replace")
    print(f"seed {SEED}, faults {dict(run.faults)}, {moved}, {report}")  # noqa: T201
    assert report.verdict != "invalid", f"seed {SEED}\n{report}\n{told[-3000:]}"
    return report


def test_nothing_is_lost_or_delivered_twice_without_a_reason(
    postgres_server: Server, tmp_path: Path
) -> None:
    report: Any = None
    for number in range(TRIES):
        folder = tmp_path / str(number)
        folder.mkdir()
        with fresh_endpoints(postgres_server, folder) as endpoints:
            hammer = MovingHammer(endpoints, folder)
            report = judge(hammer, hammer.hammer(SECONDS * 2**number), folder)
            if report.verdict == "valid":
                return
    pytest.fail(f"{TRIES} runs, and each gave too few chances: {report}")
