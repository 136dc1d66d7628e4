"""What moves, what stays as it was, and what is refused before anything is written."""

import contextlib
import re
import sqlite3
from typing import Any

import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict

import turnabout
from tests.support.doors import Clock
from tests.support.postgres import fresh_database
from turnabout import Acked, Extended, LeaseLost, Policy, Rate, UsageError, WrongVersion, message
from turnabout.move import _target, abort, move, plan
from turnabout.postgres import install
from turnabout.server import verbs as c
from turnabout.words import verbs as v

pytestmark = pytest.mark.slow


def opened(url: str) -> Any:
    return turnabout.connect(url)


def texts(queue: Any) -> list[str]:
    return [m.payload.decode() for m in queue.peek(1000)]


# --- what moves ----------------------------------------------------------------------------------


def test_a_worker_settles_on_the_target_what_it_received_from_the_file(endpoints):
    with opened(endpoints.source) as mq:
        jobs = mq.queue("jobs")
        jobs.send_many([message(str(n)) for n in range(4)])
        held = jobs.receive(3)
    endpoints.move()
    with opened(endpoints.target) as mq:
        jobs = mq.queue("jobs")
        assert jobs.ack([held[0].receipt]) == (Acked(),)
        assert jobs.ack([held[0].receipt]) == (LeaseLost("gone"),)
        (extended,) = jobs.extend([held[1].receipt], lease_seconds=60)
        assert isinstance(extended, Extended)
        assert texts(jobs) == ["1", "2", "3"]
        assert jobs.stats().leased == 2
        sent = jobs.send("new")
        assert sent.id > held[2].id, "ids still grow"


def test_policies_hold_across_the_move(endpoints):
    """A slot that is taken in the file is taken on the target, and a bucket is as empty."""
    with opened(endpoints.source) as mq:
        jobs = mq.queue("jobs")
        jobs.create()
        jobs.channel("a").set_policy(Policy(max_concurrency=2))
        jobs.channel("b").set_policy(Policy(rate=Rate(1, per_seconds=3600)))
        jobs.channel("c").pause(reason="a person says so")
        jobs.channel("d").set_policy(Policy(max_size=1))
        for channel in "aaabbcd":
            jobs.send("x", channel=channel)
        assert sorted(m.channel for m in jobs.receive(10)) == ["a", "a", "b", "d"]
        policies = jobs.policies()
    endpoints.move()
    with opened(endpoints.target) as mq:
        jobs = mq.queue("jobs")
        assert jobs.policies() == policies
        assert not jobs.receive(10)
        assert isinstance(jobs.send("x", channel="d"), turnabout.ChannelFull)
        blocked = {c.channel: c.blocked for c in jobs.channels()}
        assert (blocked["a"], blocked["b"], blocked["c"]) == ("concurrency", "rate", "paused")
        jobs.channel("c").resume()
        assert [m.channel for m in jobs.receive(10)] == ["c"]


def test_a_fifo_channel_keeps_its_order_and_its_lease(endpoints):
    with opened(endpoints.source) as mq:
        ledger = mq.queue("ledger")
        ledger.create(fifo=True, policy=Policy(weight=2))
        for n in range(3):
            ledger.send(str(n), channel="a")
        (first,) = ledger.receive(5)
    endpoints.move()
    with opened(endpoints.target) as mq:
        ledger = mq.queue("ledger")
        assert ledger.settings().fifo
        assert not ledger.receive(5)
        ledger.ack([first.receipt])
        got = []
        while batch := ledger.receive(5):
            got += [m.text() for m in batch]
            ledger.ack([m.receipt for m in batch])
        assert got == ["1", "2"]


