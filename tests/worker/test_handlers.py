"""What comes of a handler's run: acked, failed, deferred, dead, or settled by itself."""

import asyncio
import threading
import time
from typing import Any

import pytest

import turnabout
from tests.worker.support import SECONDS, Place, alive, running
from turnabout.words.entities import Receipt
from turnabout.words.errors import UsageError
from turnabout.words.policy import Policy, Rate
from turnabout.words.verbs import Ack, Defer, Fail, Release
from turnabout.worker import AsyncMessage, GiveUp, Message, Worker
from turnabout.worker import Defer as PutOff


@alive
async def test_a_sync_handler_runs_in_a_thread_and_its_return_acks(place: Place) -> None:
    worker, seen = place.worker(), list[tuple[object, bool]]()

    @worker.handler("work", concurrency=2)
    def handle(message: Message) -> None:
        seen.append((message.json(), threading.current_thread() is threading.main_thread()))

    stats = await place.worked_off(worker, 1, 2, 3)
    assert sorted(seen) == [(1, False), (2, False), (3, False)]
    assert stats.handled == 3
    assert (await place.queue.stats()).done == 3


@alive
async def test_an_async_handler_runs_on_the_loop(place: Place) -> None:
    worker, seen = place.worker(), list[object]()

    @worker.handler("work")
    async def handle(message: AsyncMessage) -> None:
        assert threading.current_thread() is threading.main_thread()
        seen.append(message.json())

    await place.worked_off(worker, 1, 2, 3)
    assert seen == [1, 2, 3]
    assert (await place.queue.stats()).done == 3


@alive
async def test_an_object_with_an_async_call_is_an_async_handler(place: Place) -> None:
    class Handler:
        calls = 0

        async def __call__(self, _message: AsyncMessage) -> None:
            self.calls += 1

    worker, handler = place.worker(), Handler()
    worker.handler("work")(handler)
    await place.worked_off(worker, "x")
    assert handler.calls == 1


@alive
async def test_a_raise_fails_the_message_and_keeps_the_traceback(place: Place) -> None:
    worker = place.worker()

    @worker.handler("work", concurrency=2)
    def break_things(message: Message) -> None:
        raise ValueError(f"no {message.text()}")

    await place.queue.create(backoff_seconds=3600)
    stats = await place.worked_off(worker, "bread")
    assert (stats.handled, stats.failed) == (0, 1)
    (left,) = await place.queue.peek()
    assert (left.state, left.failures, left.crashes) == ("scheduled", 1, 0)
    assert left.error is not None
    assert left.error.startswith("Traceback")
    assert "in break_things" in left.error
    assert "turnabout/worker" not in left.error
    assert left.error.rstrip().endswith("ValueError: no bread")


@alive
async def test_defer_brings_it_back_uncharged_with_its_state(place: Place) -> None:
    worker, states = place.worker(), list[bytes | None]()

    @worker.handler("work")
    async def handle(message: AsyncMessage) -> None:
        states.append(message.state)
        if message.state is None:
            raise PutOff(delay_seconds=0, state=b"half")

    stats = await place.worked_off(worker, "x")
    assert states == [None, b"half"]
    assert (stats.deferred, stats.handled, stats.failed) == (1, 1, 0)


@alive
async def test_defer_with_a_delay_is_not_waited_for(place: Place) -> None:
    worker = place.worker()

    @worker.handler("work")
    def handle(_message: Message) -> None:
        raise PutOff(delay_seconds=60)

    await place.worked_off(worker, "x")
    (left,) = await place.queue.peek()
    assert (left.state, left.failures, left.crashes) == ("scheduled", 0, 0)
    assert left.due_at == place.clock.now + 60_000


@alive
async def test_give_up_makes_it_dead_at_once_with_the_reason(place: Place) -> None:
    worker = place.worker()

    @worker.handler("work")
    def handle(_message: Message) -> None:
        raise GiveUp("there is no such user")

    await place.worked_off(worker, "x")
    assert (await place.queue.stats()).dead == 1
    (dead,) = await place.turnabout.queue("work-dead").peek()
    assert dead.origin is not None
    assert (dead.origin.reason, dead.origin.last_error) == ("refused", "there is no such user")


