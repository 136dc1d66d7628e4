"""Calls of tasks: enqueued, suppressed, retried, chained; on both databases."""

import asyncio
from collections.abc import Callable
from contextlib import contextmanager
from typing import Any

import pytest

import turnabout
from turnabout.tasks import (
    AsyncTasks,
    Defer,
    GiveUp,
    NotSent,
    Retry,
    TaskFailed,
    Tasks,
    TryAgain,
    chain,
    chain_async,
    current,
)
from turnabout.words.errors import UsageError


def test_a_call_is_a_message_that_anybody_can_send(tasks: Tasks) -> None:
    seen: list[Any] = []

    @tasks.task(queue="emails", name="send", channel=lambda customer, **_: customer, priority=3)
    def send_email(to: str, customer: str, copies: int = 1) -> int:
        """What it does."""
        seen.append((to, current().channel, current().priority, current().attempt))
        return len(to)

    assert send_email.__doc__ == "What it does."
    handle = send_email.enqueue("ada", customer="acme")
    queue = tasks.connection.queue("emails")
    (message,) = queue.peek()
    assert (message.payload, dict(message.headers)) == (
        b'{"to":"ada","customer":"acme"}',
        {"task": "send"},
    )
    by_hand = queue.send({"to": "bob", "customer": "x"}, headers={"task": "send"}).id
    assert tasks.drain() == 2
    assert sorted(seen) == [("ada", "acme", 3, 1), ("bob", "", 0, 1)]
    assert handle.result() == 3
    assert send_email.handle(by_hand).result() == 3
    with pytest.raises(UsageError, match="no task is running here"):
        current()


def test_a_second_call_with_the_same_arguments_is_suppressed(tasks: Tasks) -> None:
    @tasks.task(unique="until_finished")
    def task(a: int, b: int = 0) -> None: ...

    first, again, other = task.enqueue(1), task.enqueue(a=1), task.enqueue(2)
    assert (again.id, again.is_duplicate, other.is_duplicate) == (first.id, True, False)
    by_a = task.options(key=lambda a, **_: str(a))
    assert by_a.enqueue(5, 1).id == by_a.enqueue(5, 2).id
    assert tasks.drain() == 3
    assert task.enqueue(1).id != first.id


def test_a_full_channel_is_told_by_an_exception(tasks: Tasks) -> None:
    @tasks.task(queue="q", channel="c")
    def task() -> None: ...

    tasks.connection.queue("q").create()
    tasks.connection.queue("q").channel("c").set_policy(turnabout.Policy(max_size=1))
    task.enqueue()
    with pytest.raises(NotSent, match="was not enqueued") as full:
        task.enqueue()
    assert full.value.outcome == turnabout.ChannelFull("c", 1, 1)


def test_a_call_commits_with_the_callers_rows(tasks: Tasks, url: str) -> None:
    @tasks.task(queue="q")
    def task(n: int) -> int:
        return n

    task.enqueue(0)
    if url.startswith("sqlite"):
        import sqlite3

        connection: Any = sqlite3.connect(url.removeprefix("sqlite:///"))
    else:
        import psycopg

        connection = psycopg.connect(url)
    task.within(connection).enqueue(1)
    connection.rollback()
    kept = task.options(delay_seconds=0).within(connection).enqueue(2)
    connection.commit()
    connection.close()
    assert tasks.drain() == 2
    assert kept.result() == 2


