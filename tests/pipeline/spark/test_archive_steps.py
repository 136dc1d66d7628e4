"""The loop of the archive, and purge, on both stores without Spark, killed at every step."""

import random
import threading
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import psycopg
import pytest

import turnabout
from tests.pipeline.spark.lakes import PlainStage, ids_of
from tests.pipeline.spark.places import finish
from tests.pipeline.spark.test_lake import Killed, Kills
from turnabout.pipeline.jobs.archive import Archiver, RowsLost, may_begin
from turnabout.pipeline.jobs.purge import NotArchived, purge
from turnabout.pipeline.jobs.status import status
from turnabout.pipeline.lake import CommitLog, Lake, LakeDamaged, hold
from turnabout.pipeline.results import Archived
from turnabout.pipeline.spark.access import Access
from turnabout.pipeline.verbs import LogNext, WatermarkDelete, WatermarkList
from turnabout.words.errors import Disconnected, UsageError


@pytest.fixture
def access(place: str) -> Iterator[Access]:
    opened = Access(place)
    yield opened
    opened.close()


def run(access: Access, lake: Lake, archive: str = "archive", **how: Any) -> Archived:
    """One run of the archive."""
    rules = {name: how.pop(name) for name in ("max_rows", "skip_lost") if name in how}
    with hold(lake, archive, "archive") as log:
        archiver = Archiver(access, log, PlainStage(access), **rules)
        archiver.agree(adopt=how.pop("adopt", False))
        return archiver.run(**how)


@pytest.mark.driving
@pytest.mark.slow
def test_all_that_finished_is_there_once(access, lake, mq):
    first = finish(mq, 7)
    seen: list[Archived] = []
    done = run(access, lake, max_rows=3, progress=seen.append)
    assert (done.rows, done.batches, done.total) == (7, 3, 7)
    assert [one.rows for one in seen] == [3, 6, 7]
    assert run(access, lake).batches == 0
    second = finish(mq, 2)
    assert run(access, lake).total == 9
    assert ids_of(lake) == sorted(first + second)
    head = lake.head("archive")
    assert head is not None
    (mark,) = access.run(WatermarkList())
    assert (mark.archive, mark.position, mark.messages) == ("archive", head.position, 9)
    assert (mark.lag, status_lag(access, mq)) == (0, 4)


def status_lag(access: Access, mq: turnabout.Turnabout) -> int:
    """Four more messages are a lag of four."""
    finish(mq, 4)
    (mark,) = access.run(WatermarkList())
    return mark.lag


class Stops:
    """Ends a run at the n-th thing that it does: on the disk, or with the database."""

    def __init__(self, patch: pytest.MonkeyPatch, after: int) -> None:
        self.kills = Kills(patch, after)
        real = Access.run
        patch.setattr(Access, "run", lambda a, verb: self.kills._step(real, a, verb))


@pytest.mark.slow
def test_killed_between_each_two_steps(access, tmp_path, mq, place, monkeypatch):
    ids = finish(mq, 5)
    every = 1 if place.startswith("sqlite") else 5
    for after in range(0, 200, every):
        lake = Lake(tmp_path / "lakes" / str(after), create=True)
        with monkeypatch.context() as patch:
            stops = Stops(patch, after)
            with suppress(Killed):
                run(access, lake, "a", max_rows=3)
            if not stops.kills.dead:
                break
        done = run(access, lake, "a", max_rows=3)
        assert done.total == 5
        assert ids_of(lake) == sorted(ids)
        assert len(list(lake.folder.glob("data/*/*"))) == len(lake.files())
        (mark,) = access.run(WatermarkList())
        assert (mark.position, mark.messages) == (done.position, 5)
        access.run(WatermarkDelete("a"))
    assert after > 20


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
    head = lake.head("archive")
    assert head is not None
    assert head.lost is not None
    assert head.lost.after == head.after
    assert ids_of(lake) == sorted(first + last)
    assert run(access, lake).lost == 0


def test_a_lake_and_a_database_that_are_not_of_one_archive(access, lake, mq, tmp_path):
    finish(mq, 2)
    run(access, lake)
    run(access, lake)
    with pytest.raises(UsageError, match="2 rows in another lake"):
        may_begin(access, tmp_path / "elsewhere", "archive")
    assert may_begin(access, tmp_path / "elsewhere", "second")
    finish(mq, 1)
    run(access, lake)
    access.run(WatermarkDelete("archive"))
    with pytest.raises(UsageError, match="knows no archive"):
        run(access, lake)
    run(access, lake, adopt=True)
    (mark,) = access.run(WatermarkList())
    assert mark.messages == 3


