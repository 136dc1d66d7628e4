"""One message for each due time, however many processes fire, and however they end."""

import contextlib
import random
import signal
import subprocess
import sys
import time
from collections import defaultdict
from pathlib import Path

import psycopg
import pytest

import turnabout
from tests.schedules.swept import swept
from tests.support.doors import chosen, opened
from turnabout.words.schedules import Schedule
from turnabout.words.verbs import ScheduleSet

ROOT = Path(__file__).resolve().parents[2]
SCHEDULES, BACKLOG, PROCESSES, SECONDS = 12, 200, 4, 2.5
KINDS = [name for name in ("sqlite", "postgres-18", "postgres") if name in chosen()]
"""A door for each kind of store: the actors are all of one colour."""


@pytest.fixture(params=KINDS)
def place(request, tmp_path):
    """A door of this test only."""
    with opened(request.param, tmp_path) as door:
        yield door


@contextlib.contextmanager
def processes():
    """Starts actors; all are ended at the end."""
    started = []

    def start(*words):
        command = [sys.executable, "-m", "tests.schedules.actor", *words]
        process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE)
        started.append(process)
        return process

    try:
        yield start
    finally:
        for process in started:
            process.kill()
            process.wait()
            process.stdout.close()


def is_ready(process):
    return process.stdout.readline() == b"ready\n"


@contextlib.contextmanager
def real_time(door):
    """A connection by the wall clock, as the actors have; no schedule is left behind."""
    with door.open(real_time=True) as mq, swept(mq):
        yield mq


def due_times(queue):
    """For each schedule, the due times of its messages in the order of their ids."""
    found = defaultdict(list)
    after = 0
    while page := queue.peek(1_000, after_id=after):
        for message in page:
            found[message.headers["schedule"]].append(int(message.headers["due-at"]))
        after = page[-1].id
    return found


@pytest.mark.slow
@pytest.mark.real_time
def test_one_message_for_each_due_time_while_processes_are_killed(place):
    dice = random.Random(7)
    queue = place.name_of_a_queue()
    with real_time(place) as mq, processes() as start:
        begin = time.time_ns() // 1_000_000_000 * 1_000 - BACKLOG * 1_000
        for n in range(SCHEDULES):
            one = Schedule(f"s{n}", queue, turnabout.message("x"), every_ms=1_000, missed="all")
            mq.store.run(ScheduleSet(one, begin))
        running = [start(place.url) for _ in range(PROCESSES)]
        assert all(map(is_ready, running))
        ends_at = time.monotonic() + SECONDS
        kills = 0
        while time.monotonic() < ends_at:
            time.sleep(dice.uniform(0.05, 0.3))
            victim = dice.randrange(PROCESSES)
            running[victim].send_signal(signal.SIGKILL)
            kills += 1
            running[victim] = start(place.url)
        waits_until = time.monotonic() + 90
        while any(e.is_due and e.next_at < e.now - 5_000 for e in mq.schedules.list(queue=queue)):
            assert time.monotonic() < waits_until, "nobody goes on"
            time.sleep(0.1)
        for process in running:
            process.kill()
            process.wait()
        entries, last = mq.schedules.list(queue=queue), None
        while last != (last := [entry.last_at for entry in entries]):
            time.sleep(0.2)  # what a killed process has begun may still be committed
            found = due_times(mq.queue(queue))
            entries = mq.schedules.list(queue=queue)
    assert kills > 5
    assert len(entries) == SCHEDULES
    for entry in entries:
        dues = found[entry.schedule.name]
        assert dues == list(range(begin, entry.last_at + 1, 1_000)), entry.schedule.name
        assert entry.sent == len(dues) >= BACKLOG
        assert entry.next_at == entry.last_at + 1_000
        assert dues[-1] <= entry.now


@pytest.mark.needs("sharing")
@pytest.mark.real_time
def test_nothing_is_sent_by_one_that_dies_on_the_way(door):
    queue = door.fresh().name
    with real_time(door) as mq, processes() as start, contextlib.ExitStack() as stack:
        one = Schedule("s", queue, turnabout.message("x"), every_ms=3_600_000)
        due_at = time.time_ns() // 1_000_000 - 60_000
        mq.store.run(ScheduleSet(one, due_at))
        if door.url.startswith("postgresql"):
            connection = stack.enter_context(psycopg.connect(door.url, autocommit=True))
            stack.enter_context(deadly(connection))
            with pytest.raises((turnabout.Unavailable, turnabout.Uncertain)):
                mq.schedules.fire_due()
            stack.close()
        else:
            victim = start(door.url, "die")
            assert victim.wait(60) == -signal.SIGKILL
        assert due_times(mq.queue(queue)) == {}
        assert mq.schedules.get("s").next_at == due_at
        assert [sent.due_at for sent in mq.schedules.fire_due()] == [due_at]
        assert mq.schedules.fire_due() == ()
        assert due_times(mq.queue(queue)) == {"s": [due_at]}


@pytest.mark.slow
@pytest.mark.real_time
@pytest.mark.needs("sharing", "administration")
def test_a_waiting_receiver_fires(door):
    """By its own wait, with another connection's schedule. A server's clients leave it to that."""
    queue = door.fresh().name
    with real_time(door) as mq, door.open(real_time=True) as other:
        other.schedules.set("s", queue, "x", every_seconds=1, missed="skip")
        dues = []
        while len(dues) < 2:
            (message,) = mq.queue(queue).receive(wait_seconds=30)
            dues.append(int(message.headers["due-at"]))
            assert dues[-1] <= message.sent_at < dues[-1] + 30_000
            message.ack()
    assert dues == sorted(set(dues))


@contextlib.contextmanager
def deadly(connection):
    """Whoever moves a schedule on loses his connection, in the middle of the transaction."""
    connection.execute(
        "create function public.die() returns trigger language plpgsql as "
        "$$ begin perform pg_terminate_backend(pg_backend_pid()); return new; end $$;"
        "create trigger die before update on turnabout.schedule "
        "for each row execute function public.die()"
    )
    try:
        yield
    finally:
        connection.execute("drop trigger die on turnabout.schedule; drop function public.die()")