def test_which_errors_are_worth_another_attempt(tasks: Tasks) -> None:
    raised: list[Callable[[], BaseException]] = []

    @tasks.task(queue="q", retry=Retry(on=(ConnectionError,), attempts=3, seconds=0))
    def task(n: int) -> None:
        make = raised[n]
        raise make()

    raised += [
        lambda: ConnectionError("down"),
        lambda: KeyError("wrong"),
        lambda: GiveUp("no use"),
        lambda: Defer(delay_seconds=60),
        lambda: TryAgain(delay_seconds=60),
        lambda: SystemError("odd"),
    ]
    handles = [task.enqueue(n) for n in range(len(raised))]
    assert tasks.drain() == len(raised) + 2  # the first one twice more
    dead = {m.id: m for m in tasks.connection.queue("q-dead").peek()}
    assert set(dead) == {handles[n].id for n in (0, 1, 2, 5)}
    origin = dead[handles[0].id].origin
    assert origin is not None
    assert origin.failures == 3
    assert origin.last_error is not None
    assert origin.last_error.endswith("ConnectionError: down\n")
    assert "tasks/dispatch.py" not in origin.last_error  # from the task on
    with pytest.raises(TaskFailed, match=r"is dead: KeyError: 'wrong'") as failed:
        handles[1].result()
    assert (failed.value.outcome, "raise make()" in (failed.value.error or "")) == (
        "dead",
        True,
    )
    with pytest.raises(TimeoutError, match="has not ended in 0 s"):
        handles[3].result(timeout_seconds=0)
    later = {m.id: m for m in tasks.connection.queue("q").peek()}
    assert {n: later[handles[n].id].failures for n in (3, 4)} == {3: 0, 4: 1}


def test_pauses_double_up_to_a_ceiling() -> None:
    retry = Retry(seconds=2, max_seconds=30)
    found = [retry.pause(n) for n in (0, 1, 2, 10, 10_000)]
    for pause, wanted in zip(found, (2, 4, 8, 30, 30), strict=True):
        assert pause is not None
        assert wanted * 0.9 <= pause <= wanted * 1.1
    assert Retry().pause(3) is None
    for wrong in ({"on": (3,)}, {"attempts": 0}, {"seconds": -1}, {"max_seconds": float("nan")}):
        with pytest.raises(UsageError):
            Retry(**wrong)  # type: ignore[arg-type]


def test_what_is_no_task_of_ours_dies_with_the_reason(tasks: Tasks) -> None:
    @tasks.task(queue="q", name="known")
    def task(n: int) -> None: ...

    queue = tasks.connection.queue("q")
    sent = [
        queue.send({"n": 1}).id,
        queue.send({"n": 1}, headers={"task": "other"}).id,
        queue.send({"m": 1}, headers={"task": "known"}).id,
        queue.send(b"\xff", headers={"task": "known"}).id,
        queue.send({"n": 1}, headers={"task": "known", "then": '[{"task":"gone","given":{}}]'}).id,
        queue.send({"n": 1}, headers={"task": "known", "then": "-"}).id,
    ]
    tasks.drain()
    errors = {
        m.id: m.origin.last_error for m in tasks.connection.queue("q-dead").peek() if m.origin
    }
    misfit = "the payload does not fit known(n: int) -> None:"
    unread = "the rest of the chain, in the header `then`, can't be read:"
    assert [errors[id_].splitlines()[-1] for id_ in sent] == [
        "the message has no header `task`; this worker knows: known",
        "the message names the task 'other'; this worker knows: known",
        f"{misfit} Object contains unknown field `m`",
        f"{misfit} JSON is malformed: invalid character (byte 0)",
        "the next task of the chain, 'gone', is not known to this worker",
        f"{unread} JSON is malformed: invalid number (byte 1)",
    ]


def test_a_chain_hands_results_on(tasks: Tasks) -> None:
    stored: list[Any] = []

    @tasks.task(queue="a")
    async def fetch(url: str) -> list[int]:
        return [1, 2, len(url)]

    @tasks.task(queue="b", channel="parsers")
    def parse(found: list[int], factor: int = 2) -> int:
        return sum(found) * factor

    @tasks.task(queue="a")
    def store(total: int, where: str) -> None:
        stored.append((total, where, current().channel))

    first = chain(
        fetch.s("abc"), parse.s(factor=3), store.s(where="x"), fetch.s(url="end")
    ).enqueue()
    assert tasks.drain() == 4
    assert stored == [(18, "x", "")]
    assert first.result() == [1, 2, 3]
    for wrong, told in (
        ((fetch.s(),), "lacks url"),
        ((fetch.s("a"), store.s()), "lacks total, where"),
        ((fetch.s("a"), parse.s(nobody=1)), "unexpected keyword argument 'nobody'"),
        ((), "at least one step"),
    ):
        with pytest.raises(UsageError, match=told):
            chain(*wrong)