@pytest.mark.parametrize("scope", ["queue", "channel"])
def test_a_send_with_a_key_is_still_suppressed(endpoints, scope):
    with opened(endpoints.source) as mq:
        sent = mq.queue("jobs").send("x", channel="a", dedup_key="k", dedup_scope=scope)
        done = mq.queue("jobs").send("y", dedup_key="l", dedup_mode="until_finished")
    moved = endpoints.move()
    assert moved.dedup_entries == 2
    with opened(endpoints.target) as mq:
        jobs = mq.queue("jobs")
        again = jobs.send("x", channel="a", dedup_key="k", dedup_scope=scope)
        assert (again.ids, again.duplicates) == (sent.ids, (0,))
        assert jobs.send("y", dedup_key="l", dedup_mode="until_finished").ids == done.ids
        assert jobs.stats().sent == 2


def test_history_results_and_the_dead_are_there(endpoints):
    with opened(endpoints.source) as mq:
        jobs = mq.queue("jobs")
        jobs.create(max_attempts=1, history_payload=True)
        sent = jobs.send_many([message(str(n)) for n in range(3)])
        done, dead, _ = jobs.receive(3)
        done.ack(result={"n": 1})
        dead.fail("no luck\nat all")
        rows = [(e.id, e.outcome, e.payload) for e in jobs.history_entries()]
        story = mq.queue("jobs-dead").peek()[0]
    endpoints.move()
    with opened(endpoints.target) as mq:
        jobs = mq.queue("jobs")
        assert [(e.id, e.outcome, e.payload) for e in jobs.history_entries()] == rows
        ending, _, unfinished = jobs.endings(sent.ids)
        assert ending.outcome == "done"
        assert ending.result.json() == {"n": 1}
        assert unfinished is None
        (dead,) = mq.queue("jobs-dead").peek()
        assert (dead.id, dead.origin) == (story.id, story.origin)
        assert mq.queue("jobs-dead").redrive().moved == 1
        stats = jobs.stats()
        assert (stats.sent, stats.done, stats.dead, stats.ready) == (4, 1, 1, 1)


def test_of_two_endings_in_a_millisecond_the_later_one_counts(endpoints):
    clock = Clock()
    with turnabout.connect(endpoints.source, clock=clock) as mq:
        jobs = mq.queue("jobs")
        jobs.create(max_attempts=1)
        sent = jobs.send("x")
        jobs.receive()[0].fail("first")
        mq.queue("jobs-dead").redrive()
        jobs.receive()[0].fail("second")
    endpoints.move()
    with turnabout.connect(endpoints.target, clock=clock) as mq:
        jobs = mq.queue("jobs")
        assert jobs.endings(sent.ids)[0].error == "second"
        assert [e.error for e in jobs.history_entries()] == ["second", "first"]


def test_schedules_redrives_and_the_cursor_of_events_go_on(endpoints):
    with opened(endpoints.source) as mq:
        jobs = mq.queue("jobs")
        jobs.create(events="all", max_attempts=1)
        page = mq.store.run(v.Events("jobs", None))
        jobs.send("one")
        seen = mq.store.run(v.Events("jobs", page.cursor))
        jobs.receive()[0].fail("no")
        later = mq.store.run(v.Events("jobs", seen.cursor)).events
        mq.schedules.set("hourly", "jobs", "tick", every_seconds=3600)
        schedules = mq.schedules.list()
        redrive = mq.queue("jobs-dead").redrive_start(per_second=1)
    moved = endpoints.move()
    assert (moved.schedules, moved.redrives) == (1, 1)
    with opened(endpoints.target) as mq:
        (old,), (new,) = schedules, mq.schedules.list()
        assert (new.schedule, new.next_at, new.sent) == (old.schedule, old.next_at, old.sent)
        assert mq.redrives()[0].id == redrive.id
        assert mq.redrive_step(redrive.id).moved == 1
        cursor = f"{moved.events_cursor}{seen.cursor}"
        on = mq.store.run(v.Events("jobs", cursor)).events
        kinds = [(e.kind, e.id, e.attempt) for e in on]
        assert kinds[: len(later)] == [(e.kind, e.id, e.attempt) for e in later]
        assert [e.kind for e in on[len(later) :]] == ["created"]


