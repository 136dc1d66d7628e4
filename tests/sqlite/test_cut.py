"""What comes in the wrong moment: a signal between two steps, a task that is cancelled, a close
while something opens, a file that cannot be opened.
"""

import asyncio
import dis
import sqlite3
import sys
import threading
import time
from collections import Counter
from contextlib import closing

import pytest

from tests.sqlite.support import held_at_commit, one, sent_in, until
from turnabout.sqlite import _checkpoint, _connection, _engine, _schema, _writer, async_store
from turnabout.sqlite.async_store import AsyncSqliteStore
from turnabout.sqlite.store import SqliteStore
from turnabout.words.errors import Busy, Forbidden, UsageError
from turnabout.words.outcomes import Sent
from turnabout.words.verbs import Peek, Purge, Receive, Stats

# --- a checkpoint ---


def test_a_checkpoint_that_cannot_begin_makes_nothing_happen_twice(store, path, monkeypatch):
    def no_more_files(place):
        raise Forbidden("unable to open database file")

    monkeypatch.setattr(_checkpoint, "connect", no_more_files)
    monkeypatch.setattr(_checkpoint, "LOG_BYTES", 0)
    checkpoints = store._opened._checkpoints
    checkpoints._is_ours = True  # as with an SQLite whose own checkpoints are dangerous
    checkpoints._due = 0
    assert isinstance(store.run(one()), Sent)
    answers = []
    callers = [threading.Thread(target=lambda: answers.append(store.run(one()))) for _ in range(8)]
    with store._opened.writer._using:
        for caller in callers:
            caller.start()
        while len(store._opened.writer._waiting) < len(callers) - 1:
            pass
    for caller in callers:
        caller.join()
    assert len(answers) == 8
    assert sent_in(store) == 9


# --- a signal ---

LOOKS = ("CALL", "RESUME", "JUMP_BACKWARD")
"""Steps behind which Python looks whether a signal has come."""


def interrupted_at(count: int, module, work) -> bool:
    """Run it, with Ctrl-C at the so-manieth moment in that module's code that is one for signals;
    False: it was over before.
    """
    left = count
    steps = {}

    def trace(frame, event, _):
        nonlocal left
        if frame.f_code.co_filename != module.__file__:
            return None
        frame.f_trace_opcodes = True
        if event == "opcode":
            before = steps.get(frame, "")
            steps[frame] = dis.opname[frame.f_code.co_code[frame.f_lasti]]
            left -= before.startswith(LOOKS)
            if left == 0 and before.startswith(LOOKS):
                raise KeyboardInterrupt
        return trace

    sys._getframe().f_trace_opcodes = True  # Python 3.12 traces steps if one frame asks beforehand
    sys.settrace(trace)
    try:
        work()
    except KeyboardInterrupt:
        return True
    finally:
        sys.settrace(None)
    return False


def test_wherever_a_leader_is_interrupted_the_others_are_served(url):
    """The caller leads, with two behind him in the same commit; then another one comes."""
    store = SqliteStore(f"{url}?synchronous=off")
    writer = store._opened.writer
    carry = writer._run

    def carry_first(connection, verb):
        while verb == one(b"first") and len(writer._waiting) < 3:
            time.sleep(0.000_1)
        return carry(connection, verb)

    def behind():
        while not writer._waiting:
            time.sleep(0.000_1)
        store.run(one(b"other"))

    def call():
        for thread in threads:
            thread.start()
        while writer._leader is None or writer._waiting:
            time.sleep(0.000_1)
        store.run(one(b"leader"))

    writer._run = carry_first
    went_on, count = True, 0
    while went_on:
        count += 1
        threads = [threading.Thread(target=store.run, args=(one(b"first"),), daemon=True)]
        threads += [threading.Thread(target=behind, daemon=True) for _ in range(2)]
        went_on = interrupted_at(count, _writer, call)
        threads.append(threading.Thread(target=store.run, args=(one(b"last"),), daemon=True))
        threads[-1].start()
        for thread in threads:
            thread.join(60)
            assert not thread.is_alive(), f"the line stands still after moment {count}"
        assert writer._leader is None
        assert not writer._waiting
        sent = Counter(m.payload for m in store.run(Peek("q", 10)))
        store.run(Purge("q"))
        assert sent - Counter([b"leader"]) == {b"first": 1, b"other": 2, b"last": 1}
    assert count > 30
    store.close()