def test_a_link_whose_lease_was_lost_sends_nothing(tasks: Tasks) -> None:
    """Who has the lease by then does."""
    queue = tasks.connection.queue("q")

    @tasks.task(queue="q")
    def first() -> int:
        if current().attempt == 1:
            queue.release([current().receipt])  # as if the lease had run out
        return current().attempt

    seen: list[int] = []

    @tasks.task(queue="q2")
    def second(n: int) -> None:
        seen.append(n)

    chain(first.s(), second.s()).enqueue()
    tasks.drain()
    assert seen == [2]


def test_a_full_queue_stops_no_chain(tasks: Tasks) -> None:
    tasks.connection.queue("q").create(max_attempts=1)

    @tasks.task(queue="q")
    def first() -> int:
        return 1

    @tasks.task(queue="full")
    def second(n: int) -> int:
        return n

    tasks.connection.queue("full").create(max_messages=1)
    second.options(delay_seconds=60).enqueue(0)
    handle = chain(first.s(), second.s()).enqueue()
    tasks.drain()
    with pytest.raises(TaskFailed, match="QueueFull"):
        handle.result()


def test_what_surrounds_a_task(tasks: Tasks) -> None:
    seen: list[str] = []

    def around(name: str) -> None:
        @tasks.around
        @contextmanager
        def block(message: Any) -> Any:
            seen.append(f"{name} in")
            try:
                yield
            except ValueError as error:
                raise GiveUp("translated") from error
            seen.append(f"{name} out")

    around("a")
    around("b")

    @tasks.task()
    def task(ok: bool) -> None:
        if not ok:
            raise ValueError

    task.enqueue(ok=True)
    failed = task.enqueue(ok=False)
    tasks.drain()
    assert seen == ["a in", "b in", "b out", "a out", "a in", "b in"]
    with pytest.raises(TaskFailed, match="translated"):
        failed.result()


def test_eagerly_a_call_is_over_when_it_returns(tasks: Tasks) -> None:
    @tasks.task()
    def task(n: int) -> int:
        return n + 1

    with tasks.eager():
        assert task.enqueue(1).result(timeout_seconds=0) == 2
    assert task.enqueue(1).ending() is None


def test_cancel(tasks: Tasks) -> None:
    @tasks.task()
    def task() -> None: ...

    handle = task.enqueue()
    assert handle.cancel() == turnabout.Cancelled()
    with pytest.raises(TaskFailed, match="is cancelled"):
        handle.result()


def test_for_asyncio_calls_are_awaited(url: str) -> None:
    async def work() -> None:
        tasks = AsyncTasks(url)

        @tasks.task(queue="q", timeout_seconds=0.01, retry=Retry(attempts=1))
        async def double(n: int) -> int:
            await asyncio.sleep(0 if n else 60)
            return 2 * n

        @tasks.task(queue="q")
        def plain(n: int) -> int:
            return n

        handles = [await double.enqueue(4), await plain.enqueue(1), await double.enqueue(0)]
        await chain_async(double.s(1), plain.s()).enqueue()
        assert await tasks.drain() == 5
        assert [await handle.result() for handle in handles[:2]] == [8, 1]
        with pytest.raises(TaskFailed, match="TimeoutError"):
            await handles[2].result()
        await tasks.close()

    asyncio.run(work())


def test_wrong_words_are_refused_at_once(tasks: Tasks, monkeypatch: pytest.MonkeyPatch) -> None:
    for wrong in ({"queue": "no/such name"}, {"unique": "never"}, {"nobody": 1}, {"key": "k"}):
        with pytest.raises(UsageError):
            tasks.task(**wrong)(lambda: None)  # type: ignore[arg-type]

    @tasks.task(name="t")
    def task() -> None: ...

    with pytest.raises(UsageError, match="there is a task t already"):
        tasks.task(name="t")(lambda: None)
    with pytest.raises(UsageError, match=r"options of the task t: .*nobody"):
        task.options(nobody=1)
    monkeypatch.delenv("NO_URL", raising=False)
    with pytest.raises(UsageError, match="the environment has no NO_URL"):
        _ = Tasks("env:NO_URL").connection
    with pytest.raises(UsageError, match="there are no tasks yet"):
        Tasks("sqlite://").worker()
