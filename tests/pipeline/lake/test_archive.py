"""The loop of the archive, and purge, on both stores without Spark, killed at every step."""

import random
import threading
from contextlib import suppress
from typing import Any

import psycopg
import pytest
from deltalake import DeltaTable

import turnabout
from tests.pipeline.lake.lakes import Killed, Stops, archiver, ids_of, run
from tests.pipeline.spark.places import finish
from turnabout.pipeline.jobs.archive import RowsLost
from turnabout.pipeline.jobs.purge import NotArchived, purge
from turnabout.pipeline.jobs.status import status
from turnabout.pipeline.lake import Lake, LakeDamaged, Overtaken
from turnabout.pipeline.results import Archived
from turnabout.pipeline.spark.access import Access
from turnabout.pipeline.verbs import LogNext, WatermarkDelete, WatermarkList, WatermarkSet
from turnabout.words.errors import Unavailable, UsageError


@pytest.mark.driving
def test_all_that_finished_is_there_once(access, lake, mq):
    first = finish(mq, 7)
    seen: list[Archived] = []
    done = run(access, lake, max_rows=3, progress=seen.append)
    assert (done.rows, done.batches, done.total) == (7, 3, 7)
    assert [one.rows for one in seen] == [3, 6, 7]
    assert run(access, lake).batches == 0
    second = finish(mq, 2)
    again = run(access, lake)
    assert again.total == 9
    assert ids_of(lake) == sorted(first + second)
    (mark,) = access.run(WatermarkList())
    assert (mark.archive, mark.position, mark.messages) == ("archive", again.position, 9)
    assert (mark.lag, status_lag(access, mq)) == (0, 4)


def status_lag(access: Access, mq: turnabout.Turnabout) -> int:
    """Four more messages are a lag of four."""
    finish(mq, 4)
    (mark,) = access.run(WatermarkList())
    return mark.lag


@pytest.mark.slow
def test_killed_between_each_two_steps(access, tmp_path, mq, place, monkeypatch):
    ids = finish(mq, 5)
    for after in range(200):
        lake = Lake(tmp_path / "lakes" / str(after))
        with monkeypatch.context() as patch:
            stops = Stops(patch, after)
            with suppress(Killed):
                run(access, lake, "a", max_rows=3)
            if not stops.dead:
                break
        done = run(access, lake, "a", max_rows=3)
        assert done.total == 5
        assert ids_of(lake, "a") == sorted(ids)
        (mark,) = access.run(WatermarkList())
        assert (mark.position, mark.messages) == (done.position, 5)
        access.run(WatermarkDelete("a"))
    assert after > 15


@pytest.mark.parametrize("happened", [True, False])
def test_a_commit_whose_answer_was_lost(access, lake, mq, monkeypatch, happened):
    ids = finish(mq, 3)
    real = DeltaTable.create_write_transaction

    def lost(*given: Any, **named: Any) -> None:
        if happened:
            real(*given, **named)
        raise OSError("the answer was lost")

    with monkeypatch.context() as patch:
        patch.setattr(DeltaTable, "create_write_transaction", lost)
        if happened:
            assert run(access, lake).rows == 3
        else:
            with pytest.raises(Unavailable):
                run(access, lake)
    assert run(access, lake).rows == (0 if happened else 3)
    assert ids_of(lake) == ids


@pytest.mark.driving
def test_of_two_archivers_one_is_told(access, lake, mq):
    ids = finish(mq, 4)
    one, other = archiver(access, lake), archiver(access, lake)
    one.agree()
    other.agree()
    assert one.step() is not None
    with pytest.raises(Overtaken, match="another archiver"):
        other.step()
    assert ids_of(lake) == ids
    ids += finish(mq, 1)
    assert run(access, lake).total == 5
    assert ids_of(lake) == ids


@pytest.mark.driving
def test_a_long_transaction_that_ends_late_is_not_missed(access, lake, mq, place):
    if place.startswith("sqlite"):
        assert status(place).log.waiting_ms is None  # one writer: nothing can hold rows back
        return
    late = mq.queue("emails").send("late").id
    (held,) = mq.queue("emails").receive()
    with psycopg.connect(place) as connection:
        joined = mq.queue("emails").within(connection)
        joined.ack([held.receipt])
        early = finish(mq, 3, "other")
        assert run(access, lake).rows == 0
        assert status(place).log.waiting_ms is not None
    assert run(access, lake).rows == 4
    assert ids_of(lake) == sorted([late, *early])


def test_rows_that_were_removed_before(access, lake, mq):
    first = finish(mq, 2)
    run(access, lake)
    finish(mq, 3)
    mq.queue("emails").clear("all")
    last = finish(mq, 2)
    with pytest.raises(RowsLost, match=r"removed .* before they were archived.*--skip-lost"):
        run(access, lake)
    done = run(access, lake, skip_lost=True)
    assert (done.rows, done.lost) == (2, 1)
    assert "lost" in lake.table("archive").history(1)[0]
    assert ids_of(lake) == sorted(first + last)
    assert run(access, lake).lost == 0


