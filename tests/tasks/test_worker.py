"""Tasks in a worker: both kinds of functions, schedules, what surrounds it, the command line."""

import asyncio
import logging
import os
import subprocess
import sys
import textwrap
import threading
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.support.nursery import ROOT
from turnabout.tasks import Retry, TaskFailed, Tasks, chain, current
from turnabout.words.errors import UsageError


def test_a_worker_runs_functions_of_both_kinds(tasks: Tasks) -> None:
    seen: list[Any] = []

    @tasks.lifespan
    @asynccontextmanager
    async def pool() -> Any:
        seen.append("opened")
        yield
        seen.append("closed")

    @tasks.lifespan
    @contextmanager
    def other() -> Any:
        yield

    @tasks.task(queue="mixed")
    async def on_the_loop(n: int) -> tuple[int, bool]:
        await asyncio.sleep(0)
        return n, current().id > 0

    @tasks.task(queue="mixed")
    def in_a_thread(n: int) -> int:
        assert threading.current_thread() is not threading.main_thread()
        return n + 1

    @tasks.task(queue="loop", timeout_seconds=0.01, retry=Retry(attempts=1))
    async def slow(n: int) -> int:
        await asyncio.sleep(n)
        return n

    handles = [on_the_loop.enqueue(1), in_a_thread.enqueue(1), slow.enqueue(0), slow.enqueue(60)]
    chain(in_a_thread.s(1), on_the_loop.s()).enqueue()
    stats = tasks.worker(concurrency=3).run(until_empty=True)
    assert (stats.handled, stats.failed) == (5, 1)
    assert [handle.result() for handle in handles[:3]] == [(1, True), 2, 0]
    with pytest.raises(TaskFailed, match="TimeoutError"):
        handles[3].result()
    assert seen == ["opened", "closed"]


def test_a_retry_comes_when_the_task_says(tasks: Tasks, caplog: pytest.LogCaptureFixture) -> None:
    tries = 0

    @tasks.task(queue="q", retry=Retry(on=(OSError,), attempts=8, seconds=0.001))
    def flaky() -> int:
        nonlocal tries
        tries += 1
        if tries < 7:
            raise ConnectionError("down")
        return tries

    handle = flaky.enqueue()
    tasks.connection.queue("q").delete()  # so that the worker makes it
    handle = flaky.enqueue()
    with caplog.at_level(logging.CRITICAL, "turnabout.worker"):
        tasks.connection.queue("q").update(max_attempts=8)
        tasks.worker().run(until_empty=True)
    assert handle.result() == 7


def test_a_queue_that_the_worker_makes_allows_the_attempts(tasks: Tasks) -> None:
    @tasks.task(queue="new", retry=Retry(attempts=12))
    def task() -> None: ...

    tasks.worker().run(until_empty=True)
    assert tasks.connection.queue("new").settings().max_attempts == 12


def test_a_schedule_is_made_when_the_worker_starts(tasks: Tasks) -> None:
    @tasks.every("0 3 * * *", zone="Europe/Berlin", overlap="skip")
    def cleanup() -> None: ...

    @tasks.every(60)
    @tasks.task(queue="q", name="tick!")
    def tick(n: int = 1) -> None: ...

    tasks.worker().run(until_empty=True)
    entries = tasks.connection.schedules.list()
    name = cleanup.name.replace("<", "-").replace(">", "-")[-64:]
    assert {e.schedule.name for e in entries} == {name.lstrip("_.-"), "tick-"}
    (entry,) = tasks.connection.schedules.list(queue="default")
    assert (entry.schedule.cron, entry.schedule.zone) == ("0 3 * * *", "Europe/Berlin")
    assert entry.schedule.message.headers == {"task": cleanup.name}


def test_threads_of_a_queue_share_a_time_limit() -> None:
    tasks = Tasks("sqlite://")
    tasks.task(queue="q", name="a", timeout_seconds=1)(lambda: None)
    tasks.task(queue="q", name="b", timeout_seconds=2)(lambda: None)
    with pytest.raises(UsageError, match="tasks of the queue 'q' run in threads"):
        tasks.worker()


@pytest.mark.slow
def test_the_command_line_runs_tasks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "shop.py").write_text(
        textwrap.dedent("""
            from turnabout.tasks import Tasks
            tasks = Tasks("sqlite:///app.db")

            @tasks.task(queue="orders")
            def ship(order: int) -> str:
                return f"shipped {order}"

            if __name__ == "__main__":  # a worker knows it as shop.ship nevertheless
                ship.enqueue(8)
        """),
        encoding="utf-8",
    )
    monkeypatch.chdir(tmp_path)
    assert "Sent" in turnabout_("send", "orders", '{"order": 7}', "--header", "task=shop.ship")
    python("shop.py")
    python("-m", "shop")
    assert "Done: 3 handled" in turnabout_("worker", "shop:tasks", "--until-empty")


def turnabout_(*words: str) -> str:
    """What the command line prints."""
    return python("-m", "turnabout", *words, "--url", "sqlite:///app.db")


def python(*words: str) -> str:
    """What a program prints."""
    command = [sys.executable, *words]
    source = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    done = subprocess.run(command, check=True, capture_output=True, text=True, env=source)
    return done.stdout
