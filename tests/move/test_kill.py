"""A move that is killed, at each of its steps and anywhere between them, leaves the queues on one
side; the next one brings them to the other.
"""

import contextlib
import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

import turnabout
from tests.move.endpoints import Endpoints, fresh_endpoints, one_version
from tests.support.postgres import Server
from tests.support.until import until
from turnabout import Busy, Policy, Unavailable, UsageError, WrongVersion, message
from turnabout.move import abort

pytestmark = [one_version, pytest.mark.slow, pytest.mark.timeout(300)]
ROOT = Path(__file__).resolve().parents[2]
SEED = int(os.environ.get("TURNABOUT_MOVE_SEED", str(time.time_ns() % 1_000_000)))


def furnish(endpoints: Endpoints) -> None:
    """Something of each kind."""
    with turnabout.connect(endpoints.source) as mq:
        jobs = mq.queue("jobs")
        jobs.create(max_attempts=1, events="all")
        jobs.channel("b").set_policy(Policy(max_concurrency=1))
        jobs.send_many([message(str(n), channel="abc"[n % 3]) for n in range(30)])
        for n, got in enumerate(jobs.receive(12)):
            if n < 4:
                got.ack()
            elif n < 7:
                got.fail("no")
        mq.queue("ledger").create(fifo=True)
        mq.queue("ledger").send_many([message(str(n), channel="x") for n in range(3)])
        mq.queue("keyed").send("x", dedup_key="k")
        mq.schedules.set("hourly", "jobs", "tick", every_seconds=3600)


def start(endpoints: Endpoints, kill_at: str | None = None) -> "subprocess.Popen[str]":
    plan = {"source": endpoints.source, "target": endpoints.target, "kill_at": kill_at}
    source = str(Path(turnabout.__file__).parent.parent)
    return subprocess.Popen(
        [sys.executable, "-m", "tests.move.killed", json.dumps(plan)],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": source},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def use(endpoints: Endpoints) -> None:
    """Life goes on between two tries, on the side where the queues are, and only there."""
    with contextlib.suppress(Unavailable, WrongVersion), turnabout.connect(endpoints.source) as mq:
        assert endpoints.ask("select count(*) from turnabout.queue") == [(0,)]
        jobs = mq.queue("jobs")
        jobs.send("between", channel="b")
        for got in jobs.receive(1):
            got.ack()


MOVES = "select from pg_stat_activity where application_name = 'turnabout move'"
"""Servers' processes of moves. Of one that was killed it goes on until it hears of that."""


def finish(endpoints: Endpoints) -> None:
    """To the end, and then both sides are the same."""
    until(lambda: not endpoints.ask(f"{MOVES} and datname = current_database()"))
    process = start(endpoints)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 0 or "nothing to do" in err, err
    assert endpoints.contents_there() == endpoints.contents_of_the_file()
    assert endpoints.ask("select to_regclass('turnabout.move')") == [(None,)]
    with turnabout.connect(endpoints.target) as mq:
        names = sorted(entry.name for entry in mq.queues())
        assert names == ["jobs", "jobs-dead", "keyed", "keyed-dead", "ledger", "ledger-dead"]
        for s in mq.stats():
            ended = s.done + s.dead + s.cancelled + s.expired
            assert s.sent == s.scheduled + s.ready + s.leased + ended, s
        assert mq.queue("keyed").send("x", dedup_key="k").duplicates == (0,)
        assert len(mq.schedules.list()) == 1
        (event,) = endpoints.ask("select count(*) from turnabout.event where kind = 'done'")
        assert event[0] == mq.queue("jobs").stats().done


@contextlib.contextmanager
def furnished(server: Server, folder: Path) -> Iterator[Endpoints]:
    with fresh_endpoints(server, folder) as endpoints:
        furnish(endpoints)
        yield endpoints


BEFORE = ("locked", "copying", "comparing", "compared", "shutting", "shut")
BETWEEN = ("closed",)
AFTER = ("committed", "finding")
SAID = ("marked", "forgetting", "forgotten")


def killed_at(endpoints: Endpoints, step: str) -> None:
    process = start(endpoints, step)
    out, err = process.communicate(timeout=60)
    assert process.returncode == -signal.SIGKILL, (step, out, err)


def test_killed_before_the_end(postgres_server: Server, tmp_path: Path) -> None:
    """As before, up to the file's commit; closed, up to that of PostgreSQL, and then open again."""
    with furnished(postgres_server, tmp_path) as endpoints:
        with turnabout.connect(endpoints.source) as mq:
            for step in BEFORE:
                killed_at(endpoints, step)
                assert mq.queue("jobs").send(step, channel="c").id
                assert endpoints.ask("select to_regclass('turnabout.move')") == [(None,)]
            use(endpoints)
            for step in BETWEEN:
                killed_at(endpoints, step)
                with pytest.raises(Busy, match="being moved to postgresql"):
                    mq.queue("jobs").send(step)
                assert endpoints.ask("select count(*) from turnabout.queue") == [(0,)]
                assert abort(endpoints.source, endpoints.target)
                assert mq.queue("jobs").send(step, channel="c").id
                killed_at(endpoints, step)
        finish(endpoints)


@pytest.mark.parametrize("step", [*AFTER, *SAID])
def test_killed_when_all_is_done_but_said(
    postgres_server: Server, tmp_path: Path, step: str
) -> None:
    """PostgreSQL has the queues, the file is not told yet; then it is, and notes are left."""
    with furnished(postgres_server, tmp_path) as endpoints:
        killed_at(endpoints, step)
        with pytest.raises(Busy if step in AFTER else WrongVersion):
            turnabout.connect(endpoints.source)
        with pytest.raises(UsageError, match="have moved already"):
            abort(endpoints.source, endpoints.target)
        finish(endpoints)


def test_killed_anywhere(postgres_server: Server, tmp_path: Path) -> None:
    """By the clock, several times in one move: in the middle of transactions, too. A quick machine
    may be done before; then once more, with less patience.
    """
    dice, kills = random.Random(SEED), 0
    for again in range(5):
        place = tmp_path / str(again)
        place.mkdir()
        with furnished(postgres_server, place) as endpoints:
            for _ in range(8):
                kills += killed_after(endpoints, dice.uniform(0, 0.08 / 2**again))
            finish(endpoints)
        if kills >= 2:
            return
    pytest.fail(f"{kills} kills came before the end; seed {SEED}")


def killed_after(endpoints: Endpoints, seconds: float) -> bool:
    """Go on with the move for so long; whether the kill came before its end."""
    process = start(endpoints)
    assert process.stdout is not None
    if process.stdout.readline():  # it has begun
        time.sleep(seconds)
    process.kill()
    process.communicate(timeout=60)
    use(endpoints)
    return process.returncode == -signal.SIGKILL
