"""A handler that pauses its channel for a time, as a service asks it to."""

import pytest

import turnabout
from tests.worker.support import Place, alive
from turnabout.words.errors import Busy
from turnabout.words.verbs import PolicySet
from turnabout.worker import AsyncMessage, Message, Pause


@alive
@pytest.mark.parametrize("how", ["raised", "returned", "in a thread"])
async def test_a_handler_pauses_its_channel_for_a_time(place: Place, how: str) -> None:
    worker, seen = place.worker(), list[object]()
    pause = Pause(seconds=600, reason="429")

    def handle(message: AsyncMessage | Message) -> object:
        seen.append(message.json())
        if message.channel != "slow":
            return None
        if how == "returned":
            return pause
        raise pause

    async def handle_async(message: AsyncMessage) -> object:
        return handle(message)

    worker.handler("work", prefetch=0)(handle if how == "in a thread" else handle_async)
    await place.queue.send_many(
        [turnabout.message(n, channel=name) for n, name in enumerate(("slow", "slow", "quick"))]
    )
    stats = await worker.run_async(until_empty=True)
    assert sorted(map(str, seen)) == ["0", "2"]
    assert (stats.handled, stats.deferred, stats.failed) == (1, 1, 0)
    policy = await place.queue.channel("slow").policy()
    assert policy.paused_until is not None
    assert policy.pause_reason == "429"
    held, *_ = await place.queue.peek()
    assert (held.failures, held.attempt) == (0, 1)
    await place.queue.channel("slow").resume()
    (first,) = await place.queue.receive()
    assert first.json() == 0, "in its place"


@alive
async def test_a_message_whose_channel_can_t_be_paused_comes_back_alone(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    worker = place.worker()

    def refuse(verb: object) -> None:
        if isinstance(verb, PolicySet):
            raise Busy("full")

    monkeypatch.setattr(place.store, "before", refuse)

    @worker.handler("work")
    async def handle(_message: AsyncMessage) -> None:
        raise Pause(seconds=600)

    stats = await place.worked_off(worker, "x")
    assert stats.deferred == 1
    (left,) = await place.queue.peek()
    assert left.state == "scheduled"
