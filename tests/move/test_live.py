"""A move while producers and workers run, are killed, and follow; the checker judges it all."""

import threading
import time
from pathlib import Path
from typing import Any

import pytest

import turnabout
from tests.move.endpoints import Endpoints, fresh_endpoints, one_version
from tests.races.checker import Report
from tests.races.rig import SECONDS, Hammer, Run, judge, until_enough_was_seen
from tests.support.postgres import Server
from turnabout.move import Moved

pytestmark = [
    one_version,
    pytest.mark.slow,
    pytest.mark.real_time,
    pytest.mark.timeout(SECONDS * 20 + 300),
]
AT_LEAST = {"accepted": 60, "redeliveries": 4, "slots full": 3, "in order": 15, "delayed": 5}


class MovingHammer(Hammer):
    """A hammer whose queues move in the middle; what is left is looked for where they went."""

    program = "tests.move.actors"

    def __init__(self, endpoints: Endpoints, folder: Path) -> None:
        super().__init__(endpoints.source, folder)
        self.endpoints = endpoints
        self.more = {"next": endpoints.target}
        self.moved: Moved | None = None

    def _torment(self) -> None:
        third = max(0.0, self.ends_at - time.monotonic()) / 3
        mover = threading.Thread(target=self._move, args=(third,))
        mover.start()
        super()._torment()
        mover.join(60)
        assert self.moved is not None, "the move has failed"

    def _left(self, mq: Any) -> Run:
        with turnabout.connect(self.endpoints.target) as there:
            return super()._left(there)

    def _move(self, after: float) -> None:
        time.sleep(after)
        until = time.monotonic() + after
        with turnabout.connect(self.endpoints.source) as there:
            while time.monotonic() < until and not any(one.leased for one in there.stats()):
                time.sleep(0.01)
        self.moved = self.endpoints.move()


def test_nothing_is_lost_or_delivered_twice_without_a_reason(
    postgres_server: Server, tmp_path: Path
) -> None:
    def hammer(folder: Path, seconds: float) -> Report:
        with fresh_endpoints(postgres_server, folder) as endpoints:
            moving = MovingHammer(endpoints, folder)
            run, moved = moving.run(seconds), moving.moved
            print(moved)  # noqa: T201
            missing: list[str] = []
            assert moved is not None
            if not moved.messages or not any(queue.leased for queue in moved.queues):
                missing.append("nothing was leased when it moved")
            return judge(run, folder, AT_LEAST, *missing)

    until_enough_was_seen(hammer, tmp_path)