@pytest.mark.parametrize("verb", ["ack", "defer", "fail", "release"])
@pytest.mark.parametrize("colour", ["sync", "async"])
@alive
async def test_what_a_handler_settles_itself_is_not_settled_again(
    place: Place, verb: str, colour: str
) -> None:
    await place.queue.create(backoff_seconds=3600)
    worker = place.worker()
    seen = 0

    def again() -> bool:
        nonlocal seen
        seen += 1
        return seen > 1

    if colour == "sync":

        @worker.handler("work")
        def handle(message: Message) -> None:
            if not again():
                getattr(message, verb)()

    else:

        @worker.handler("work")
        async def handle_async(message: AsyncMessage) -> None:
            if not again():
                await getattr(message, verb)()

    stats = await place.worked_off(worker, "x")
    settled = [v for k in (Ack, Defer, Fail, Release) for v in place.store.of(k)]
    came_back_at_once = verb in ("defer", "release")
    assert len(settled) == (2 if came_back_at_once else 1)
    assert stats.handled == (2 if came_back_at_once else 1)
    assert stats.lost == 0


@alive
async def test_settling_by_receipts_counts_too(place: Place) -> None:
    worker = place.worker()

    @worker.handler("work")
    async def handle(message: AsyncMessage) -> None:
        await message.queue.ack([message.receipt])

    stats = await place.worked_off(worker, "x")
    assert len(place.store.of(Ack)) == 1
    assert (stats.handled, stats.lost) == (1, 0)


@alive
async def test_settled_elsewhere_can_be_said(place: Place) -> None:
    worker = place.worker()

    @worker.handler("work")
    async def handle(message: AsyncMessage) -> None:
        await place.queue.ack([message.receipt])  # as in a transaction of the caller's
        message.mark_settled()

    stats = await place.worked_off(worker, "x")
    assert place.store.of(Ack) == []
    assert (stats.handled, stats.lost) == (1, 0)


@alive
async def test_a_threaded_handler_can_use_the_queue(place: Place) -> None:
    worker, seen = place.worker(), list[str]()

    @worker.handler("work")
    def handle(message: Message) -> None:
        message.extend()
        if message.text() == "first":
            message.queue.send("second")
        seen.append(message.text())

    await place.worked_off(worker, "first")
    assert seen == ["first", "second"]


@alive
async def test_a_handler_that_forgot_async_def_is_told(place: Place) -> None:
    worker = place.worker()

    async def inner() -> None:
        pass

    @worker.handler("work")
    def handle(_message: Message) -> object:
        return inner()

    await place.queue.create(backoff_seconds=3600)
    await place.worked_off(worker, "x")
    (left,) = await place.queue.peek()
    assert left.error is not None
    assert "async def" in left.error


@pytest.mark.parametrize("colour", ["sync", "async"])
@alive
async def test_a_handler_s_exit_fails_its_message_and_not_the_worker(
    place: Place, colour: str
) -> None:
    """Argparse and click end so; also where it is none of its own, such as a generator's."""
    worker = place.worker()
    ends = {b"w": KeyboardInterrupt(), b"x": SystemExit(0), b"y": GeneratorExit()}
    ends |= {b"z": asyncio.CancelledError()}
    await place.queue.create(backoff_seconds=3600)
    if colour == "sync":

        @worker.handler("work")
        def handle(message: Message) -> None:
            if message.payload in ends:
                raise ends[message.payload]

    else:

        @worker.handler("work")
        async def handle_async(message: AsyncMessage) -> None:
            if message.payload in ends:
                raise ends[message.payload]

    stats = await place.worked_off(worker, "w", "x", "y", "z", "good")
    assert (stats.handled, stats.failed) == (1, 4)
    errors = [str(one.error).splitlines()[-1] for one in await place.queue.peek()]
    assert errors[:2] == ["KeyboardInterrupt", "SystemExit: 0"]
    assert errors[2:] == ["GeneratorExit", "asyncio.exceptions.CancelledError"]


