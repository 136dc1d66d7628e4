"""Versions of queues: a waiter that asks first and looks then sleeps over nothing."""

import asyncio
import threading
from typing import Any

from turnabout.remote.address import parse
from turnabout.remote.exchange import ServerVersion
from turnabout.remote.notifications import RemoteNotifier
from turnabout.remote.transport import IDLE_SECONDS, SingleConnections
from turnabout.words.verb import Change


def begins(_queue: str, _change: Change) -> None:
    """Nobody listens."""


def waiter(notifier: RemoteNotifier, seen: int, change: Change = Change.ANY) -> list[str]:
    """Who waits from now on; the list has a word as soon as it is told."""
    told: list[str] = []
    if not notifier.subscribe("q", seen, lambda: told.append("told"), change):
        told.append("at once")
    return told


def test_the_first_version_is_a_change() -> None:
    notifier = RemoteNotifier(begins)
    told = waiter(notifier, notifier.version("q"))
    assert notifier.is_waited_for("q")
    notifier.learn("q", Change.ANY, ServerVersion(7, "a"))
    assert told == ["told"]
    assert not notifier.is_waited_for("q")


def test_the_same_again_is_none_and_another_server_s_is() -> None:
    notifier = RemoteNotifier(begins)
    notifier.learn("q", Change.ANY, ServerVersion(7, "a"))
    seen = notifier.version("q")
    told = waiter(notifier, seen)
    notifier.learn("q", Change.ANY, ServerVersion(7, "a"))
    notifier.learn("other", Change.ANY, ServerVersion(8, "a"))
    assert told == []
    notifier.learn("q", Change.ANY, ServerVersion(7, "b"))
    assert told == ["told"]
    assert notifier.version("q") != seen


def test_an_end_is_not_for_a_receiver() -> None:
    notifier = RemoteNotifier(begins)
    receiver = waiter(notifier, notifier.version("q", Change.READY), Change.READY)
    sender = waiter(notifier, notifier.version("q", Change.ENDED), Change.ENDED)
    notifier.learn("q", Change.ENDED, ServerVersion(7, "a"))
    assert (receiver, sender) == ([], ["told"])
    assert notifier.last("q", Change.READY) is None
    notifier.learn("q", Change.READY, ServerVersion(7, "a"))
    assert receiver == ["told"]


def test_a_change_between_the_question_and_the_wait_is_not_slept_over() -> None:
    notifier = RemoteNotifier(begins)
    seen = notifier.version("q")
    notifier.learn("q", Change.ANY, ServerVersion(7, "a"))
    assert waiter(notifier, seen) == ["at once"]


def test_who_is_woken_has_seen_nothing_new() -> None:
    notifier = RemoteNotifier(begins)
    seen = notifier.version("q")
    told = waiter(notifier, seen)
    notifier.release("q")
    assert told == ["told"]
    assert notifier.version("q") == seen


def test_who_goes_is_not_told() -> None:
    notifier = RemoteNotifier(begins)
    told: list[str] = []

    def tell() -> None:
        told.append("told")

    assert notifier.subscribe("q", 0, tell)
    notifier.unsubscribe("q", tell)
    notifier.unsubscribe("q", tell)
    notifier.learn("q", Change.ANY, ServerVersion(7, "a"))
    assert told == []


def test_at_the_end_nobody_waits() -> None:
    notifier = RemoteNotifier(begins)
    told = waiter(notifier, 0)
    notifier.close()
    assert told == ["told"]
    assert waiter(notifier, 0) == ["at once"]


def test_the_listener_is_told_when_somebody_waits_and_never_before() -> None:
    began: list[tuple[str, bool]] = []
    notifier = RemoteNotifier(lambda queue, _: began.append((queue, notifier.is_waited_for(queue))))
    notifier.wait("q", 0, 0.001)
    asyncio.run(notifier.wait_async("r", 0, 0.001))
    notifier.wait("q", 7, 10)
    assert began == [("q", True), ("r", True)]
    assert not notifier.is_waited_for("q")


def test_a_thread_wakes_a_waiter_on_a_loop() -> None:
    notifier = RemoteNotifier(lambda *_: threading.Thread(target=notifier.notify_all).start())
    asyncio.run(asyncio.wait_for(notifier.wait_async("q", 0, 20), 10))
    assert notifier.version("q") == 1


def test_a_connection_is_used_again_and_an_old_one_is_closed(monkeypatch: Any) -> None:
    now = 0.0
    monkeypatch.setattr("turnabout.remote.transport.time.monotonic", lambda: now)

    async def main() -> None:
        nonlocal now
        connections = SingleConnections(parse("http://127.0.0.1:1", None))
        first, second = await connections.take(), await connections.take()
        connections.put(first)
        connections.put(second)
        assert await connections.take() is second
        now = IDLE_SECONDS + 1
        connections.put(second)
        assert await connections.take() is second
        assert connections._all == {second}
        await connections.close()

    asyncio.run(main())
