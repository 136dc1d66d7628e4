"""News: who waits is told, by this process at once and by others soon."""

import asyncio
import threading
import time

from tests.sqlite.support import one, spawn
from turnabout.sqlite import _notifier
from turnabout.sqlite.async_store import AsyncSqliteStore
from turnabout.sqlite.store import SqliteStore

# --- news ---


def test_news_between_signal_and_wait_is_not_slept_over(url, store):
    store.run(one())
    other = SqliteStore(url)
    seen = store.signal("q")
    other.run(one())
    begun = time.monotonic()
    store.wait("q", seen, 20)
    assert time.monotonic() - begun < 15
    other.close()


def test_a_commit_that_somebody_else_saw_first_still_wakes_the_waiters(url, store, monkeypatch):
    monkeypatch.setattr(_notifier, "LOOK_SECONDS", 60)  # the thread that looks comes too late
    store.run(one())
    store.wait("q", store.signal("q"), 0.05)
    seen, woken = store.signal("q"), threading.Event()
    assert store._opened.notifier.subscribe("q", seen, woken.set)
    other = SqliteStore(url)
    other.run(one())
    assert store.signal("q") != seen  # a receiver looks, so the next look finds nothing new
    assert woken.wait(30)
    other.close()


def send_when_told(url: str, told, times) -> None:
    store = SqliteStore(url)
    times.put(None)
    while told.get():
        time.sleep(0.2)
        store.run(one())
        times.put(time.time())
    store.close()


def test_another_process_wakes_who_waits_within_100_ms(url, store):
    """In one of ten tries: a busy machine may let a process wait for its turn."""
    store.run(one())
    told, times = spawn.Queue(), spawn.Queue()
    child = spawn.Process(target=send_when_told, args=(url, told, times))
    child.start()
    times.get()
    store.wait("q", store.signal("q"), 0.05)  # the child's opening is no news any more
    for last in (*[False] * 9, True):
        seen = store.signal("q")
        told.put(True)
        store.wait("q", seen, 20)
        woken = time.time()
        if woken - times.get() < 0.1:
            break
        assert not last
    told.put(False)
    child.join()


def test_nobody_looks_while_nobody_waits(store):
    store.run(one())
    store.wait("q", store.signal("q"), 0.05)
    looks = []
    look = store._opened.notifier._look
    store._opened.notifier._look = lambda: looks.append(1) or look()
    time.sleep(0.1)
    assert not looks


def test_closing_wakes_who_waits(url):
    store = SqliteStore(url)
    seen = store.signal("q")
    waiting = threading.Thread(target=store.wait, args=("q", seen, 30))
    waiting.start()
    time.sleep(0.05)
    store.close()
    waiting.join(15)
    assert not waiting.is_alive()


async def test_async_wait_ends_by_news_by_time_and_by_close(url) -> None:
    store, other = AsyncSqliteStore(url), SqliteStore(url)
    await store.run(one())
    seen = await store.signal("q")
    await store.wait("q", seen, 0.05)
    waiting = asyncio.create_task(store.wait("q", await store.signal("q"), 20))
    await asyncio.sleep(0.05)
    other.run(one())
    await asyncio.wait_for(waiting, 15)
    waiting = asyncio.create_task(store.wait("q", await store.signal("q"), 20))
    await asyncio.sleep(0.05)
    await store.close()
    await asyncio.wait_for(waiting, 15)
    other.close()
