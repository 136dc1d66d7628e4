"""LISTEN and NOTIFY between stores: heard at once, the last of many too; and polling without."""

import asyncio
import time
from collections.abc import Iterator
from typing import Any

import pytest

import turnabout
import turnabout.aio
from tests.postgres.asking import ask, eventually
from tests.postgres.test_store import OTHERS, Beside
from tests.postgres.test_url import and_also
from tests.support.postgres import one_migrated_url
from turnabout import UsageError

pytestmark = [pytest.mark.slow, pytest.mark.real_time]

PATIENT = "poll_seconds=30"  # so that only a notification can be the reason
AT_ONCE = 15.0  # far less than that, also on a machine that is busy with something else


url = one_migrated_url


@pytest.fixture
def receiver(url, name) -> Iterator[Any]:
    """A queue seen by a store that waits, and that listens already."""
    with turnabout.connect(and_also(url, PATIENT)) as mq:
        queue = mq.queue(name)
        queue.create()
        assert not queue.receive(wait_seconds=0.05)
        yield queue


def asleep(call: Beside, seconds: float = 0.2) -> None:
    time.sleep(seconds)
    assert call._thread.is_alive(), call._answer


@pytest.mark.parametrize("what", ["send", "release", "defer", "policy", "resume", "slot"])
def test_what_makes_a_message_ready_is_heard_by_another_store(url, name, receiver, what):
    with turnabout.connect(url) as other:
        queue = other.queue(name)
        if what == "send":
            act = lambda: queue.send("x")  # noqa: E731
        elif what in ("release", "defer"):
            queue.send("x")
            (m,) = queue.receive(lease_seconds=600)
            act = getattr(m, what)
        elif what == "policy":
            queue.send("x", channel="a")
            queue.channel("a").pause()
            assert not queue.receive()
            act = queue.channel("a").resume
        elif what == "slot":
            queue.channel("a").set_policy(turnabout.Policy(max_concurrency=1))
            queue.send_many([turnabout.message(text, channel="a") for text in ("held", "x")])
            act = queue.receive(lease_seconds=600)[0].ack
        else:
            queue.pause()
            queue.send("x")
            act = queue.resume
        time.sleep(0.2)  # what was said so far has been heard
        call = Beside(lambda: receiver.receive(wait_seconds=20))
        asleep(call)
        acted = time.monotonic()
        act()
        assert [m.text() for m in call.answer()] == ["x"]
        assert time.monotonic() - acted < AT_ONCE


def test_the_last_of_many_quick_sends_is_heard(url, name, receiver):
    """Most notifications of a burst are left out; never the one at its end."""
    heard: dict[str, float] = {}

    def listen() -> None:
        while "99" not in heard and (batch := receiver.receive(10, wait_seconds=10)):
            for m in batch:
                heard[m.text()] = time.monotonic()
                m.ack()

    with turnabout.connect(url) as other:
        queue = other.queue(name)
        queue.send("warm")
        call = Beside(listen)
        for n in range(100):
            queue.send(f"{n}")
        sent = time.monotonic()
        call.answer()
    assert heard["99"] - sent < AT_ONCE
    assert len(heard) == 101


async def test_asyncio_hears_and_is_heard(url, name, receiver) -> None:
    async with (
        turnabout.aio.connect(and_also(url, PATIENT)) as mq,
        turnabout.aio.connect(url) as other,
    ):
        assert not await mq.queue(name).receive(wait_seconds=0.05)
        call = asyncio.ensure_future(mq.queue(name).receive(wait_seconds=20))
        await asyncio.sleep(0.2)
        sent = time.monotonic()
        await other.queue(name).send("x")
        (m,) = await call
        assert time.monotonic() - sent < AT_ONCE
        await m.ack()

        done = 0
        sent = 0.0

        async def send() -> None:
            nonlocal sent
            for n in range(100):
                await other.queue(name).send(f"{n}")
            sent = time.monotonic()

        sending = asyncio.ensure_future(send())
        while done < 100:
            batch = await mq.queue(name).receive(10, wait_seconds=10)
            assert batch, f"{done} of 100"
            done += len(batch)
            await mq.queue(name).ack([m.receipt for m in batch])
        await sending
        assert time.monotonic() - sent < AT_ONCE

        waiting = Beside(lambda: receiver.receive(wait_seconds=20))
        await asyncio.sleep(0.2)
        await other.queue(name).send("to a thread")
        assert len(await asyncio.to_thread(waiting.answer)) == 1
        assert waiting.took < 0.2 + AT_ONCE + 0.2


