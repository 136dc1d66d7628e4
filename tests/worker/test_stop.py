"""How a worker stops: what runs may finish, what is left goes back uncharged."""

import asyncio
import contextlib
import signal
import threading
from unittest import mock

import pytest

import turnabout
from tests.worker.support import SECONDS, Place, alive, place, running, waiting
from turnabout.words.entities import Outgoing
from turnabout.words.verbs import Ack, Receive, Release, Send, Verb
from turnabout.worker import AsyncMessage, Message
from turnabout.worker.message import BridgeStore


@alive
async def test_handlers_that_run_may_finish_and_no_more_is_taken(place: Place) -> None:
    worker, begun, go = place.worker(), asyncio.Event(), asyncio.Event()

    worker.handler("work")(waiting(begun, go))

    await place.send("x", "y")
    task = asyncio.create_task(worker.run_async())
    await begun.wait()
    worker.stop()
    await asyncio.sleep(0)
    go.set()
    stats = await asyncio.wait_for(task, SECONDS)
    assert (stats.handled, stats.released) == (1, 0)
    (left,) = await place.queue.peek()
    assert (left.state, left.attempt) == ("ready", 0)


@alive
async def test_after_the_grace_an_async_handler_is_cancelled_and_its_message_goes_back(
    place: Place,
) -> None:
    worker, begun = place.worker(grace_seconds=0.01), asyncio.Event()

    worker.handler("work")(waiting(begun))

    async with place.begun(worker, begun, "x"):
        pass
    assert worker.stats.released == 1
    (left,) = await place.queue.peek()
    assert (left.state, left.failures, left.crashes) == ("ready", 0, 0)


@alive
async def test_after_the_grace_a_thread_is_left_behind_and_its_late_verbs_are_refused(
    place: Place,
) -> None:
    worker, begun, go = place.worker(grace_seconds=0.01), asyncio.Event(), threading.Event()
    loop, messages = asyncio.get_running_loop(), list[Message]()

    @worker.handler("work")
    def handle(message: Message) -> None:
        messages.append(message)
        loop.call_soon_threadsafe(begun.set)
        go.wait(SECONDS)

    async with place.begun(worker, begun, "x"):
        pass
    assert messages[0].lost
    assert worker.stats.released == 1
    (left,) = await place.queue.peek()
    assert (left.state, left.failures, left.crashes) == ("ready", 0, 0)
    (late,) = await place.queue.ack([messages[0].receipt])
    assert type(late).__name__ == "LeaseLost"
    go.set()


@alive
async def test_what_was_fetched_ahead_goes_back_at_once(place: Place) -> None:
    worker, begun, go = place.worker(), asyncio.Event(), asyncio.Event()

    worker.handler("work", prefetch=3)(waiting(begun, go))

    async with place.begun(worker, begun, *range(4)) as task:
        worker.stop()
        await place.store.until(Release)
        assert (await place.queue.stats()).ready == 3
        assert not task.done()  # one handler still runs
        go.set()
    assert (worker.stats.handled, worker.stats.released) == (1, 3)
    assert all(left.failures + left.crashes == 0 for left in await place.queue.peek())


@alive
async def test_what_a_receive_under_way_brings_goes_back(place: Place) -> None:
    worker = place.worker()
    worker.handler("work")(lambda _message: None)

    def stop(verb: Verb[object]) -> None:
        if isinstance(verb, Receive):
            worker.stop()
            # `stop` speaks to the loop; have it listen before this answer is looked at.
            asyncio.get_running_loop().call_soon(lambda: None)

    place.store.before = stop
    await place.send("x")
    stats = await asyncio.wait_for(worker.run_async(), SECONDS)
    assert stats.handled + stats.released == 1
    assert (await place.queue.stats()).leased == 0


@alive
async def test_stop_before_run_ends_it_at_once(place: Place) -> None:
    worker = place.worker()
    worker.handler("work")(lambda _message: None)
    worker.stop()
    await place.send("x")
    assert (await asyncio.wait_for(worker.run_async(), SECONDS)).handled == 0


@alive
async def test_stop_works_from_another_thread_and_the_worker_can_run_again(place: Place) -> None:
    worker, seen = place.worker(), asyncio.Event()

    @worker.handler("work")
    async def handle(_message: AsyncMessage) -> None:
        seen.set()

    for _ in range(2):
        await place.send("x")
        task = asyncio.create_task(worker.run_async())
        await asyncio.wait_for(seen.wait(), SECONDS)
        seen.clear()
        threading.Thread(target=worker.stop).start()
        await asyncio.wait_for(task, SECONDS)
    assert len(place.store.of(Ack)) == 2
    assert worker.stats.handled == 2