def test_wherever_a_look_is_interrupted_the_next_one_sees_what_is_there(store):
    store.run(one())
    count = 0
    while interrupted_at(count := count + 1, _engine, lambda: store.run(Stats("q"))):
        store.run(one())
        assert sent_in(store) == count + 1
    assert count > 10


# --- tasks ---


def threads_of_ours() -> set[threading.Thread]:
    return {one for one in threading.enumerate() if one.name.startswith("turnabout-sqlite")}


@pytest.fixture
def slowly(monkeypatch):
    """A file is being opened; it may be; and what was opened."""
    opening, may_open, opened = threading.Event(), threading.Event(), []

    def engine(*given):
        opening.set()
        may_open.wait()
        opened.append(_engine.Engine(*given))
        return opened[-1]

    monkeypatch.setattr(async_store, "Engine", engine)
    return opening, may_open, opened


def test_closing_while_the_file_is_opened_leaves_nothing_open(url, slowly):
    (opening, may_open, opened), before = slowly, threads_of_ours()

    async def main() -> None:
        store = AsyncSqliteStore(url)
        call = asyncio.create_task(store.run(one()))
        await until(opening.is_set)
        end = asyncio.create_task(store.close())
        await asyncio.sleep(0)
        may_open.set()
        await end
        with pytest.raises(UsageError, match="closed"):
            await call
        assert opened[0].writer.closed

    asyncio.run(main())
    assert not threads_of_ours() - before


def test_a_first_call_that_is_cancelled_leaves_the_file_to_the_next(url, slowly):
    opening, may_open, opened = slowly

    async def main() -> None:
        store = AsyncSqliteStore(url)
        call = asyncio.create_task(store.run(one()))
        await until(opening.is_set)
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
        may_open.set()
        await store.run(one())
        await store.close()
        assert [engine.writer.closed for engine in opened] == [True]

    asyncio.run(main())


async def test_what_came_for_a_task_as_it_was_cancelled_is_released(url) -> None:
    store = AsyncSqliteStore(url)
    await store.run(one())
    task = asyncio.create_task(store.run(Receive("q", 1)))
    answer = store._answer
    store._answer = lambda errands: (answer(errands), task.cancel())
    with pytest.raises(asyncio.CancelledError):
        await task
    store._answer = answer
    (delivery,) = (await store.run(Receive("q", 1))).deliveries
    assert (delivery.attempt, delivery.crashes) == (2, 0)
    await store.close()


def test_what_a_receive_leased_that_was_cancelled_before_a_close_is_released(url):
    async def main() -> None:
        store = AsyncSqliteStore(url)
        await store.run(one())
        with held_at_commit(store) as committing:  # from then on the call will happen
            task = asyncio.create_task(store.run(Receive("q", 1)))
            await until(committing.is_set)
            task.cancel()
            end = asyncio.create_task(store.close())
            await asyncio.sleep(0)
        await end

    asyncio.run(main())
    with closing(SqliteStore(url)) as store:
        (message,) = store.run(Peek("q"))
        assert (message.state, message.attempt, message.crashes) == ("ready", 1, 0)


# --- a file that cannot be opened ---


def test_a_file_that_is_no_database_is_closed_again(path, url, monkeypatch):
    closed = []

    class Noting(_connection.Connection):
        def close(self):
            closed.append(self)
            super().close()

    monkeypatch.setattr(_connection, "Connection", Noting)
    path.write_bytes(b"something else" * 1_000)
    with pytest.raises(UsageError, match="file is not a database: give the path of another"):
        SqliteStore(url)
    assert len(closed) == 1


def test_a_lock_that_does_not_get_free_leaves_no_turnstile_open(path, url, monkeypatch):
    made = []

    class Noting(_schema.Turnstile):
        def __init__(self, place):
            super().__init__(place)
            made.append(self)

    SqliteStore(url).close()
    monkeypatch.setattr(_schema, "Turnstile", Noting)
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("delete from turnabout_migration")  # there seems to be something to migrate
        other.execute("begin immediate")
        with pytest.raises(Busy):
            SqliteStore(f"{url}?busy_seconds=0")
    assert [turnstile._file for turnstile in made] == [None]