def test_settings_and_counts_of_every_queue_are_the_same(endpoints):
    with opened(endpoints.source) as mq:
        mq.queue("a").create(lease_seconds=7, max_messages=9, ttl_seconds=60, dead_letter="grave")
        mq.queue("b").create(paused=True, dedup_mode="latest", labels={"a": "ü"})
        mq.queue("b").update(pause_reason="later")
        mq.queue("a").send("x")
        mq.queue("b").send("y", delay_seconds=60)
        before, stats = mq.queues(), mq.stats()
    endpoints.move()
    with opened(endpoints.target) as mq:
        after = mq.queues()
        assert [(e.name, e.dead_letter, e.created_at, e.modified_at) for e in after] == [
            (e.name, e.dead_letter, e.created_at, e.modified_at) for e in before
        ]
        for old, new in zip(before, after, strict=True):
            assert new.settings.changed({"dead_letter": old.settings.dead_letter}) == old.settings
        for old, new in zip(stats, mq.stats(), strict=True):
            age = new.oldest_ready_ms
            assert (age is None) == (old.oldest_ready_ms is None)
            assert new == type(old)(**{**as_dict(old), "oldest_ready_ms": age})


def as_dict(stats: Any) -> dict[str, Any]:
    return {name: getattr(stats, name) for name in type(stats).__slots__}


# --- the file afterwards, and the target meanwhile -----------------------------------------------


def test_the_file_says_where_its_queues_are(endpoints):
    with opened(endpoints.source) as mq:
        jobs = mq.queue("jobs")
        jobs.send("x")
        endpoints.move()
        for call in (
            lambda: jobs.send("y"),
            jobs.receive,
            jobs.stats,
            jobs.peek,
            mq.queues,
            mq.redrives,
            mq.schedules.list,
            lambda: mq.queue("new").send("y"),
            lambda: mq.store.run(c.TokenList()),
            lambda: mq.store.run(c.NamespaceSet(c.Namespace("acme"))),
            lambda: opened(endpoints.source),
        ):
            with pytest.raises(
                WrongVersion, match=r"moved to postgresql://.*connect to that"
            ) as to:
                call()
        told = re.findall(r"moved to (\S+): connect", str(to.value))[0]
        there, target = map(conninfo_to_dict, (told, endpoints.target))
        for option in ("host", "port", "dbname"):
            assert there.get(option) == target.get(option), "that URL leads to another place"
    with (
        contextlib.closing(sqlite3.connect(endpoints.path)) as file,
        pytest.raises(sqlite3.Error, match="moved to postgresql"),
    ):
        file.execute("insert into turnabout_inbox (queue, payload) values ('jobs', 'z')")
    with pytest.raises(UsageError, match="nothing to do"):
        endpoints.move()


def test_what_is_in_the_inbox_is_moved(endpoints):
    opened(endpoints.source).close()
    with contextlib.closing(sqlite3.connect(endpoints.path, isolation_level=None)) as file:
        file.execute("insert into turnabout_inbox (queue, payload) values ('new', 'y')")
    endpoints.move()
    with opened(endpoints.target) as there:
        assert [m.text() for m in there.queue("new").receive(9)] == ["y"]


# --- what is refused -----------------------------------------------------------------------------


def test_a_queue_in_use_on_the_target_is_refused_before_anything_is_written(endpoints):
    with opened(endpoints.source) as mq:
        mq.queue("jobs").send("x")
    with opened(endpoints.target) as mq:
        mq.queue("jobs").send("theirs")
    for verb in (move, plan):
        with pytest.raises(UsageError, match=r"names already: jobs\. Delete them there"):
            verb(endpoints.source, endpoints.target)
    with opened(endpoints.source) as mq:
        assert texts(mq.queue("jobs")) == ["x"]
    assert not abort(endpoints.source, endpoints.target)
    assert endpoints.ask("select to_regclass('turnabout.move')") == [(None,)]


