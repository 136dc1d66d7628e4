"""A user's program that is right: strict checkers have nothing to say of it."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import assert_type

import turnabout
import turnabout.aio
from turnabout.tasks import AsyncHandle, AsyncTasks, Handle, Retry, Tasks, chain
from turnabout.worker import AsyncMessage, Defer, Message, Worker


class Template(Enum):
    WELCOME = "welcome"


@dataclass
class Letter:
    to: str
    pages: int = 1


tasks = Tasks("sqlite:///app.db")
aio_tasks = AsyncTasks("sqlite:///app.db")
worker = Worker("sqlite:///app.db")


@tasks.task(queue="emails", channel=lambda to, **_: to, retry=Retry(on=(OSError,), attempts=5))
def send(to: str, customer: str, template: Template = Template.WELCOME) -> int:
    return len(to + customer + template.value)


@tasks.task()
async def fetch(url: str) -> list[int]:
    return [len(url)]


@aio_tasks.task(unique="until_finished")
async def post(letter: Letter) -> Letter:
    return letter


@tasks.every("0 3 * * *", zone="Europe/Berlin")
def cleanup() -> None: ...


def blocking() -> None:
    handle = send.enqueue("ada@example.org", customer="acme")
    assert_type(handle, Handle[int])
    assert_type(handle.result(timeout_seconds=10), int)
    assert_type(send.options(delay_seconds=60).enqueue("a", "b"), Handle[int])
    assert_type(fetch.enqueue("https://example.org").result(), list[int])
    chain(fetch.s("https://example.org"), send.s(customer="acme")).enqueue()
    cleanup()


async def waiting() -> None:
    handle = await post.enqueue(Letter("ada@example.org"))
    assert_type(handle, AsyncHandle[Letter])
    assert_type(await handle.result(), Letter)


@worker.handler("emails", concurrency=10)
def handle_letter(message: Message) -> None:
    if message.attempt > 1:
        raise Defer(delay_seconds=60)


@worker.handler("others")
async def handle_other(message: AsyncMessage) -> str:
    return message.text()


def loop() -> None:
    with turnabout.connect("sqlite:///app.db") as mq:
        emails = mq.queue("emails")
        match emails.send({"to": "ada@example.org"}, channel="acme"):
            case turnabout.Sent() as sent:
                assert_type(sent.id, int)
            case turnabout.ChannelFull(channel=channel):
                assert_type(channel, str)
            case turnabout.QueueFull():
                pass
        for message in emails.consume(wait_seconds=None):
            assert_type(message.channel, str)
            message.ack(result={"n": 1}, then={"next": [turnabout.message("x")]})


async def loop_async() -> None:
    async with turnabout.aio.connect("sqlite:///app.db") as mq:
        async for message in mq.queue("emails").consume(wait_seconds=20):
            assert_type(message.payload, bytes)
