"""Kills and cut connections where a repeat must do nothing: dedup keys, redrives, schedules."""

from collections import Counter
from collections.abc import Iterator
from typing import Any

import psycopg
import pytest

import turnabout
from tests.conformance.steps import counts, grave_of, run
from tests.races.crowd import torment
from tests.races.rig import everything
from tests.support import postgres
from tests.support.doors import migrate
from tests.support.seeds import share_of
from turnabout import Failure, message
from turnabout.words.verbs import ScheduleSet

pytestmark = [pytest.mark.slow, pytest.mark.real_time, pytest.mark.timeout(200)]


@pytest.fixture(params=["sqlite", "postgres"])
def place(request, tmp_path) -> Iterator[tuple[str, Any]]:
    """The URL of an empty store, and how to cut its connections, if it has any."""
    if request.param == "sqlite":
        yield f"sqlite:///{tmp_path}/app.db", None
        return
    server = postgres._servers.get(max(postgres.VERSIONS))
    with postgres.fresh_database(server, fill=migrate) as url:
        name = psycopg.conninfo.conninfo_to_dict(url)["dbname"]

        def cut() -> None:
            with psycopg.connect(server.url(), autocommit=True) as connection:
                connection.execute(
                    "select pg_terminate_backend(pid) from pg_stat_activity where datname = %s",
                    [name],
                )

        yield url, cut
        assert postgres.deadlocks(url) == 0, "PostgreSQL has broken a deadlock (P13)"


@pytest.mark.parametrize("mode", share_of(["window", "sliding", "until_finished"], 1, __name__))
def test_each_key_is_sent_once_however_often_it_is_repeated(place, tmp_path, mode):
    url, cut = place
    keys = 250
    with turnabout.connect(url) as mq:
        queue = mq.queue("keyed")
        queue.create(dedup_mode=mode)
        answers = torment(
            {"role": "keyed", "url": url, "queue": "keyed", "keys": keys}, tmp_path, cut=cut
        )
        there = {p.payload.decode(): p.id for p in everything(queue)}
        assert counts(queue).sent == keys, "some key was sent twice, or not at all"
        assert len(there) == keys
    wrong = [(key, number) for key, number in answers if there[key] != number]
    assert not wrong, "answered with an id that does not survive"
    assert {key for key, _ in answers} == set(there)


def test_a_redrive_survives_its_steppers_and_loses_and_doubles_nothing(place, tmp_path):
    url, cut = place
    with turnabout.connect(url) as mq:
        queue = mq.queue("work")
        queue.create(max_attempts=1)
        numbers: list[int] = []
        for _ in range(6):
            numbers += queue.send_many([message(str(n)) for n in range(1_000)]).ids
        while batch := queue.receive(1_000):
            queue.fail([Failure(m.receipt) for m in batch])
        redrive = grave_of(queue).redrive_start()
        plan = {"role": "redrive", "url": url, "queue": "work", "redrive": redrive.id}
        torment(plan, tmp_path, size=2, faults=5, cut=cut)
        (ended,) = mq.redrives()
        assert (ended.state, ended.moved, ended.skipped) == ("done", 6_000, 0)
        assert [p.id for p in everything(queue)] == numbers
        assert everything(grave_of(queue)) == []
        assert (counts(queue).sent, counts(grave_of(queue)).sent) == (12_000, 0)


def test_a_schedule_fires_each_due_time_once(place, tmp_path):
    url, cut = place
    with turnabout.connect(url) as mq:
        queue = mq.queue("ticks")
        queue.create()
        entry = mq.schedules.set("tick", "ticks", "x", every_seconds=1, missed="all")
        past = entry.now // 1_000 * 1_000 - 300_000
        run(queue, ScheduleSet(entry.schedule, past))
        plan = {"role": "fire", "url": url, "queue": "ticks", "schedule": "tick"}
        torment(plan, tmp_path, cut=cut)
        times = Counter(int(p.headers["due-at"]) for p in everything(queue))
        assert set(times.values()) == {1}, "a due time was fired twice"
        first, last = min(times), max(times)
        assert first == past
        assert sorted(times) == list(range(first, last + 1, 1_000)), "a due time was left out"
        assert len(times) >= 300
        assert mq.schedules.get("tick").sent == len(times)
