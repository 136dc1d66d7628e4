"""The lake's folder and its commits, without Spark and without a database."""

import errno
import json
import multiprocessing
import os
import random
from pathlib import Path
from typing import Any

import pytest

from tests.pipeline.spark.lakes import DAY_MS, NOON, archived, batch, ids_of, merged, stage
from tests.support.each import each
from turnabout.pipeline.lake import Lake, LakeDamaged, Overtaken, Taken, _disk, hold
from turnabout.words.errors import Forbidden, StorageFull, Unavailable, UsageError, WrongVersion


def data_files(lake: Lake) -> set[str]:
    return {p.relative_to(lake.folder).as_posix() for p in lake.folder.glob("data/*/*")}


def test_a_commit_tells_all_about_its_files(lake):
    with hold(lake, "a", "archive") as log:
        staged = log.staging / "rows"
        stage(staged, [1, 2, 3])
        stage(staged, [4], NOON + DAY_MS)
        commit = log.append(staged, rows=4, position="7.4", after="")
    assert (commit.version, commit.rows, commit.total, commit.position) == (1, 4, 4, "7.4")
    first, second = commit.added
    assert (first.day, first.rows, first.first, first.last) == ("2027-01-15", 3, NOON, NOON)
    assert (second.day, second.first) == ("2027-01-16", NOON + DAY_MS)
    assert first.bytes == (lake.folder / first.path).stat().st_size
    assert lake.head("a") == commit == lake.commit("a", 1)
    assert lake.check("a", deep=True) == (2, first.bytes + second.bytes)
    assert not list((lake.folder / "_staging").iterdir())


def test_readers_see_files_by_the_log_and_not_by_the_folder(lake):
    archived(lake, [1, 2])
    stage(lake.folder / "data", [99])
    assert ids_of(lake) == [1, 2]


def test_a_version_stays_as_it_was(lake):
    for number in range(5):
        archived(lake, [number])
    merged(lake)
    archived(lake, [5])
    assert [ids_of(lake, "a", v) for v in (1, 3, 5, 6, 7)] == [
        [0],
        [0, 1, 2],
        [0, 1, 2, 3, 4],
        [0, 1, 2, 3, 4],
        [0, 1, 2, 3, 4, 5],
    ]
    head = lake.head("a")
    assert head is not None
    assert (head.version, head.total, head.position) == (7, 6, "6")
    with pytest.raises(UsageError, match="no a at version 8: 1 to 7 are there"):
        lake.files("a", version=8)


def test_many_commits_are_read_from_the_last_whole_list(lake, monkeypatch):
    monkeypatch.setattr("turnabout.pipeline.lake._log.WHOLE_EVERY", 4)
    for number in range(10):
        archived(lake, [number])
    reads: list[int] = []
    read = Lake.commit
    monkeypatch.setattr(Lake, "commit", lambda s, a, v: reads.append(v) or read(s, a, v))
    assert ids_of(lake) == list(range(10))
    assert set(reads) == {8, 9, 10}


def test_paths_by_time(lake):
    for day in range(3):
        archived(lake, [day], NOON + day * DAY_MS)
    assert len(lake.paths()) == 3
    assert len(lake.paths(since=NOON + 1)) == 2
    assert len(lake.paths(until=NOON)) == 0
    assert len(lake.paths(since=NOON, until=NOON + DAY_MS)) == 1


def test_two_archives_in_one_lake(lake):
    archived(lake, [1])
    archived(lake, [2], archive="a-1")
    archived(lake, [3])
    assert (lake.archives(), ids_of(lake), ids_of(lake, "a-1")) == (("a", "a-1"), [1, 2, 3], [2])


# --- what goes wrong ---


def test_a_folder_that_is_no_lake(tmp_path):
    with pytest.raises(UsageError, match="there is no lake at"):
        Lake(tmp_path / "nowhere")
    (tmp_path / "photo.jpg").touch()
    with pytest.raises(UsageError, match=r"holds other things \(photo.jpg\)"):
        Lake(tmp_path, create=True)


@each("url", ["s3://bucket/lake", "gs://b/l", "hdfs://host/lake", "abfss://x/y"])
def test_an_object_store_is_refused_with_what_to_do(url):
    with pytest.raises(UsageError, match="Archive to a folder, and copy it there"):
        Lake(url, create=True)


def test_windows_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr("sys.platform", "win32")
    with pytest.raises(UsageError, match="needs Linux or macOS"):
        Lake(tmp_path / "lake", create=True)


def test_a_file_url_is_a_folder(tmp_path):
    assert Lake(f"file://{tmp_path}/a%20lake", create=True).folder == tmp_path / "a lake"


