"""Settings, limits, pauses, policies, history, events and names change at random while many
processes work and are killed, and the server crashes; `changes.py` judges it.
"""

import os
import threading
import time
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest

import turnabout
from tests.races.changes import BUSY, GONE, PLAIN, Operator, judge, kept_of
from tests.races.checker import Report
from tests.races.places import doctor
from tests.races.rig import SECONDS, SEED, Hammer, until_enough_was_seen
from tests.support.doors import migrate
from tests.support.postgres import GIVEN, own_server

pytestmark = [pytest.mark.slow, pytest.mark.real_time, pytest.mark.timeout(SECONDS * 40 + 300)]

SERVER = {"synchronous_commit": "on", "full_page_writes": "on"}
AT_LEAST = {
    "accepted": 100,
    "changes": 20,
    "limit met": 10,
    "kept in history": 10,
    "stale receipts, another lease live": 1,
}


class Changing(Hammer):
    """A hammer on queues that somebody changes; with a server of its own, that crashes."""

    queues = (BUSY, GONE, PLAIN)
    program = "tests.races.changes"

    def __init__(self, url: str, folder: Path, server: Any = None) -> None:
        super().__init__(url, folder)
        self.server = server
        if server is not None:
            self.others = {"crash": Changing._crash}

    def _make_queues(self, mq: Any) -> None:
        mq.queue(BUSY).create(max_attempts=None, history_seconds=0, events="all")
        self.since = mq.queue(BUSY).events_cursor()
        mq.queue(BUSY).update(events="off")
        mq.queue(GONE).create(max_attempts=None)
        mq.queue(PLAIN).create(max_attempts=None, history_seconds=0)

    def _torment(self) -> None:
        log = os.open(self.log, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
        plan = {"name": "operator", "seed": f"{SEED} operator", "url": self.url, "open_log": log}
        operator = Operator(plan)
        thread = threading.Thread(target=operator.run)
        thread.start()
        try:
            super()._torment()
        finally:
            operator.stopped = True
            thread.join(60)
            operator.end()
            operator.mq.close()
            os.close(log)
        assert not thread.is_alive()
        self._put_back()

    def _put_back(self) -> None:
        with turnabout.connect(self.url) as mq:
            queue = mq.queue(BUSY)
            for channel in queue.channels():
                queue.channel(channel.channel).set_policy(turnabout.Policy())
            queue.update(
                queue_max_concurrency=None,
                policy=turnabout.Policy(),
                history_seconds=3600,
                events="all",
            )
            mq.queue(GONE).create()

    def _drain(self, mq: Any, most_seconds: float = 90) -> bool:
        return super()._drain(mq, most_seconds + 8 * SECONDS)

    def _crash(self) -> bool:
        if self.dice.random() < 0.8:
            return False
        began = time.monotonic()
        self.server.restart("immediate")
        self.void(began)
        return True


@pytest.mark.parametrize("store", ["sqlite", "postgres"])
def test_a_busy_queue_is_changed(tmp_path, store):
    if store == "postgres" and GIVEN is not None:
        pytest.skip("a given server is not ours to crash")

    def hammer(folder: Path, seconds: float) -> Report:
        with own_server(settings=SERVER) if store == "postgres" else nullcontext() as server:
            url = f"sqlite:///{folder}/app.db"
            if server is not None:
                server.create_database("app")
                url = server.url("app")
                migrate(url)
            hammer = Changing(url, folder, server)
            run = hammer.run(2 * seconds)
            with turnabout.connect(url) as mq:
                queue = mq.queue(BUSY)
                kept = set(kept_of(queue))
                events = queue.events(after=hammer.since, idle_seconds=0.1)
                told = {event.id for event in events if event.kind == "done"}
            assert doctor(url) == []
        report = judge(run.events, run.left, kept, told)
        report.missing += [what for what, most in AT_LEAST.items() if report.numbers[what] < most]
        errors = (folder / "errors.txt").read_text(errors="replace")
        print(f"seed {SEED}, faults {dict(run.faults)}, {report}")  # noqa: T201 (`pytest -s`)
        assert run.drained
        assert report.verdict != "invalid", f"seed {SEED}\n{report}\n{errors[-3000:]}"
        return report

    until_enough_was_seen(hammer, tmp_path)