@alive
async def test_a_waiting_worker_hears_of_a_send_at_once(place: Place) -> None:
    worker, seen = place.worker(poll_seconds=3600), asyncio.Event()

    @worker.handler("work")
    async def handle(_message: AsyncMessage) -> None:
        seen.set()

    async with running(worker):
        await place.store.until(Receive)
        await place.send("x")
        await asyncio.wait_for(seen.wait(), SECONDS)


@alive
async def test_an_async_handler_that_will_not_end_loses_its_message(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("turnabout.worker.run.SETTLE_SECONDS", 0.05)
    worker, begun, go = place.worker(grace_seconds=0), asyncio.Event(), asyncio.Event()

    @worker.handler("work")
    async def handle(_message: AsyncMessage) -> None:
        begun.set()
        while not go.is_set():
            with contextlib.suppress(asyncio.CancelledError):
                await go.wait()

    async with place.begun(worker, begun, "x"):
        pass
    assert worker.stats.released == 1
    (left,) = await place.queue.peek()
    assert (left.state, left.failures, left.crashes) == ("ready", 0, 0)
    go.set()
    await asyncio.sleep(0)


@alive
async def test_a_task_that_is_cancelled_before_its_first_step_is_not_forgotten(
    place: Place,
) -> None:
    await place.queue.create(backoff_seconds=3600)
    worker = place.worker()

    @worker.handler("work", concurrency=2)
    async def handle(_message: AsyncMessage) -> None:
        raise AssertionError("it must not even begin")

    def cancel_all() -> None:
        for task in asyncio.all_tasks():
            if task.get_name().startswith("turnabout work "):
                task.cancel()

    def after(verb: Verb[object]) -> None:
        if isinstance(verb, Receive):  # comes before the first step of the tasks it leads to
            asyncio.get_running_loop().call_soon(cancel_all)

    place.store.after = after
    await place.send("x", "y")
    stats = await asyncio.wait_for(worker.run_async(until_empty=True), SECONDS)
    assert stats.failed == 2
    assert all("CancelledError" in (left.error or "") for left in await place.queue.peek())


def test_a_call_from_a_thread_that_the_end_cuts_off_may_have_happened() -> None:
    """The loop ends between the commit and the answer."""
    errors = list[BaseException]()
    sent = threading.Event()

    async def main() -> None:
        async with place() as made:
            made.store.after = lambda _: sent.set()

            async def lose_the_answer(verb: Verb[object]) -> object:
                await made.store.run(verb)
                await asyncio.Event().wait()

            bridge = BridgeStore(mock.Mock(run=lose_the_answer), asyncio.get_running_loop())

            def send() -> None:
                try:
                    bridge.run(Send("work", (Outgoing(b"x"),)))
                except turnabout.TurnaboutError as error:
                    errors.append(error)

            thread.append(threading.Thread(target=send))
            thread[0].start()
            await asyncio.to_thread(sent.wait, SECONDS)
            assert len(await made.queue.peek()) == 1

    thread = list[threading.Thread]()
    asyncio.run(main())
    thread[0].join(SECONDS)
    assert [type(error) for error in errors] == [turnabout.Uncertain]


@alive
async def test_cancelling_the_run_gives_back_what_it_holds(place: Place) -> None:
    worker, begun, ends = place.worker(), asyncio.Event(), list[str]()

    @worker.handler("work", prefetch=1)
    async def handle(_message: AsyncMessage) -> None:
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            ends.append("cancelled")

    await place.send("x", "y")
    run = asyncio.create_task(worker.run_async())
    await begun.wait()
    run.cancel()
    with pytest.raises(asyncio.CancelledError):
        await run
    assert ends == ["cancelled"]
    assert worker.stats.released == 2
    left = await place.queue.peek()
    assert [(m.state, m.failures, m.crashes) for m in left] == [("ready", 0, 0)] * 2


@alive
async def test_ctrl_c_that_nobody_takes_over_ends_the_worker(place: Place) -> None:
    worker = place.worker()

    @worker.handler("work")
    async def handle(_message: AsyncMessage) -> None:
        signal.raise_signal(signal.SIGINT)

    await place.send("x")
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with pytest.raises(KeyboardInterrupt):
            await worker.run_async()
    finally:
        signal.signal(signal.SIGINT, before)