def test_without_listen_it_polls(url, name):
    """As behind a transaction pooler: nobody listens, and a waiter asks now and then."""
    options = "listen=off&prepare=off&poll_seconds=0.2&application_name=deaf"
    with turnabout.connect(and_also(url, options)) as mq, turnabout.connect(url) as other:
        queue = mq.queue(name)
        queue.create()
        call = Beside(lambda: queue.receive(wait_seconds=20))
        asleep(call, 0.5)
        sessions = ask(url, f"select query {OTHERS} and application_name = 'deaf'")
        assert len(sessions) == 1
        assert not any("listen" in query for (query,) in sessions)
        sent = time.monotonic()
        other.queue(name).send("x")
        assert len(call.answer()) == 1
        assert time.monotonic() - sent < AT_ONCE


@pytest.mark.parametrize("listens_again", [True, False])
def test_news_reach_a_listener_that_was_cut_off(url, name, listens_again):
    """When it listens again, and while it was away."""
    with (
        turnabout.connect(and_also(url, f"{PATIENT}&application_name=ear")) as mq,
        turnabout.connect(url) as other,
    ):
        queue = mq.queue(name)
        queue.create()
        call = Beside(lambda: queue.receive(wait_seconds=25))
        listening = f"select pid {OTHERS} and application_name = 'ear' and query like 'listen %%'"
        (pid,) = eventually(url, listening)
        ask(url, "select pg_terminate_backend(%s, 5000)", pid)
        if listens_again:
            (again,) = eventually(url, listening)
            assert again != pid
        sent = time.monotonic()
        other.queue(name).send("x")
        assert len(call.answer()) == 1
        assert time.monotonic() - sent < AT_ONCE


def test_close_ends_a_wait_quickly(url, name):
    """`Calls that wait return; later calls raise UsageError`, as `close` says."""
    with turnabout.connect(and_also(url, PATIENT)) as mq:
        queue = mq.queue(name)
        queue.create()
        calls = [Beside(lambda: queue.receive(wait_seconds=25)) for _ in range(3)]
        begun = time.monotonic()
        while sum(map(len, mq._shared.waiters.values())) < len(calls):
            assert time.monotonic() - begun < AT_ONCE
            time.sleep(0.01)
        mq.close()
        for call in calls:
            answer = call.answer()
            assert call.took < 15
            assert not isinstance(answer, Exception), repr(answer)
            assert len(answer) == 0
        with pytest.raises(UsageError):
            queue.receive()


async def test_close_ends_a_wait_quickly_for_asyncio(url, name) -> None:
    mq = turnabout.aio.connect(and_also(url, PATIENT))
    queue = mq.queue(name)
    await queue.create()
    call = asyncio.ensure_future(queue.receive(wait_seconds=25))
    await asyncio.sleep(0.3)
    closed = time.monotonic()
    await mq.close()
    assert len(await asyncio.wait_for(call, 15)) == 0
    assert time.monotonic() - closed < 15


def test_a_closed_store_leaves_no_session_behind(url, name):
    for _ in range(2):
        with turnabout.connect(and_also(url, "application_name=gone")) as mq:
            mq.queue(name).create()
            mq.queue(name).receive(wait_seconds=0.1)
            mq.queue(name).send("x")
            mq.queue(name).send("y")  # its notification is still to come
    left = f"select pid, query {OTHERS} and application_name = 'gone'"
    eventually(url, f"select 1 where not exists ({left})")
