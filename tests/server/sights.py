"""An app without a network for the tests of metrics, health and logs: its own loop, in memory."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx2

from tests.support.loops import inside
from turnabout.server import ServerOptions, create_app
from turnabout.server.context import ServerContext
from turnabout.server.verbs import TokenCreate, new_token, scopes, token_text
from turnabout.sqlite.async_store import AsyncSqliteStore
from turnabout.words import entities as e
from turnabout.words import verbs as v
from turnabout.words.errors import Disconnected


class Watched:
    """A store that notes what it is asked, and fails or hangs when it is told to."""

    def __init__(self, url: str) -> None:
        self.inner = AsyncSqliteStore(url)
        self.asked: list[v.Verb[Any]] = []
        self.error: Exception | None = None
        self.hangs: asyncio.Event | None = None
        self.free_bytes = 10.0**10

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)

    async def run(self, verb: v.Verb[Any]) -> Any:
        self.asked.append(verb)
        if self.hangs is not None:
            await self.hangs.wait()
        if self.error is not None:
            raise self.error
        return await self.inner.run(verb)

    def measures(self) -> dict[str, float]:
        return {**self.inner.measures(), "disk_free_bytes": self.free_bytes}

    def times(self, kind: type[v.Verb[Any]]) -> int:
        return sum(isinstance(verb, kind) for verb in self.asked)


class Sight:
    """The app, its store, and a client."""

    def __init__(self, client: httpx2.AsyncClient, context: ServerContext, store: Watched) -> None:
        self.client, self.context, self.store = client, context, store

    async def get(self, path: str, **headers: str) -> httpx2.Response:
        return await self.client.get(path, headers=headers)

    async def send(self, queue: str, count: int = 1, channel: str = "") -> None:
        messages = tuple(e.Outgoing(b"{}", channel=channel) for _ in range(count))
        await self.context.batched.run(v.Send(queue, messages))

    async def finish(self, queue: str, count: int) -> None:
        received = await self.context.batched.run(v.Receive(queue, count))
        receipts = tuple(d.receipt for d in received.deliveries)
        await self.context.batched.run(v.Ack(queue, receipts))

    async def token(self, *texts: str, namespace: str = "") -> str:
        """A token with these scopes, in the header's form."""
        token_id, secret, digest = new_token()
        await self.store.inner.run(TokenCreate(token_id, digest, namespace, "test", scopes(texts)))
        return f"Bearer {token_text(token_id, secret)}"


@asynccontextmanager
async def sight(*, url: str = "sqlite://", **options: Any) -> AsyncIterator[Sight]:
    """An app with these options."""
    store = Watched(url)
    app = create_app(store, ServerOptions(**{"auth": "none", **options}))
    transport = httpx2.ASGITransport(app=app)
    async with httpx2.AsyncClient(transport=transport, base_url="http://localhost") as client:
        try:
            yield Sight(client, app.state.context, store)
        finally:
            app.state.context.lifecycle.close()
            await store.inner.close()


def looking(**options: Any) -> Any:
    """Run a test on an app with these options."""
    return inside(sight, **options)


AWAY = Disconnected("the database at canary-host cannot be reached")
