"""The SQLite store as a thing in a file: opening, refusing, sharing, forking, filling up."""

import asyncio
import multiprocessing
import os
import shutil
import sqlite3
import sys
import tempfile
import threading
import time
from pathlib import Path

import pytest

from penstock.sqlite import _checkpoint
from penstock.sqlite._connection import APPLICATION_ID, SCHEMA, SQLITE_SAFE
from penstock.sqlite._url import place
from penstock.sqlite.async_store import AsyncSqliteStore
from penstock.sqlite.store import SqliteStore
from penstock.words.entities import Outgoing, Receipt
from penstock.words.errors import (
    Busy,
    Forbidden,
    QueueNotFound,
    StorageFull,
    UsageError,
    WrongVersion,
)
from penstock.words.outcomes import Acked, Sent
from penstock.words.policy import QueueSettings
from penstock.words.verbs import (
    Ack,
    Peek,
    QueueCreate,
    QueueDelete,
    QueueGet,
    Receive,
    Send,
    Stats,
    Tend,
)

spawn = multiprocessing.get_context("spawn")


def one(payload: bytes = b"x") -> Send:
    return Send("q", (Outgoing(payload),))


def sent_in(store: SqliteStore) -> int:
    return store.run(Stats("q"))[0].sent


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "app.db"


@pytest.fixture
def url(path: Path) -> str:
    return f"sqlite:///{path}"


@pytest.fixture
def store(url: str):
    store = SqliteStore(url)
    yield store
    store.close()


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