@alive
async def test_handlers_that_end_together_are_acked_by_one_call(place: Place) -> None:
    worker, begun = place.worker(), list[Receipt]()
    all_there = asyncio.Barrier(10)

    @worker.handler("work", concurrency=10)
    async def handle(message: AsyncMessage) -> None:
        begun.append(message.receipt)
        await all_there.wait()

    await place.send(*range(10))
    async with running(worker):
        await place.store.until(Ack)
    (ack,) = place.store.of(Ack)
    assert sorted(ack.receipts, key=str) == sorted(begun, key=str)


@alive
async def test_never_more_leases_than_concurrency_and_prefetch(place: Place) -> None:
    worker, leased = place.worker(), list[int]()
    all_there = asyncio.Barrier(3)

    @worker.handler("work", concurrency=3, prefetch=2)
    async def handle(_message: AsyncMessage) -> None:
        await all_there.wait()
        leased.append((await place.queue.stats()).leased)

    await place.worked_off(worker, *range(21))
    assert len(leased) == 21
    assert max(leased) <= 5


@alive
async def test_several_queues_and_one_that_feeds_another(place: Place) -> None:
    worker, seen = place.worker(), list[str]()

    @worker.handler("second")
    async def second(message: AsyncMessage) -> None:
        seen.append(message.text())

    @worker.handler("first")
    def first(message: Message) -> None:
        seen.append(message.text())
        asyncio.run_coroutine_threadsafe(place.send("b", queue="second"), loop).result()

    loop = asyncio.get_running_loop()
    await place.worked_off(worker, "a", queue="first")
    assert seen == ["a", "b"]
    assert worker.queues == ("second", "first")


@alive
async def test_until_empty_waits_for_what_only_waits_for_its_rate(place: Place) -> None:
    worker, seen = place.worker(), list[object]()
    await place.queue.create(policy=Policy(rate=Rate(1, per_seconds=0.01)))

    @worker.handler("work")
    async def handle(message: AsyncMessage) -> None:
        seen.append(message.json())
        place.clock.advance(0.01)

    await place.send(1, 2, 3)
    place.store.before = lambda _: place.clock.advance(0.005)
    await worker.run_async(until_empty=True)
    assert seen == [1, 2, 3]


@alive
async def test_until_empty_waits_for_a_retry_that_is_near_and_counts_what_it_leaves(
    place: Place,
) -> None:
    await place.queue.create(fifo=True, backoff_seconds=0.01, backoff_max_seconds=3600)
    worker, seen = place.worker(), list[str]()

    @worker.handler("work")
    async def handle(message: AsyncMessage) -> None:
        seen.append(message.text())
        if message.text() == "later":
            await place.queue.update(backoff_seconds=3600)
        if message.attempt == 1 and message.text() != "second":
            raise ValueError

    await place.send("first", "second", "later", "behind it")
    place.store.before = lambda _: place.clock.advance(0.005)
    await worker.run_async(until_empty=True)
    assert seen == ["first", "first", "second", "later"]
    (left,) = worker.left
    assert (left.queue, left.scheduled, left.ready, left.leased) == ("work", 1, 1, 0)


@alive
async def test_until_empty_does_not_wait_for_a_paused_queue(place: Place) -> None:
    worker = place.worker()
    worker.handler("work")(lambda _message: None)
    await place.send("x")
    await place.queue.pause()
    assert (await worker.run_async(until_empty=True)).handled == 0


@alive
async def test_a_worker_ends_after_so_many_messages(place: Place) -> None:
    worker = place.worker()
    worker.handler("work")(lambda _message: None)
    await place.send(*range(5))
    stats = await worker.run_async(max_handled=2)
    assert (stats.handled, worker.is_used_up) == (2, True)
    stats = await worker.run_async(max_handled=9, until_empty=True)
    assert (stats.handled, worker.is_used_up) == (5, False)


@alive
async def test_shards_share_the_channels(place: Place) -> None:
    channels = [f"customer-{number}" for number in range(20)]
    for channel in channels:
        await place.send(channel, channel=channel)
    seen: list[list[str]] = [[], []]
    for index in (0, 1):
        worker = place.worker(shard=(index, 2))

        @worker.handler("work", concurrency=4)
        async def handle(message: AsyncMessage, *, index: int = index) -> None:
            seen[index].append(message.channel)

        await worker.run_async(until_empty=True)
    assert sorted(seen[0] + seen[1]) == sorted(channels)
    assert seen[0]
    assert seen[1]


