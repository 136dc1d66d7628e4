"""A real store whose verbs a test can hold up, fail, and count."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

from turnabout.sqlite.async_store import AsyncSqliteStore
from turnabout.store import AsyncForwardingStore
from turnabout.words.entities import Outgoing
from turnabout.words.verbs import Verb


class Watched(AsyncForwardingStore):
    """In front of a store: what was asked of it, and a barrier that holds verbs up."""

    maintains_itself = False

    def __init__(self, store: AsyncSqliteStore) -> None:
        super().__init__(store)
        self.store = store
        self.asked: list[Verb[Any]] = []
        self.open = asyncio.Event()
        self.open.set()
        self.came = asyncio.Event()
        self.before: Callable[[Verb[Any]], None] = lambda _: None
        self.after: Callable[[Verb[Any]], None] = lambda _: None
        self.done: Callable[[Verb[Any], Any], None] = lambda _, __: None

    async def run(self, verb: Any) -> Any:
        self.asked.append(verb)
        self.came.set()
        await self.open.wait()
        self.before(verb)
        answer = await self.store.run(verb)
        self.after(verb)
        self.done(verb, answer)
        return answer

    def hold(self) -> None:
        """From now on no verb is answered until `open` is set."""
        self.open.clear()
        self.came.clear()

    def of(self, kind: type[Any]) -> list[Any]:
        """What was asked, of one kind."""
        return [verb for verb in self.asked if isinstance(verb, kind)]


@asynccontextmanager
async def watched(clock: Callable[[], int] | None = None) -> AsyncIterator[Watched]:
    store = AsyncSqliteStore("sqlite://", clock=clock)
    try:
        yield Watched(store)
    finally:
        await store.close()


def message(payload: str = "x", channel: str = "", **more: Any) -> Outgoing:
    return Outgoing(payload.encode(), channel=channel, **more)


async def settle() -> None:
    """Until nothing more happens by itself."""
    for _ in range(20):
        await asyncio.sleep(0)
