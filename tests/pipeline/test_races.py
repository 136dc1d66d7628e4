"""Readers that supersede one another, workers, open transactions and SIGKILL: all of it adds up."""

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections import Counter, defaultdict
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

import psycopg
import pytest

import turnabout
from tests.conformance.steps import finished
from tests.pipeline.actors import notes
from tests.pipeline.steps import connection, log_rows
from tests.races.rig import everything
from tests.support.postgres import deadlocks, migrated
from turnabout import message
from turnabout._connect import database
from turnabout.pipeline import verbs as p

pytestmark = [pytest.mark.slow, pytest.mark.real_time, pytest.mark.timeout(300)]

ROOT = Path(__file__).resolve().parent.parent.parent
KILLS = 12


@pytest.fixture
def url():
    with migrated() as url:
        yield url
        assert deadlocks(url) == 0, "PostgreSQL has broken a deadlock (P13)"


class Race:
    """The processes, born again when they are dead, and the threads beside them."""

    def __init__(self, url: str, folder: Path) -> None:
        self.url, self.log, self.errors = url, str(folder / "notes"), folder / "errors"
        self.calm = folder / "calm"
        self.processes: list[subprocess.Popen[bytes]] = []
        self.sent: list[int] = []
        self.rows: list[tuple[str, int]] = []
        self.over = threading.Event()

    def start(self, role: str) -> None:
        plan = {"role": role, "url": self.url, "queue": "in", "log": self.log, "risk": 0.03}
        words = [sys.executable, "-m", "tests.pipeline.actors"]
        words.append(json.dumps({**plan, "calm": str(self.calm)}))
        source = str(Path(turnabout.__file__).parent.parent)
        with self.errors.open("ab") as out:
            process = subprocess.Popen(
                words,
                cwd=ROOT,
                env={**os.environ, "PYTHONPATH": source},
                stdout=out,
                stderr=out,
                start_new_session=True,  # so that it is ended with its child
            )
        self.processes.append(process)

    def end(self) -> None:
        for process in self.processes:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()

    def produce(self) -> None:
        """Send, in part in transactions that stay open a while, some to be rolled back."""
        with ExitStack() as stack:
            mq = stack.enter_context(turnabout.connect(self.url))
            queue, n = mq.queue("in"), 0
            mine = stack.enter_context(psycopg.connect(self.url))
            while not self.calm.exists() and not self.over.is_set():
                n += 1
                batch = [message(f"{n}.{i}", channel=f"c{i % 3}") for i in range(5)]
                if n % 3:
                    self.sent += queue.send_many(batch).ids
                else:
                    ids = queue.within(mine).send_many(batch).ids
                    time.sleep(0.02)
                    (mine.rollback if n % 2 else mine.commit)()
                    self.sent += () if n % 2 else ids
                time.sleep(0.04)

    def follow(self) -> None:
        """Read the log as it grows, in small ranges."""
        with closing(database(self.url)) as store, closing(connection(self.url)) as raw:
            after, last = p.START, False
            while True:
                span = store.run(p.LogNext(after, 20))
                assert isinstance(span, p.LogRange), span
                rows = log_rows(raw, span)
                assert len(rows) == span.messages
                self.rows += [(row["queue"], row["message_id"]) for row in rows]
                after = span.until
                if not span.messages:
                    if last:
                        return
                    last = self.over.wait(0.01)

    def run(self, mq: Any) -> None:
        threads = [threading.Thread(target=f) for f in (self.produce, self.follow)]
        for thread in threads:
            thread.start()
        self.producer = threads[0]
        begun = time.monotonic()
        try:
            for role in ("reader", "reader", "worker"):  # one reader takes it from the other
                self.start(role)
            while not self.done(mq):
                assert time.monotonic() < begun + 200, "never done"
                time.sleep(0.05)
        finally:
            self.end()
            self.over.set()
            for thread in threads:
                thread.join()

    def done(self, mq: Any) -> bool:
        """Whether enough has happened, and then whether all has ended that was sent."""
        if not self.calm.exists():
            seen = Counter(what for what, *_ in notes(self.log))
            if seen["killed"] >= KILLS and seen["superseded"] >= KILLS:
                self.calm.touch()
        if not self.calm.exists() or self.producer.is_alive():
            return False
        stats = mq.queue("in").stats()
        return not stats.scheduled + stats.ready + stats.leased


def test_all_of_it_adds_up(url, tmp_path):
    race = Race(url, tmp_path)
    with turnabout.connect(url) as mq:
        for name in ("in", "out"):
            mq.queue(name).create(max_attempts=None)
        race.run(mq)
        told = race.errors.read_text(errors="replace")
        assert "Traceback" not in told, told[-3000:]
        ended = Counter(row.id for row in finished(mq.queue("in")))
        assert sorted(ended.elements()) == sorted(race.sent), "each ends once, none is lost"
        assert {row.outcome for row in finished(mq.queue("in"))} == {"done"}
        assert Counter(race.rows) == Counter(("in", number) for number in race.sent)
        out = Counter(m.payload for m in everything(mq.queue("out")))
        assert set(out.values()) <= {1}, "published twice"
        check(list(notes(race.log)), out, mq.queue("out"), race.sent)


def check(written: list[Any], out: Counter[bytes], queue: Any, sent: list[int]) -> None:
    """What the processes have written down agrees with what is there."""
    epochs: dict[int, set[tuple[int, ...]]] = defaultdict(set)
    for what, number, *more in written:
        if what == "read":
            epochs[number].add(tuple(more[0]))
    assert all(len(reads) == 1 for reads in epochs.values()), "a repeat reads the same"
    in_epochs = Counter(n for reads in epochs.values() for read in reads for n in read)
    assert set(in_epochs.values()) <= {1}, "epochs are disjoint"
    acked = {number for what, number, *_ in written if what == "acked"}
    assert not acked & set(in_epochs), "leased to two (P5)"
    assert len(in_epochs) == sum(out.values()), "what was read was published, and nothing else"
    assert acked | set(in_epochs) <= set(sent)
    published = Counter(number for what, number, *_ in written if what == "Published")
    assert set(published.values()) <= {1}
    by_epoch = Counter(int(m.headers["epoch"]) for m in everything(queue))
    assert by_epoch == {n: len(next(iter(reads))) for n, reads in epochs.items()}
    assert len(epochs) > 5