def test_a_newer_format_and_a_torn_commit(lake):
    commit = archived(lake, [1])
    path = lake.commit_path("a", commit.version)
    found = json.loads(path.read_text())
    path.write_text(json.dumps({**found, "format": 2}))
    with pytest.raises(WrongVersion, match="upgrade Turnabout"):
        lake.head("a")
    for text in ("{", "[]", '{"format": 1}', ""):
        path.write_text(text)
        with pytest.raises(LakeDamaged, match="is not a commit"):
            lake.head("a")


def test_a_missing_commit_is_damage_and_not_a_shorter_list(lake):
    for number in range(3):
        archived(lake, [number])
    lake.commit_path("a", 2).unlink()
    with pytest.raises(LakeDamaged, match="is gone"):
        lake.files("a")


def test_damaged_files_are_found(lake):
    paths = [lake.folder / archived(lake, [n]).added[0].path for n in range(3)]
    data = bytearray(paths[0].read_bytes())
    data[10] ^= 1
    paths[0].write_bytes(data)
    lake.check()
    with pytest.raises(LakeDamaged, match="has changed"):
        lake.check(deep=True)
    paths[1].write_bytes(paths[1].read_bytes()[:-1])
    paths[2].unlink()
    with pytest.raises(LakeDamaged, match=r"bytes, not .*; .* is gone"):
        lake.check()


@pytest.mark.parametrize(
    ("number", "kind"),
    [(errno.ENOSPC, StorageFull), (errno.EROFS, Forbidden), (errno.EACCES, Forbidden)],
)
@pytest.mark.parametrize("step", ["write_aside", "link", "move", "sync"])
def test_what_the_disk_refuses_is_told(lake, monkeypatch, number, kind, step):
    def refuse(*_: Any) -> None:
        raise OSError(number, os.strerror(number))

    archived(lake, [1])
    monkeypatch.setattr(_disk, step, refuse)
    with pytest.raises(kind, match=str(lake.folder)):
        archived(lake, [2])
    monkeypatch.undo()
    archived(lake, [2])
    assert ids_of(lake) == [1, 2]


def test_other_rows_than_there_should_be_are_not_committed(lake):
    with hold(lake, "a", "archive") as log:
        stage(log.staging / "rows", [1, 2])
        with pytest.raises(Unavailable, match="2 rows were written where 3 were to be"):
            log.append(log.staging / "rows", rows=3, position="3", after="")
    assert (lake.archives(), data_files(lake)) == ((), set())


# --- two at once ---


def test_one_archiver_at_a_time(lake):
    with (
        hold(lake, "a", "archive"),
        pytest.raises(Taken, match=f"process {os.getpid()} on .* is at work on the archive a"),
        hold(lake, "a", "archive"),
    ):
        pass
    with hold(lake, "a", "archive"), hold(lake, "a", "compact"), hold(lake, "b", "archive"):
        pass


def test_without_locks_the_commit_decides(lake, monkeypatch):
    def no_locks(*_: Any) -> None:
        raise OSError(errno.ENOLCK, "no locks available")

    monkeypatch.setattr("fcntl.flock", no_locks)
    with hold(lake, "a", "archive") as slow:
        stage(slow.staging / "rows", [1, 2])
        archived(lake, [1, 2])
        with pytest.raises(Overtaken, match="nothing is lost or doubled"):
            slow.append(slow.staging / "rows", rows=2, position="2", after="")
    assert ids_of(lake) == [1, 2]
    assert data_files(lake) == {file.path for file in lake.files()}


def test_a_compaction_does_not_stop_an_archiver(lake):
    with hold(lake, "a", "archive") as log:
        batch(log, [1])
        batch(log, [2])
        merged(lake)
        commit = batch(log, [3])
    assert (commit.version, commit.total) == (4, 3)
    assert ids_of(lake) == [1, 2, 3]


def test_two_compactions_of_the_same_files(lake, monkeypatch):
    archived(lake, [1])
    archived(lake, [2])
    monkeypatch.setattr("fcntl.flock", lambda *_: (_ for _ in ()).throw(OSError(errno.ENOLCK, "")))
    with hold(lake, "a", "compact") as slow:
        taken = lake.files("a")
        stage(slow.staging / "rows", [1, 2])
        merged(lake)
        with pytest.raises(Overtaken, match="another compaction"):
            slow.append(slow.staging / "rows", rows=2, taken=taken)
    assert ids_of(lake) == [1, 2]


def _race(folder: str, name: int, go: Any, results: Any) -> None:
    """An archiver that has no lock, and repeats what it lost."""
    _disk.fcntl.flock = lambda *_: (_ for _ in ()).throw(OSError(errno.ENOLCK, ""))
    lake = Lake(folder)
    won: list[int] = []
    go.wait()
    while len(won) < 6:
        try:
            with hold(lake, "a", "archive") as log:
                row = name * 100 + len(won)
                batch(log, [row])
                won.append(row)
        except Overtaken:
            pass
    results.put(won)


