"""One client does not get the whole server: its processor, or its memory."""

import asyncio
from typing import Any

import pytest

from tests.server.yard import Yard, there, ticking
from turnabout.server.http.request_guard import RequestGuard
from turnabout.server.tenants import admission
from turnabout.words import verbs as v
from turnabout.words.policy import QueueSettings


def chunked(token: bytes) -> Any:
    """A request whose length is not known before."""
    headers = [(b"host", b"localhost"), (b"transfer-encoding", b"chunked")]
    headers += [(b"authorization", token)] if token else []
    return {"type": "http", "method": "POST", "path": "/", "headers": headers}


async def test_bodies_at_once_are_bounded_and_shared(monkeypatch: pytest.MonkeyPatch) -> None:
    """A greedy sender, and however many there are, leave room for others."""
    monkeypatch.setattr(admission, "BODIES_MAX", 4)
    async with ticking(max_body_bytes=1_000) as one:
        goes_on = asyncio.Event()

        async def keeps(scope: Any, receive: Any, send: Any) -> None:
            await receive()
            await goes_on.wait()
            await send({"type": "http.response.start", "status": 200, "headers": []})

        app = RequestGuard(
            keeps,
            one.context.options,
            one.context.admission,
            one.context.lifecycle,
            one.context.counts,
        )

        async def ask(token: bytes = b"") -> int:
            sent: list[Any] = []

            async def receive() -> Any:
                return {"type": "http.request", "body": bytes(900), "more_body": False}

            async def send(message: Any) -> None:
                sent.append(message)

            await app(chunked(token), receive, send)
            return sent[0]["status"]

        first = [asyncio.ensure_future(ask()) for _ in range(2)]
        await asyncio.sleep(0)
        assert await asyncio.wait_for(ask(), 5) == 503
        counted = one.context.counts.registry.get_sample_value
        assert counted("turnabout_refusals_total", {"limit": "max_body_bytes"}) == 1
        first.append(asyncio.ensure_future(ask(b"Bearer acme")))
        await asyncio.sleep(0)
        assert await asyncio.wait_for(ask(b"Bearer acme"), 5) == 503
        goes_on.set()
        assert await asyncio.gather(*first) == [200, 200, 200]
        assert await ask() == 200
        assert one.context.admission.body_bytes == 0


@there(auth="none")
async def test_many_receives_together_are_bounded_as_one_is(one: Yard) -> None:
    await one.store.run(v.QueueCreate("jobs", QueueSettings()))
    receive = b'{"verb":"receive","queue":"jobs","max_messages":600,"lease_seconds":9}'
    for many, status in ((1, 200), (2, 400)):
        body = b'{"verbs":[' + b",".join([receive] * many) + b"]}"
        answer = await one.ask("POST", "/v1/transaction", body)
        assert answer.status == status
    assert b"max_messages" in answer.body


@there(auth="none")
async def test_others_go_on_while_a_large_body_is_read(one: Yard) -> None:
    await one.store.run(v.QueueCreate("jobs", QueueSettings()))
    inner = b'{"payload":{"json":{' + b",".join(b'"%x":1' % n for n in range(200)) + b"}}}"
    body = b'{"messages":[' + b",".join([inner] * 1_001) + b"]}"
    reading = asyncio.ensure_future(one.ask("POST", "/v1/queues/jobs/messages", body))
    turns = 0
    while not reading.done():
        await asyncio.sleep(0)
        turns += 1
    assert (await reading).status == 400
    assert turns > 20