def test_a_lake_and_a_database_that_are_not_of_one_archive(access, lake, mq, tmp_path):
    finish(mq, 2)
    run(access, lake)
    elsewhere = Lake(tmp_path / "elsewhere")
    with pytest.raises(UsageError, match="2 rows in another lake"):
        run(access, elsewhere)
    assert run(access, elsewhere, "second").rows == 2
    finish(mq, 1)
    run(access, lake)
    access.run(WatermarkDelete("archive"))
    with pytest.raises(UsageError, match="knows no archive"):
        run(access, lake)
    run(access, lake, adopt=True)
    marks = {mark.archive: mark for mark in access.run(WatermarkList())}
    assert marks["archive"].messages == 3
    access.run(WatermarkSet("archive", marks["archive"].position, 9))
    with pytest.raises(UsageError, match="older copy"):
        run(access, lake)
    finish(mq, 1)
    access.run(WatermarkSet("archive", marks["archive"].position, 3))
    run(access, lake)
    access.run(WatermarkSet("archive", marks["second"].position, 2))
    with pytest.raises(UsageError, match="restored from a backup"):
        run(access, lake)


def test_it_goes_on_until_it_is_told_to_stop(access, lake, mq):
    ids = finish(mq, 1)
    stop = threading.Event()

    def told(done: Archived) -> None:
        if done.batches == 3:
            stop.set()
        ids.extend(finish(mq, 1))

    done = run(access, lake, every_seconds=0.001, stop=stop, progress=told)
    assert done.batches == 3
    assert ids_of(lake) == sorted(ids)[:3]


@pytest.mark.driving
def test_an_archive_of_one_namespace(lake, mq, place):
    ids = finish(mq, 2, "acme/mail")
    finish(mq, 3, "other/mail")
    finish(mq, 1)
    access = Access(place, namespace="acme")
    assert run(access, lake, "acme").rows == 2
    assert access.run(WatermarkList()) == ()  # it holds no purge back
    ids += finish(mq, 1, "acme/mail")
    assert run(access, lake, "acme").total == 3
    assert ids_of(lake, "acme") == ids
    whole = Access(place)
    with pytest.raises(UsageError, match="holds the namespace 'acme'"):
        run(whole, lake, "acme")
    whole.close()
    access.close()


# --- purge ---


@pytest.mark.driving
def test_purge_removes_what_is_archived_and_nothing_else(access, lake, mq, place):
    with pytest.raises(NotArchived, match="there is no archive"):
        purge(place, str(lake))
    old = finish(mq, 5)
    run(access, lake)
    new = finish(mq, 2)
    assert purge(place, str(lake)).rows == 0  # a day is kept
    would = purge(place, str(lake), keep_seconds=0, now=2e9, dry_run=True)
    assert (would.rows, would.dry_run) == (5, True)
    assert purge(place, str(lake), keep_seconds=0, now=2e9).rows == 5
    left = access.run(LogNext("", None))
    assert left.messages == 2
    assert run(access, lake).rows == 2
    assert ids_of(lake) == sorted(old + new)


def test_purge_wants_every_archive_whole(access, lake, mq, place, tmp_path):
    finish(mq, 2)
    run(access, lake)
    with pytest.raises(NotArchived, match="in none of these lakes"):
        purge(place, tmp_path / "empty")
    second = Lake(tmp_path / "second")
    run(access, second, "second")
    finish(mq, 3)
    run(access, lake)
    with pytest.raises(NotArchived, match="second is in none of these lakes"):
        purge(place, str(lake), keep_seconds=0, now=2e9)
    done = purge(place, str(lake), str(second), keep_seconds=0, now=2e9, dry_run=True)
    assert (done.rows, done.archive) == (2, "second")
    (tmp_path / "lake/archive" / lake.files("archive")[0].path).unlink()
    with pytest.raises(LakeDamaged, match="is gone"):
        purge(place, str(lake), str(second), keep_seconds=0, now=2e9)
    assert access.run(LogNext("", None)).messages == 5


def test_purge_notices_a_bit_that_has_changed(access, lake, mq, place, tmp_path):
    finish(mq, 50)
    run(access, lake)
    path = tmp_path / "lake/archive" / lake.files("archive")[0].path
    whole = path.read_bytes()
    path.write_bytes(whole[:40] + bytes([whole[40] ^ 1]) + whole[41:])
    assert purge(place, str(lake), keep_seconds=0, now=2e9, dry_run=True, deep=False).rows == 50
    with pytest.raises(LakeDamaged, match="has changed"):
        purge(place, str(lake), keep_seconds=0, now=2e9)


def test_purge_refuses_a_table_that_lists_less(access, lake, mq, place):
    finish(mq, 2)
    run(access, lake)
    access.run(WatermarkSet("archive", access.run(WatermarkList())[0].position, 3))
    with pytest.raises(LakeDamaged, match="older copy"):
        purge(place, str(lake), keep_seconds=0, now=2e9)


@pytest.mark.slow
def test_random_lives(access, lake, mq, place, monkeypatch):
    """Messages finish, runs are killed, what is archived is purged: the lake has what finished."""
    chance = random.Random(7)
    ids: list[int] = []
    for _ in range(50):
        with monkeypatch.context() as patch:
            match chance.randint(0, 6):
                case 0 | 1:
                    ids += finish(mq, chance.randint(1, 4), chance.choice("abc"))
                case 2:
                    if access.run(WatermarkList()):
                        purge(place, str(lake), keep_seconds=0, now=2e9)
                case 3:
                    if lake.archives():
                        lake.table("archive").optimize.compact()
                case _:
                    if chance.random() < 0.7:
                        Stops(patch, chance.randint(0, 30))
                    with suppress(Killed):
                        run(access, lake, max_rows=chance.randint(1, 5))
    run(access, lake)
    assert ids_of(lake) == sorted(ids)
    assert lake.check("archive", deep=True)[0] == len(lake.files("archive"))


def test_an_archive_of_a_name_that_is_a_path(access, lake):
    with pytest.raises(UsageError, match="is not a valid queue name"):
        run(access, lake, "../archive")