def test_it_goes_on_until_it_is_told_to_stop(access, lake, mq):
    ids = finish(mq, 1)
    stop = threading.Event()

    def news(done: Archived) -> None:
        if done.batches == 3:
            stop.set()
        ids.extend(finish(mq, 1))

    done = run(access, lake, every_seconds=0.001, stop=stop, progress=news)
    assert done.batches == 3
    assert ids_of(lake) == sorted(ids)[:3]


# --- purge ---


@pytest.mark.driving
def test_purge_removes_what_is_archived_and_nothing_else(access, lake, mq, place):
    with pytest.raises(NotArchived, match="there is no archive"):
        purge(place, lake.folder)
    old = finish(mq, 5)
    run(access, lake)
    new = finish(mq, 2)
    assert purge(place, lake.folder).rows == 0  # a day is kept
    would = purge(place, lake.folder, keep_seconds=0, now=2e9, dry_run=True)
    assert (would.rows, would.dry_run) == (5, True)
    assert purge(place, lake.folder, keep_seconds=0, now=2e9, deep=True).rows == 5
    left = access.run(LogNext("", None))
    assert left.messages == 2
    assert run(access, lake).rows == 2
    assert ids_of(lake) == sorted(old + new)


def test_purge_wants_every_archive_whole(access, lake, mq, place, tmp_path):
    finish(mq, 2)
    run(access, lake)
    copy = Lake(tmp_path / "empty", create=True)
    with pytest.raises(NotArchived, match="in none of these lakes"):
        purge(place, copy.folder)
    second = Lake(tmp_path / "second", create=True)
    run(access, second, "second")
    finish(mq, 3)
    run(access, lake)
    with pytest.raises(NotArchived, match="second is in none of these lakes"):
        purge(place, lake.folder, keep_seconds=0, now=2e9)
    done = purge(place, lake.folder, second.folder, keep_seconds=0, now=2e9, dry_run=True)
    assert (done.rows, done.archive) == (2, "second")
    path = lake.folder / lake.files()[0].path
    path.rename(path.with_suffix(".gone"))
    with pytest.raises(LakeDamaged, match="is gone"):
        purge(place, lake.folder, second.folder, keep_seconds=0, now=2e9)
    assert access.run(LogNext("", None)).messages == 5


def test_purge_refuses_an_older_copy_of_the_lake(access, lake, mq, place):
    finish(mq, 2)
    run(access, lake)
    finish(mq, 2)
    run(access, lake)
    lake.commit_path("archive", 2).unlink()
    with pytest.raises(NotArchived, match="another lake, or an older copy"):
        purge(place, lake.folder, keep_seconds=0, now=2e9)


@pytest.mark.slow
def test_random_lives(access, lake, mq, place, monkeypatch):
    """Messages finish, runs are killed, what is archived is purged: the lake has what finished."""
    chance = random.Random(7)
    ids: list[int] = []
    for _ in range(50):
        with monkeypatch.context() as patch:
            match chance.randint(0, 5):
                case 0 | 1:
                    ids += finish(mq, chance.randint(1, 4), chance.choice("abc"))
                case 2:
                    if access.run(WatermarkList()):
                        purge(place, lake.folder, keep_seconds=0, now=2e9)
                case _:
                    if chance.random() < 0.7:
                        Stops(patch, chance.randint(0, 40))
                    with suppress(Killed):
                        run(access, lake, max_rows=chance.randint(1, 5))
    run(access, lake)
    assert ids_of(lake) == sorted(ids)
    assert lake.check(deep=True)[0] == len(lake.files())


def test_an_archive_of_a_name_that_is_a_path(access, lake):
    with pytest.raises(UsageError, match="is not a valid queue name"):
        run(access, lake, "../archive")


def test_other_rows_than_the_range_has(access, lake, mq):
    finish(mq, 3)

    class Short(PlainStage):
        def __call__(self, *given: Any, **how: Any) -> int:
            return super().__call__(*given, **how) + 1

    def held(log: CommitLog) -> None:
        Archiver(access, log, Short(access)).step()

    with hold(lake, "archive", "archive") as log, pytest.raises(Exception, match="3 rows were"):
        held(log)
    assert not isinstance(log.head, Disconnected)
    assert (lake.head("archive"), access.run(WatermarkList())) == (None, ())
