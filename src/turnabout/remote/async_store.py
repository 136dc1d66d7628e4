"""The server as a store for asyncio, on one event loop."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NoReturn, TypeVar

from turnabout.remote.address import parse
from turnabout.remote.ear import Ear
from turnabout.remote.exchange import Exchange, Talk
from turnabout.remote.refusals import no_transaction, was_closed
from turnabout.remote.signals import Signals
from turnabout.remote.transport import carry_async, open_async
from turnabout.store import AsyncStore
from turnabout.words.errors import TurnaboutError
from turnabout.words.verbs import Verb

A = TypeVar("A")


class AsyncRemoteStore(AsyncStore):
    """See `turnabout.store.AsyncStore`. Opens its first connection at the first call.

    A call whose task is cancelled may still happen; the server gives back what it leased for it.
    """

    def __init__(self, url: str, *, token: str | None = None) -> None:
        address = parse(url, token)
        self._exchange = Exchange(address)
        self._signals = Signals()
        self._transport = open_async(address, address.max_connections)
        self._ear: Ear | None = None
        self._running = 0
        self._closed = False

    async def run(self, verb: Verb[A]) -> A:
        """Carry out a verb by one request."""
        return await self._drive(self._exchange.run(verb))

    async def run_together(self, verbs: Sequence[Verb[Any]]) -> list[Any]:
        """Carry out at most 100 verbs in one transaction, by one request."""
        return await self._drive(self._exchange.together(verbs)) if verbs else []

    async def _drive(self, talk: Talk[A]) -> A:
        if self._closed:
            raise was_closed("turnabout.aio.connect")
        self._running += 1
        try:
            request = next(talk)
            while True:
                request = talk.send(await carry_async(self._transport, request))
        except StopIteration as end:
            return end.value
        finally:
            self._running -= 1
            if self._closed and not self._running:
                await self._transport.aclose()

    def hand_on(self, context: Callable[[], Mapping[str, str]]) -> None:
        """Send these headers with each request, as they are then: a trace's context."""
        self._exchange.context = context

    async def signal(self, queue: str) -> int:
        """A number that changes when the server has told of news; asks only the first time."""
        if self._signals.heard(queue) is None:
            with contextlib.suppress(TurnaboutError):  # a hint only: the look will tell
                heard = await self._drive(self._exchange.signal(queue, None, 0))
                self._signals.hear(queue, heard)
        return self._signals.number(queue)

    async def wait(self, queue: str, seen: int, seconds: float) -> None:
        """Return on news of the queue, or after `seconds`."""
        told = asyncio.Event()
        if not self._signals.subscribe(queue, seen, told.set):
            return
        try:
            if self._ear is None:
                self._ear = Ear(self._exchange, self._signals)
            self._ear.listen(queue)
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(told.wait(), seconds)
        finally:
            self._signals.unsubscribe(queue, told.set)

    def within(self, connection: object) -> NoReturn:
        """There is no transaction of the caller's behind a server. Raises: UsageError."""
        raise no_transaction()

    async def close(self) -> None:
        """Waiting calls return; connections are closed, the last one when its call is over."""
        self._closed = True
        self._signals.close()
        if self._ear is not None:
            await self._ear.close()
        if not self._running:
            await self._transport.aclose()