@pytest.mark.parametrize(
    "wrong",
    [
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
        assert db.execute("pragma application_id").fetchone() == (APPLICATION_ID,)
        assert db.execute("pragma user_version").fetchone() == (SCHEMA,)
        assert db.execute("pragma journal_mode").fetchone() == ("wal",)
    db.close()
    assert store.run(Stats()) == ()


def test_messages_outlive_the_store(url):
    for n in (1, 2):
        store = SqliteStore(url)
        store.run(one())
        assert sent_in(store) == n
        store.close()


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


def test_a_missing_folder_is_named(tmp_path):
    with pytest.raises(UsageError, match="there is no folder"):
        SqliteStore(f"sqlite:///{tmp_path}/none/app.db")


def test_a_file_that_is_no_database_is_refused_and_left_alone(url, path):
    path.write_bytes(b"Dear diary, " * 1000)
    with pytest.raises(UsageError, match="not an SQLite database"):
        SqliteStore(url)
    assert path.read_bytes() == b"Dear diary, " * 1000


@pytest.mark.parametrize("mark", ["application_id = 7", "user_version = 7"])
def test_a_file_of_another_program_is_refused(url, path, mark):
    db = sqlite3.connect(path)
    db.execute(f"pragma {mark}")
    db.close()
    with pytest.raises(UsageError, match="another program"):
        SqliteStore(url)


def test_a_newer_schema_is_refused(url, path):
    SqliteStore(url).close()
    db = sqlite3.connect(path)
    db.execute(f"pragma user_version = {SCHEMA + 1}")
    db.close()
    with pytest.raises(WrongVersion, match="pip install --upgrade"):
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
def test_a_read_only_file_is_forbidden(open_folder):
    folder = open_folder
    SqliteStore(f"sqlite:///{folder}/app.db").close()
    (folder / "app.db").chmod(0o444)
    assert as_nobody(folder, lambda: SqliteStore("sqlite:///app.db")) == "Forbidden"
    (folder / "app.db").chmod(0o666)
    assert as_nobody(folder, lambda: SqliteStore("sqlite:///app.db")) == "Forbidden"  # no log
    folder.chmod(0o777)
    assert as_nobody(folder, lambda: SqliteStore("sqlite:///app.db")) == "nothing"
    (folder / "app.db").chmod(0o000)
    assert as_nobody(folder, lambda: SqliteStore("sqlite:///app.db")) == "Forbidden"
    folder.chmod(0o000)
    assert as_nobody(folder, lambda: SqliteStore("sqlite:///app.db")) == "Forbidden"


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


@pytest.mark.timeout(120)
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


# --- locks ---


def test_a_held_lock_is_busy_after_busy_seconds_and_nothing_happened(url, path):
    store = SqliteStore(f"{url}?busy_seconds=0.2")
    store.run(one())
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("begin immediate")
    begun = time.monotonic()
    with pytest.raises(Busy, match="busy_seconds"):
        store.run(one())
    assert 0.2 <= time.monotonic() - begun < 2
    assert sent_in(store) == 1, "reading waits for nobody"
    other.execute("rollback")
    other.close()
    store.run(one())
    assert sent_in(store) == 2
    store.close()


def write_for(url: str, seconds: float, answers) -> None:
    store = SqliteStore(url)
    worst, count, ends_at = 0.0, 0, time.monotonic() + seconds
    while time.monotonic() < ends_at:
        begun = time.monotonic()
        store.run(one())
        worst = max(worst, time.monotonic() - begun)
        count += 1
    store.close()
    answers.put((count, worst))


@pytest.mark.slow
@pytest.mark.timeout(120)
def test_no_process_starves(url):
    SqliteStore(url).close()
    answers = spawn.Queue()
    children = [spawn.Process(target=write_for, args=(url, 3, answers)) for _ in range(6)]
    for child in children:
        child.start()
    seen = [answers.get() for _ in children]
    for child in children:
        child.join()
    assert max(worst for _, worst in seen) < 2, seen
    assert min(count for count, _ in seen) * 5 > max(count for count, _ in seen), seen


# --- group commit ---


def hold_writer(store: SqliteStore, callers: list[threading.Thread]) -> list[int]:
    """Let all callers hang their tickets on the line, then let go. The sizes of the commits."""
    writer = store._opened.writer
    sizes: list[int] = []
    committed = writer._committed

    def counted(tickets):
        sizes.append(len(tickets))
        committed(tickets)

    writer._committed = counted
    with writer._using:
        for caller in callers:
            caller.start()
        while len(writer._line) < len(callers) - 1:
            time.sleep(0.001)
    for caller in callers:
        caller.join()
    return sizes


def test_waiting_verbs_are_committed_together(store):
    answers = []
    callers = [threading.Thread(target=lambda: answers.append(store.run(one()))) for _ in range(40)]
    sizes = hold_writer(store, callers)
    assert sizes == [1, 39]
    assert {answer.id for answer in answers} == set(range(1, 41))
    assert sent_in(store) == 40


def test_an_error_in_a_group_undoes_its_own_verb_alone(store):
    store.run(QueueCreate("x", QueueSettings()))
    errors = []

    def fails():
        try:
            store.run(QueueDelete("x-dead"))  # refused: it is the dead-letter queue of x
        except UsageError as error:
            errors.append(error)

    good = [threading.Thread(target=lambda: store.run(one())) for _ in range(5)]
    bad = [threading.Thread(target=fails) for _ in range(3)]
    sizes = hold_writer(store, [*good[:3], *bad, *good[3:]])
    assert sizes == [1, 7]
    assert len(errors) == 3
    assert sent_in(store) == 5


def test_a_bug_in_one_verb_of_a_group_is_its_own(store):
    store.run(one())
    errors = []

    def breaks():
        try:
            store.run(Receive("q", None))  # type: ignore[arg-type]
        except TypeError as error:
            errors.append(error)

    good = [threading.Thread(target=lambda: store.run(one())) for _ in range(4)]
    hold_writer(store, [*good[:2], threading.Thread(target=breaks), *good[2:]])
    assert len(errors) == 1
    assert sent_in(store) == 5


def test_more_than_64_verbs_take_more_commits(store):
    callers = [threading.Thread(target=lambda: store.run(one())) for _ in range(100)]
    assert hold_writer(store, callers) == [1, 64, 35]


def test_a_leader_that_is_interrupted_leaves_the_others_in_line(store):
    writer = store._opened.writer
    carry, interrupted = writer._carry, []

    def interrupt_once(connection, verb):
        if not interrupted:
            interrupted.append(verb)
            raise KeyboardInterrupt
        return carry(connection, verb)

    def first():
        with pytest.raises(KeyboardInterrupt):
            store.run(one(b"first"))

    writer._carry = interrupt_once
    others = [threading.Thread(target=lambda: store.run(one())) for _ in range(10)]
    hold_writer(store, [threading.Thread(target=first), *others])
    assert [m.payload for m in store.run(Peek("q", 100))] == [b"x"] * 10
    store.run(one())
    assert sent_in(store) == 11


def test_an_empty_list_touches_nothing(store):
    writer = store._opened.writer
    with writer._using:  # nobody can write now
        assert store.run(Send("q", ())) == Sent(())
        assert store.run(Ack("q", ())) == ()
    with pytest.raises(QueueNotFound):
        store.run(QueueGet("q"))


def test_a_receive_that_finds_nothing_writes_nothing(store):
    store.run(one())
    store.run(Receive("q", 1))
    before = store._opened.writer.connection.total_changes
    for _ in range(3):
        assert not store.run(Receive("q", 10)).deliveries
        store.run(Tend("q"))
    assert store._opened.writer.connection.total_changes == before


# --- asyncio ---


def test_async_verbs_are_committed_together(url):
    async def main() -> None:
        store = AsyncSqliteStore(url)
        await asyncio.gather(*(store.run(one()) for _ in range(200)))
        (stats,) = await store.run(Stats("q"))
        assert stats.sent == 200
        await store.close()
        with pytest.raises(UsageError, match="closed"):
            await store.run(one())

    asyncio.run(main())


def test_opening_waits_for_the_first_call(url, path):
    async def main() -> None:
        store = AsyncSqliteStore(url)
        assert not path.exists()
        await store.close()
        assert not path.exists()

    asyncio.run(main())


def test_what_a_cancelled_receive_leased_is_released(url):
    async def main() -> None:
        store = AsyncSqliteStore(url)
        await store.run(one())
        with store._opened.writer._using:  # the writer's thread stops before its commit
            task = asyncio.create_task(store.run(Receive("q", 1)))
            await asyncio.sleep(0.05)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
        await asyncio.sleep(0.05)
        (delivery,) = (await store.run(Receive("q", 1))).deliveries
        assert (delivery.attempt, delivery.failures, delivery.crashes) == (2, 0, 0)
        receipt = Receipt(delivery.id, delivery.attempt)
        assert await store.run(Ack("q", (receipt,))) == (Acked(),)
        await store.close()

    asyncio.run(main())


def test_cancelled_calls_harm_nobody(url):
    async def main() -> None:
        store = AsyncSqliteStore(url)
        await store.run(one())
        for _ in range(20):
            tasks = [asyncio.create_task(store.run(one())) for _ in range(10)]
            await asyncio.sleep(0)
            for task in tasks[::2]:
                task.cancel()
            done = await asyncio.gather(*tasks, return_exceptions=True)
            assert all(isinstance(answer, Sent) for answer in done[1::2])
        (stats,) = await store.run(Stats("q"))
        assert 101 <= stats.sent <= 201
        assert stats.sent == len(await store.run(Peek("q", 1000)))
        await store.close()

    asyncio.run(main())


# --- news ---


def test_a_send_wakes_who_waits_in_this_process(store):
    store.run(one())
    seen = store.signal("q")
    threading.Timer(0.1, lambda: store.run(one())).start()
    begun = time.monotonic()
    store.wait("q", seen, 10)
    assert time.monotonic() - begun < 1
    assert store.signal("q") != seen


def test_news_between_signal_and_wait_is_not_slept_over(url, store):
    store.run(one())
    other = SqliteStore(url)
    seen = store.signal("q")
    other.run(one())
    begun = time.monotonic()
    store.wait("q", seen, 10)
    assert time.monotonic() - begun < 0.5
    other.close()


def send_at(url: str, ready, go, times) -> None:
    store = SqliteStore(url)
    ready.set()
    go.wait()
    time.sleep(0.2)
    store.run(one())
    times.put(time.time())
    store.close()


@pytest.mark.timeout(60)
def test_another_process_wakes_who_waits_within_100_ms(url, store):
    store.run(one())
    ready, go, times = spawn.Event(), spawn.Event(), spawn.Queue()
    child = spawn.Process(target=send_at, args=(url, ready, go, times))
    child.start()
    ready.wait()
    store.wait("q", store.signal("q"), 0.05)  # the child's opening is no news any more
    seen = store.signal("q")
    go.set()
    store.wait("q", seen, 20)
    woken = time.time()
    assert woken - times.get() < 0.1
    child.join()


def test_nobody_looks_while_nobody_waits(store):
    store.run(one())
    store.wait("q", store.signal("q"), 0.05)
    looks = []
    look = store._opened.wakes._look
    store._opened.wakes._look = lambda: looks.append(1) or look()
    time.sleep(0.1)
    assert not looks


def test_closing_wakes_who_waits(url):
    store = SqliteStore(url)
    seen = store.signal("q")
    waiting = threading.Thread(target=store.wait, args=("q", seen, 30))
    waiting.start()
    time.sleep(0.05)
    store.close()
    waiting.join(5)
    assert not waiting.is_alive()


def test_async_wait_ends_by_news_by_time_and_by_close(url):
    async def main() -> None:
        store, other = AsyncSqliteStore(url), SqliteStore(url)
        await store.run(one())
        seen = await store.signal("q")
        await store.wait("q", seen, 0.05)
        waiting = asyncio.create_task(store.wait("q", await store.signal("q"), 20))
        await asyncio.sleep(0.05)
        other.run(one())
        await asyncio.wait_for(waiting, 1)
        waiting = asyncio.create_task(store.wait("q", await store.signal("q"), 20))
        await asyncio.sleep(0.05)
        await store.close()
        await asyncio.wait_for(waiting, 1)
        other.close()

    asyncio.run(main())


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


def test_memory_serves_many_threads():
    store = SqliteStore("sqlite://")
    callers = [
        threading.Thread(target=lambda: [store.run(one()) for _ in range(50)]) for _ in range(8)
    ]
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join()
    assert sent_in(store) == 400
    store.close()


# --- disk ---


def full(store: SqliteStore) -> None:
    """From now on the file cannot grow."""
    connection = store._opened.writer.connection
    (pages,) = connection.execute("pragma page_count").fetchone()
    connection.execute(f"pragma max_page_count = {pages}")


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


def test_a_full_disk_stops_a_send_and_not_the_ack_beside_it(url):
    store = SqliteStore(url)
    store.run(QueueCreate("q", QueueSettings(history_seconds=0)))
    store.run(one(b"x" * 100_000))
    (delivery,) = store.run(Receive("q", 1)).deliveries
    full(store)
    seen = []

    def too_much():
        try:
            store.run(one(b"x" * 500_000))
        except StorageFull:
            seen.append("full")

    def ack():
        seen.extend(store.run(Ack("q", (Receipt(delivery.id, delivery.attempt),))))

    idle = threading.Thread(target=lambda: store.run(Tend("q")))
    hold_writer(store, [idle, threading.Thread(target=too_much), threading.Thread(target=ack)])
    assert sorted(map(str, seen)) == ["Acked()", "full"]
    store.close()


def test_the_log_is_moved_into_the_file_now_and_then(url, path, monkeypatch):
    """Where automatic checkpoints are off; elsewhere SQLite sees to it."""
    monkeypatch.setattr(_checkpoint, "LOG_BYTES", 100_000)
    monkeypatch.setattr(_checkpoint, "_COMMITS_BETWEEN", 5)
    store = SqliteStore(url)
    for _ in range(100):
        store.run(one(b"x" * 10_000))
    assert path.stat().st_size > 500_000
    if sqlite3.sqlite_version_info < SQLITE_SAFE:
        assert Path(f"{path}-wal").stat().st_size < 1_000_000
        writer = store._opened.writer.connection
        assert writer.execute("pragma wal_autocheckpoint").fetchone()[0] == 0
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
