"""The SQLite store as a thing in a file: opening, refusing, forking, filling up."""

import errno
import os
import shutil
import sqlite3
import sys
import tempfile
from contextlib import ExitStack, closing
from pathlib import Path

import pytest

from tests.sqlite.support import full, one, sent_in, spawn
from tests.support.each import each
from turnabout.sqlite import _checkpoint, _connection
from turnabout.sqlite._connection import SQLITE_SAFE, open_reader
from turnabout.sqlite._url import place
from turnabout.sqlite.doctor import findings
from turnabout.sqlite.install import status
from turnabout.sqlite.store import SqliteStore
from turnabout.words.entities import Receipt
from turnabout.words.errors import Forbidden, StorageFull, UsageError, WrongVersion
from turnabout.words.outcomes import Acked, Sent
from turnabout.words.policy import QueueSettings
from turnabout.words.verbs import Ack, Peek, Purge, QueueCreate, Receive, Stats

# --- URLs ---


def test_a_url_names_a_file_relative_or_absolute_or_memory(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert place("sqlite:///app.db").path == tmp_path / "app.db"
    assert place("sqlite:////var/app.db").path == Path("/var/app.db")
    assert place("sqlite:///a%20b%3F.db").path == tmp_path / "a b?.db"
    assert place("sqlite://").path is None


def test_a_url_says_how_durable_and_how_patient():
    chosen = place("sqlite:///app.db?synchronous=normal&busy_seconds=0.5")
    assert (chosen.synchronous, chosen.busy_seconds) == ("normal", 0.5)
    assert (place("sqlite://").synchronous, place("sqlite://").busy_seconds) == ("full", 30)


@each(
    "wrong",
    [
        "sqlite:/app.db",
        "sqlite:app.db",
        "sqlite://app.db",
        "sqlite:///",
        "sqlite:///:memory:",
        "sqlite:///app.db#x",
        "sqlite:///app.db?mode=ro",
        "sqlite:///app.db?synchronous=yes",
        "sqlite:///app.db?busy_seconds=soon",
        "sqlite:///app.db?busy_seconds=-1",
        "sqlite:///app.db?busy_seconds=nan",
    ],
)
def test_any_other_url_is_refused(wrong):
    with pytest.raises(UsageError):
        SqliteStore(wrong)


# --- opening ---


def test_opening_makes_the_file_and_its_schema(store, path):
    with sqlite3.connect(path) as db:
        ledger = db.execute("select number, oldest from turnabout_migration").fetchall()
        assert set(ledger) == {(1, 1)}
        assert db.execute("pragma user_version").fetchone() == (0,), "that is the application's"
        assert db.execute("pragma journal_mode").fetchone() == ("wal",)
    db.close()
    assert store.run(Stats()) == ()


def test_a_file_with_tables_of_the_application_may_be_shared(url, path):
    db = sqlite3.connect(path)
    db.execute("create table customer (id integer primary key)")
    db.close()
    store = SqliteStore(url)
    assert isinstance(store.run(one()), Sent)
    store.close()


def test_a_folder_is_refused(tmp_path):
    with pytest.raises(UsageError, match="is a folder"):
        SqliteStore(f"sqlite:///{tmp_path}")


def test_a_name_that_no_file_can_have_is_refused(tmp_path):
    with pytest.raises(UsageError, match="give another path"):
        SqliteStore(f"sqlite:///{tmp_path}/{'long' * 100}.db")


def test_a_missing_folder_is_named(tmp_path):
    with pytest.raises(UsageError, match="there is no folder"):
        SqliteStore(f"sqlite:///{tmp_path}/none/app.db")


def test_a_table_that_is_called_as_ours_is_refused(url, path):
    db = sqlite3.connect(path)
    db.execute("create table turnabout_message (id integer)")
    with pytest.raises(UsageError, match="table turnabout_message already exists"):
        SqliteStore(url)
    assert db.execute("select name from sqlite_master").fetchall() == [("turnabout_message",)]
    db.close()


def test_a_file_that_is_no_database_is_refused_and_left_alone(url, path):
    path.write_bytes(b"Dear diary, " * 1000)
    with pytest.raises(UsageError, match="file is not a database: give the path of another"):
        SqliteStore(url)
    assert path.read_bytes() == b"Dear diary, " * 1000


def test_a_newer_schema_is_refused(url, path):
    SqliteStore(url).close()
    db = sqlite3.connect(path)
    with db:
        db.execute("insert into turnabout_migration values ('', 2, '0002_newer', 2)")
    db.close()
    with pytest.raises(WrongVersion, match="git pull"):
        SqliteStore(url)


@pytest.fixture
def open_folder():
    """A folder that other users may reach, as those of pytest are not."""
    folder = Path(tempfile.mkdtemp())
    folder.chmod(0o755)
    yield folder
    folder.chmod(0o755)
    shutil.rmtree(folder)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork, to become another user")
def test_a_read_only_file_can_be_looked_at(open_folder):
    folder = open_folder
    store = SqliteStore(f"sqlite:///{folder}/app.db")
    store.run(one())
    for is_open in (True, False):  # there is a log beside it, or none
        for mode, mode_of_folder in ((0o444, 0o777), (0o666, 0o555), (0o444, 0o555)):
            for file in folder.iterdir():
                file.chmod(mode)
            folder.chmod(mode_of_folder)  # 555: no room for the log
            assert as_nobody(folder, look) == "nothing"
            assert as_nobody(folder, lambda: SqliteStore("sqlite:///app.db").run(one())) == (
                "Forbidden"
            )
        folder.chmod(0o777)
        for file in folder.iterdir():
            file.chmod(0o666)
        if is_open:
            store.close()
    assert as_nobody(folder, lambda: SqliteStore("sqlite:///app.db").run(one())) == "nothing"
    (folder / "app.db").chmod(0o000)
    assert as_nobody(folder, lambda: SqliteStore("sqlite:///app.db")) == "Forbidden"
    if os.getuid() == 0:  # anybody else could not even go there
        folder.chmod(0o000)
        assert as_nobody(folder, lambda: SqliteStore("sqlite:///app.db")) == "Forbidden"


def look() -> None:
    store = SqliteStore("sqlite:///app.db")
    assert sent_in(store) == 1
    assert [m.state for m in store.run(Peek("q"))] == ["ready"]
    found = {one.name: one.level for one in findings("sqlite:///app.db")}
    assert found["way out"] == found["file contents"] == "ok"
    assert found["file"] == "fail"
    assert not status("sqlite:///app.db").pending
    store.close()


def as_nobody(folder: Path, call) -> str:
    """The name of what `call` raises in a child process without root's privileges."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        raised = "nothing"
        try:
            os.chdir(folder)
            if os.getuid() == 0:
                os.setuid(65534)
            call()
        except BaseException as error:  # noqa: BLE001
            raised = type(error).__name__
        os.write(writing, raised.encode())
        os._exit(0)
    os.close(writing)
    os.waitpid(child, 0)
    with os.fdopen(reading) as answer:
        return answer.read()


def open_and_send(url: str, count: int) -> None:
    store = SqliteStore(url)
    for _ in range(count):
        store.run(one())
    store.close()


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_many_processes_may_make_one_file_at_once(url):
    children = [spawn.Process(target=open_and_send, args=(url, 20)) for _ in range(6)]
    for child in children:
        child.start()
    for child in children:
        child.join()
    assert [child.exitcode for child in children] == [0] * 6
    store = SqliteStore(url)
    assert sent_in(store) == 120
    store.close()


def test_a_closed_store_says_so(store):
    store.close()
    for call in (lambda: store.run(one()), lambda: store.run(Stats()), lambda: store.signal("q")):
        with pytest.raises(UsageError, match="closed"):
            call()
    store.close()


# --- fork ---


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_forked_child_opens_the_file_anew(store):
    store.run(one())
    child = os.fork()
    if child == 0:
        try:
            store.run(one())
            os._exit(0 if sent_in(store) == 2 else 1)
        finally:
            os._exit(2)
    assert os.waitpid(child, 0)[1] == 0
    store.run(one())
    assert sent_in(store) == 3
    assert store._opened.writer.connection.execute("pragma integrity_check").fetchone()[0] == "ok"


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_memory_is_refused_after_a_fork():
    store = SqliteStore("sqlite://")
    store.run(one())
    child = os.fork()
    if child == 0:
        try:
            store.run(one())
        except UsageError:
            os._exit(0)
        finally:
            os._exit(1)
    assert os.waitpid(child, 0)[1] == 0
    store.close()


# --- disk ---


def test_a_full_disk_refuses_sends_and_takes_acks(url):
    store = SqliteStore(url)
    store.run(QueueCreate("q", QueueSettings(history_seconds=0)))
    for _ in range(4):
        store.run(one(b"x" * 100_000))
    (delivery,) = store.run(Receive("q", 1)).deliveries
    full(store)
    with pytest.raises(StorageFull, match="free some space"):
        store.run(one(b"x" * 200_000))
    assert sent_in(store) == 4, "nothing happened"
    assert store.run(Ack("q", (Receipt(delivery.id, delivery.attempt),))) == (Acked(),)
    assert isinstance(store.run(one(b"x" * 90_000)), Sent)
    store.close()


def test_time_never_goes_backwards(url):
    times = iter([1_000, 5_000, 2_000, 2_000, 2_000, 6_000])
    store = SqliteStore(url, clock=lambda: next(times))
    store.run(one())
    store.run(one())
    store.run(one())
    assert [m.sent_at for m in store.run(Peek("q"))] == [1_000, 5_000, 5_000]
    store.close()


@pytest.mark.skipif(sys.platform == "win32", reason="file modes of POSIX")
def test_a_folder_that_goes_read_only_is_forbidden_in_words(url, path):
    store = SqliteStore(url)
    store.run(one())
    store._opened.writer.connection.execute("pragma query_only = on")
    with pytest.raises(Forbidden, match="read-only"):
        store.run(one())
    store.close()


# --- the log, and room on the disk ---


def test_the_log_of_many_writers_stays_within_its_bound(url, path, monkeypatch):
    """They commit at very different rates, and each counts for itself."""
    monkeypatch.setattr(_connection, "LOG_BYTES_KEPT", 200_000)
    monkeypatch.setattr(_checkpoint, "LOG_BYTES", 250_000)
    monkeypatch.setattr(_checkpoint, "AGAIN_BYTES", 50_000)
    with ExitStack() as stores:
        some = [stores.enter_context(closing(SqliteStore(url))) for _ in range(3)]
        for store in some:
            writer = store._opened.writer.connection
            is_safe = sqlite3.sqlite_version_info >= SQLITE_SAFE
            assert is_safe or writer.execute("pragma wal_autocheckpoint").fetchone()[0] == 0
            store._opened._checkpoints._is_ours = True
        sizes = []
        for n in range(150):
            for store in some if n % 10 == 0 else some[: 1 + n % 2]:
                store.run(one(b"x" * 10_000))
                store.run(Purge("q"))
                sizes.append(Path(f"{path}-wal").stat().st_size)
        assert max(sizes) < 400_000
        reader = stores.enter_context(closing(open_reader(place(url))))
        reader.execute("begin")
        reader.execute("select * from turnabout_queue").fetchall()
        for _ in range(20):
            some[0].run(one(b"x" * 10_000))
        assert Path(f"{path}-wal").stat().st_size > 400_000, "a reader holds it"
        reader.execute("rollback")
        for _ in range(20):
            some[0].run(one())
        assert Path(f"{path}-wal").stat().st_size < 400_000


def test_on_a_full_disk_acks_have_the_room_that_was_kept(url, path, monkeypatch):
    store = SqliteStore(url)
    reserve = Path(f"{path}-reserve")
    store.run(one())
    store.run(one())
    writer = store._opened.writer
    assert reserve.stat().st_size >= Path(f"{path}-wal").stat().st_size

    def full(*_):
        raise OSError(errno.ENOSPC, "no space")

    def as_on_a_full_disk(group, go_on=writer._try):
        return StorageFull("no space") if reserve.stat().st_size else go_on(group)

    monkeypatch.setattr(writer, "_try", as_on_a_full_disk)
    monkeypatch.setattr(os, "posix_fallocate", full)
    with pytest.raises(StorageFull, match="no space"):
        store.run(one())
    (delivery,) = store.run(Receive("q", 1)).deliveries
    assert store.run(Ack("q", (delivery.receipt,))) == (Acked(),)
    assert reserve.stat().st_size == 0
    for refused in (lambda: store.run(one()), lambda: store.run_transaction([Purge("q"), one()])):
        with pytest.raises(StorageFull, match="kept aside is for acks"):
            refused()
    with closing(SqliteStore(url)) as another:
        another.run(Purge("q"))
        with pytest.raises(StorageFull, match="kept aside is for acks"):
            another.run(one())
    monkeypatch.undo()
    store.run(one())
    assert reserve.stat().st_size > 0
    assert sent_in(store) == 3
    store.close()
    assert not reserve.exists()


def test_where_no_room_can_be_reserved_everything_works_without(url, path, monkeypatch):
    def impossible(*_):
        raise OSError(errno.EOPNOTSUPP, "not here")

    monkeypatch.setattr(os, "posix_fallocate", impossible)
    with closing(SqliteStore(url)) as store:
        store.run(one())
        store.run(one())
        assert not Path(f"{path}-reserve").exists()