@pytest.mark.slow
def test_two_processes_race_for_each_version(lake):
    context = multiprocessing.get_context("spawn")
    go, results = context.Event(), context.Queue()
    both = [context.Process(target=_race, args=(lake.folder, n, go, results)) for n in (1, 2)]
    for one in both:
        one.start()
    go.set()
    won = results.get(timeout=240) + results.get(timeout=240)
    for one in both:
        one.join()
    results.close()
    assert [commit.version for commit in lake.back("a")] == list(range(12, 0, -1))
    assert ids_of(lake) == sorted(won)
    head = lake.head("a")
    assert head is not None
    assert head.total == 12


# --- killed at each step ---


class Killed(BaseException):
    """A kill: nothing catches it."""


STEPS = ("write_aside", "link", "move", "sync", "make_folder", "remove", "remove_folder")


class Kills:
    """Ends a run before its n-th step on the disk; nothing of that process works afterwards."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, after: int) -> None:
        self.left, self.dead = after, False
        for step in STEPS:
            real = getattr(_disk, step)
            monkeypatch.setattr(_disk, step, lambda *a, real=real: self._step(real, *a))

    def _step(self, real: Any, *args: Any) -> Any:
        self.left -= 1
        if self.left < 0:
            self.dead = True
            raise Killed
        return real(*args)


@pytest.mark.slow
def test_killed_before_each_step_nothing_is_lost_or_doubled(tmp_path, monkeypatch):
    killed = 0
    for after in range(100):
        lake = Lake(tmp_path / str(after), create=True)
        archived(lake, [1, 2])
        archived(lake, [3])
        with monkeypatch.context() as patch:
            kills = Kills(patch, after)
            try:
                archived(lake, [4, 5], NOON + DAY_MS)
                merged(lake)
                archived(lake, [6])
                lake.tidy("a", NOON * 2)
            except Killed:
                killed += 1
            if not kills.dead:
                break
        head = lake.head("a")
        assert head is not None
        lake.check(deep=True)
        assert ids_of(lake) == list(range(1, head.total + 1))
        # The next runs do the rest, and leave nothing that no commit names.
        for ids in ([4, 5], [6]):
            if ids[0] > head.total:
                archived(lake, ids)
        archived(lake, [7])
        merged(lake)
        lake.tidy("a", NOON * 2)
        assert ids_of(lake) == [1, 2, 3, 4, 5, 6, 7]
        assert data_files(lake) == {file.path for file in lake.files()}
        assert not list((lake.folder / "_staging").iterdir())
    assert killed > 40


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.slow
def test_random_lives(tmp_path, monkeypatch, seed):
    """Whatever is done and killed: the lake holds what was committed, and a check says so."""
    monkeypatch.setattr("turnabout.pipeline.lake._log.WHOLE_EVERY", 3)
    chance = random.Random(seed)
    lake = Lake(tmp_path, create=True)
    rows: list[int] = []
    for step in range(25):
        new = [step * 10 + n for n in range(chance.randint(1, 3))]
        try:
            with monkeypatch.context() as patch:
                if chance.random() < 0.5:
                    Kills(patch, chance.randint(0, 25))
                match chance.randint(0, 5):
                    case 0 if rows:
                        merged(lake)
                    case 1:
                        lake.tidy("a", chance.choice([0, NOON * 2]))
                    case _:
                        archived(lake, new, NOON + chance.randint(0, 3) * DAY_MS)
        except Killed:
            pass
        head = lake.head("a")
        total = 0 if head is None else head.total
        if total > len(rows):
            rows += new
        assert total == len(rows)
        if rows:
            assert ids_of(lake, "a") == rows
            lake.check(deep=True)


def test_files_that_were_merged_stay_for_their_readers(lake):
    archived(lake, [1])
    archived(lake, [2])
    old = lake.paths("a")
    commit = merged(lake)
    assert lake.tidy("a", commit.at) == 0
    archived(lake, [3])
    assert all(Path(path).exists() for path in old)
    assert lake.tidy("a", commit.at + 1) == 2
    assert not any(Path(path).exists() for path in old)
    assert ids_of(lake) == [1, 2, 3]


def test_merged_files_outlive_the_commit_that_made_them(lake, monkeypatch):
    monkeypatch.setattr("turnabout.pipeline.lake._log.WHOLE_EVERY", 4)
    archived(lake, [1])
    archived(lake, [2])
    commit = merged(lake)
    archived(lake, [3])  # the fourth: with the whole list
    lake.tidy("a", NOON * 2)
    assert not lake.commit_path("a", commit.version).exists()
    with hold(lake, "a", "compact"):
        pass
    assert ids_of(lake) == [1, 2, 3]
