"""The short way of busy requests answers as the long one does."""

import asyncio
import re
from typing import Any

import pytest

from turnabout.server import ServerOptions, create_app
from turnabout.sqlite.async_store import AsyncSqliteStore

SEND = b'{"messages":[{"payload":{"text":"x"}}]}'
REQUESTS: list[tuple[str, str, bytes, dict[str, str]]] = [
    ("POST", "/v1/queues/q/messages", SEND, {}),
    ("POST", "/v1/queues/q/messages", b"{", {}),
    ("POST", "/v1/queues/q/messages", SEND, {"host": "evil.example"}),
    ("POST", "/v1/queues/q/messages", SEND, {"origin": "https://evil.example"}),
    ("POST", "/v1/queues/q/messages", SEND, {"authorization": "Bearer tbt_no_no"}),
    ("POST", "/v1/queues/no.such/receive", b"{}", {}),
    ("POST", "/v1/queues/a%2Fb/receive", b"{}", {}),
    ("POST", "/v1/queues/ /receive", b"{}", {}),
    ("POST", "/v1/queues//receive", b"{}", {}),
    ("POST", "/v1/queues/q/receive/more", b"{}", {}),
    ("POST", "/v1/queues/q/nothing", b"{}", {}),
    ("GET", "/v1/queues/q/receive", b"", {}),
    ("OPTIONS", "/v1/queues/q/receive", b"", {}),
    ("POST", "/v1/queues/q/receive", b'{"max_messages":0}', {}),
    ("POST", "/v1/queues/q/ack", b'{"receipts":["7.1"]}', {}),
    ("POST", "/v1/queues/q/send", b"raw", {"content-type": "text/plain"}),
    ("POST", "/v1/queues/q/messages", b"x" * 3_000, {}),
]


async def ask(app: Any, request: tuple[str, str, bytes, dict[str, str]]) -> tuple[Any, ...]:
    method, path, body, headers = request
    given = {"host": "127.0.0.1", "content-length": str(len(body)), **headers}
    scope = {
        "type": "http", "method": method, "path": path.replace("%2F", "/"),
        "raw_path": path.encode(), "query_string": b"", "root_path": "", "scheme": "http",
        "headers": [(name.encode(), value.encode()) for name, value in given.items()],
        "client": ("127.0.0.1", 1), "server": ("127.0.0.1", 80), "state": {},
    }  # fmt: skip
    sent: list[Any] = []

    async def receive() -> Any:
        return {"type": "http.request", "body": body, "more_body": False}

    async def send(message: Any) -> None:
        sent.append(message)

    await app(scope, receive, send)
    found = {name.decode(): value for name, value in sent[0].get("headers", ())}
    assert found.pop("x-request-id")
    answer = b"".join(message.get("body", b"") for message in sent[1:])
    return sent[0]["status"], found, re.sub(rb'"[a-z_]+_at":\d+', b"", answer)


@pytest.mark.parametrize("with_tracing", [False, True])
def test_both_ways_answer_alike(with_tracing: bool) -> None:
    async def answers(*, short: bool) -> list[Any]:
        store = AsyncSqliteStore("sqlite://")
        try:
            options = ServerOptions(max_body_bytes=2_000, tracing=with_tracing)
            app = create_app(store, options)
            assert app._short is not None
            if not short:
                app._short = None
            found = [await ask(app, request) for request in REQUESTS]
            counted = {key: n for key, n in app.state.house.counts.requests.items() if n}
            return [*found, counted]
        finally:
            await store.close()

    short = asyncio.run(answers(short=True))
    assert short == asyncio.run(answers(short=False))
    statuses = [one[0] for one in short[:-1]]
    assert statuses == [
        200, 400, 400, 403, 401, 404, 404, 400, 404, 404, 404, 405, 405, 400, 200, 200, 413,
    ]  # fmt: skip
    assert ("/v1/queues/{queue}/messages", "POST", 200) in short[-1]