def test_a_target_that_cannot_be_made_ready_is_left_unconnected(endpoints, monkeypatch):
    made: list[psycopg.Connection[Any]] = []
    connect = psycopg.connect

    def noted(*given: Any, **options: Any) -> psycopg.Connection[Any]:
        made.append(connect(*given, **options))
        return made[-1]

    monkeypatch.setattr(psycopg, "connect", noted)
    monkeypatch.setitem(_target.SQL, "rebuild", "select 1/0")
    with pytest.raises(Exception, match="division by zero"):
        _target.Target(endpoints.target)
    assert made
    assert all(connection.closed for connection in made)


def test_an_empty_queue_on_the_target_makes_room(endpoints):
    with opened(endpoints.source) as mq:
        mq.queue("jobs").create(lease_seconds=5)
        mq.queue("jobs").send("x")
    with opened(endpoints.target) as mq:
        mq.queue("jobs").create(lease_seconds=99)
    endpoints.move()
    with opened(endpoints.target) as mq:
        assert mq.queue("jobs").settings().lease_seconds == 5
        assert texts(mq.queue("jobs")) == ["x"]


def test_ids_that_collide_are_refused_before_anything_is_written(endpoints):
    with opened(endpoints.source) as mq, opened(endpoints.target) as there:
        mq.queue("jobs").send("x")
        other = there.queue("other").send("theirs").id
        with pytest.raises(UsageError, match=f"the same id \\({other}, for one\\)"):
            endpoints.move()
        assert endpoints.ask("select to_regclass('turnabout.move')") == [(None,)]
        there.queue("other").receive()[0].ack()
        assert endpoints.move().messages == 1
        new = {there.queue(name).send("new").id for name in ("jobs", "other")}
        assert min(new) > other


def test_a_database_that_is_not_migrated_and_urls_that_are_wrong(endpoints, postgres_server):
    opened(endpoints.source).close()
    with fresh_database(postgres_server) as url, pytest.raises(WrongVersion, match="migrate up"):
        move(endpoints.source, url)
    with pytest.raises(UsageError, match="there is no file"):
        move(endpoints.source + ".not", endpoints.target)
    with pytest.raises(UsageError, match="in memory cannot be moved"):
        move("sqlite://", endpoints.target)


# --- giving up, looking first --------------------------------------------------------------------


class StoppedHere(Exception):
    pass


def stop_at(step: str) -> Any:
    def stop(progress: Any) -> None:
        if progress.step == step:
            raise StoppedHere

    return stop


def schema_of(url: str) -> list[Any]:
    with sqlite3.connect(url.removeprefix("sqlite:///")) as file:
        found = file.execute("select name, sql from sqlite_master order by name").fetchall()
    file.close()
    return [(name, sql and sql.replace('"', "")) for name, sql in found]  # a rename quotes a name


def test_a_move_that_has_happened_is_not_given_up(endpoints):
    opened(endpoints.source).close()
    endpoints.move()
    with pytest.raises(UsageError, match="have moved already"):
        abort(endpoints.source, endpoints.target)


def test_a_plan_counts_and_changes_nothing(endpoints):
    with opened(endpoints.source) as mq:
        jobs = mq.queue("jobs")
        jobs.create()
        jobs.channel("a").pause()
        jobs.send_many([message("x", dedup_key=str(n)) for n in range(3)])
        jobs.receive(2)[0].ack()
        before = schema_of(endpoints.source)
        found = plan(endpoints.source, endpoints.target)
        jobs.send("still")
    queue = found.queues[0]
    assert (queue.messages, queue.leased, queue.history, queue.policies) == (2, 1, 1, 1)
    assert (found.dedup_entries, found.messages, found.events_cursor) == (3, 2, None)
    assert schema_of(endpoints.source) == before
    assert install.status(endpoints.target).pending == ()
    assert endpoints.ask("select to_regclass('turnabout.move')") == [(None,)]