@alive
async def test_missing_queues_are_made_with_the_settings_given(place: Place) -> None:
    worker = place.worker()
    worker.handler("work", settings={"max_attempts": 2})(lambda _message: None)
    await worker.run_async(until_empty=True)
    assert (await place.queue.settings()).max_attempts == 2


def test_settings_for_a_queue_that_is_there_are_said_to_be_ignored(
    caplog: pytest.LogCaptureFixture,
) -> None:
    @alive
    async def check(place: Place) -> None:
        await place.queue.create(max_attempts=3, fifo=True)
        worker = place.worker()
        wanted = {"max_attempts": 2, "fifo": True, "lease_seconds": 9}
        worker.handler("work", settings=wanted)(lambda _message: None)
        await worker.run_async(until_empty=True)
        assert (await place.queue.settings()).max_attempts == 3

    check()
    (record,) = [one for one in caplog.records if one.levelname == "WARNING"]
    assert "the queue work was there, and goes on as it was" in record.getMessage()
    assert "max_attempts, lease_seconds otherwise" in record.getMessage()


def test_what_is_no_place_and_no_function() -> None:
    with (
        turnabout.connect("sqlite://") as blocking,
        pytest.raises(UsageError, match=r"of turnabout\.aio\.connect, not Turnabout"),
    ):
        Worker(blocking)  # pyright: ignore[reportArgumentType]
    with pytest.raises(UsageError, match="a handler is a function, not str"):
        Worker("sqlite://").handler("work")("send_email")  # pyright: ignore[reportArgumentType]


@alive
async def test_a_queue_has_one_handler_a_worker_some_and_their_settings_are_known(
    place: Place,
) -> None:
    worker = place.worker()
    with pytest.raises(UsageError, match="no handler"):
        await worker.run_async()
    with pytest.raises(UsageError, match="colour"):
        worker.handler("work", settings={"colour": "red"})
    worker.handler("work")(lambda _message: None)
    with pytest.raises(UsageError, match="already has a handler"):
        worker.handler("work")


@pytest.mark.parametrize(
    ("function", "transaction"),
    [
        (lambda: None, False),
        (lambda _message, _connection: None, False),
        (lambda _message, *, _must: None, False),
        (lambda _message: None, True),
    ],
)
@alive
async def test_a_handler_that_cannot_be_called_is_refused_at_once(
    place: Place, function: Any, transaction: bool
) -> None:
    register = place.worker().handler("work", transaction=transaction)
    with pytest.raises(UsageError, match="is called with a message"):
        register(function)


@alive
async def test_a_handler_may_take_more_than_it_is_called_with(place: Place) -> None:
    place.worker().handler("a")(lambda _message, _more=None, **_rest: None)
    place.worker().handler("b", transaction=True)(lambda *_given: None)
    place.worker().handler("c")(print)


@pytest.mark.parametrize("are_there", [0, 1])
@alive
async def test_where_the_system_allows_no_more_threads_messages_are_not_kept(
    place: Place, are_there: int
) -> None:
    """Without any thread the message fails, and comes back; with one it waits for that one."""
    start, refused = threading.Thread.start, list[threading.Thread]()

    def sometimes(thread: threading.Thread) -> None:
        number = thread.name.removeprefix("turnabout-handler-")
        if number.isdecimal() and int(number) > are_there and len(refused) < 2 - are_there:
            refused.append(thread)
            raise RuntimeError("can't start new thread")
        start(thread)

    await place.queue.create(backoff_seconds=0.0)
    worker = place.worker()

    @worker.handler("work", concurrency=2)
    def handle(_message: Message) -> None:
        while not refused:
            time.sleep(0.001)

    await place.send(*"abcd")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(threading.Thread, "start", sometimes)
        stats = await asyncio.wait_for(worker.run_async(until_empty=True), SECONDS)
    assert len(refused) == 2 - are_there
    assert (stats.handled, stats.failed) == (4, 0 if are_there else 2)
