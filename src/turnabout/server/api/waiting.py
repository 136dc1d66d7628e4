"""Requests that wait for something other than messages: endings, events, changes of a queue.

One look answers for all that wait on a queue. A request that waits counts for `max_polls`, is
answered when the server closes, and is forgotten when the client has gone.
"""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import Coroutine, Generator
from contextlib import contextmanager
from typing import Any, Literal, TypeVar, cast

from starlette.requests import Request

from turnabout._async.shared import Shared
from turnabout._async.waiting import wait_for
from turnabout.server.auth.authorized_store import AuthorizedStore
from turnabout.server.auth.parts import part_of
from turnabout.server.context import ServerContext
from turnabout.store import AsyncForwardingStore
from turnabout.waiting._async.endings import EndingPoller
from turnabout.waiting.pacing import Patience
from turnabout.words import verbs as v
from turnabout.words.namespaces import stored
from turnabout.words.records import Ending, EventPage
from turnabout.words.value import Value, replace
from turnabout.words.verb import Change

A = TypeVar("A")

CHECK_SECONDS = 5.0
"""Time between two checks that the client of a waiter is still connected."""
STRANGE_SECONDS = 1.0
"""Longest wait of a client whose `seen` is another server's: the number means nothing here."""


class PollQuery(Value):
    """A question to a queue's signal, about messages for receivers, ends of messages, or both."""

    change: Literal["any", "ready", "ended"] = "any"
    seen: int | None = None
    instance: str | None = None
    wait_seconds: float = 0.0


class Waiting:
    """The waiters of one server."""

    def __init__(self, context: ServerContext) -> None:
        self.context = context
        self.instance = secrets.token_hex(8)
        """Sent with each signal: the numbers of different processes cannot be compared."""
        self._pollers: dict[str, tuple[EndingPoller, int]] = {}
        """Pollers for endings, each with the number of its waiters, by the queue's stored name."""
        self._endings = EndedOnly(context.batched)
        self._shared: dict[int, Shared] = {}
        context.lifecycle.on_close.append(self._close)

    def _close(self) -> None:
        for shared in self._shared.values():
            shared.is_closed = True

    @contextmanager
    def shared(self, caller: AuthorizedStore, queue: str) -> Generator[Shared]:
        """The state that the loops of the face share, for as long as one waits."""
        name = stored(queue, caller.namespace)
        poller, users = self._pollers.get(name) or (EndingPoller(self._endings, name), 0)
        self._pollers[name] = (poller, users + 1)
        shared = Shared(caller, is_closed=self.context.lifecycle.closing, pollers={queue: poller})
        shared.rounds.stop_maintaining()  # the server does, in its own time
        self._shared[id(shared)] = shared
        try:
            yield shared
        finally:
            del self._shared[id(shared)]
            poller, users = self._pollers.pop(name)
            if users > 1:
                self._pollers[name] = (poller, users - 1)

    async def endings(
        self, caller: AuthorizedStore, verb: v.Endings, seconds: float, request: Request
    ) -> None:
        """Wait until all have ended, `seconds` are over, or the client has gone."""
        async with caller.waiter():
            with self.shared(caller, verb.queue) as shared:
                await while_there(request, wait_for(shared, verb.queue, verb.ids, seconds))

    async def events(
        self, caller: AuthorizedStore, verb: v.Events, seconds: float, request: Request
    ) -> EventPage | None:
        """The events after the cursor, as soon as there is one; None: the client has gone."""
        async with caller.waiter():
            return await while_there(request, self._events(caller, verb, seconds))

    async def _events(self, caller: AuthorizedStore, verb: v.Events, seconds: float) -> EventPage:
        patience = Patience(time.monotonic(), seconds, hint_seconds_max=1.0)
        while True:
            is_last = patience.is_over(time.monotonic()) or self.context.lifecycle.closing
            seen = await caller.signal(verb.queue)
            patience.looked(time.monotonic())
            page = await caller.run(verb)
            if page.events or is_last:
                return page
            await caller.wait(verb.queue, seen, patience.for_hint(time.monotonic()))
            await asyncio.sleep(patience.before_look(time.monotonic()))

    async def signal(
        self, caller: AuthorizedStore, queue: str, poll: PollQuery, seconds: float, request: Request
    ) -> int:
        """The queue's signal, as soon as it differs from the one that the client saw."""
        change = Change[poll.change.upper()]
        number = await caller.signal(queue, change)
        seen = poll.seen
        if poll.instance not in {None, self.instance}:
            seen, seconds = number, min(seconds, STRANGE_SECONDS)
        if seen != number or not seconds:
            return number
        async with caller.waiter():
            await while_there(request, self._changed(caller, queue, change, number, seconds))
        return await caller.signal(queue, change)

    async def _changed(
        self, caller: AuthorizedStore, queue: str, change: Change, seen: int, seconds: float
    ) -> None:
        ends_at = time.monotonic() + seconds
        while (left := ends_at - time.monotonic()) > 0 and not self.context.lifecycle.closing:
            await caller.wait(queue, seen, left, change)
            if await caller.signal(queue, change) != seen:
                return


class EndedOnly(AsyncForwardingStore):
    """Endings without results: thousands may be held by waiters, which ask for results last."""

    async def run(self, verb: v.Verb[A]) -> A:
        """Run a verb; for `Endings`, without results."""
        if not isinstance(verb, v.Endings):
            return await self._store.run(verb)
        found: list[Ending | None] = []
        while len(found) < len(verb.ids):
            part = await self._store.run(part_of(replace(verb, ids=verb.ids[len(found) :])))
            found += [one and replace(one, result=None) for one in part]
        return cast("A", tuple(found))


async def while_there(request: Request, work: Coroutine[Any, Any, A]) -> A | None:
    """The result of the work; None when the client has gone, and the work is given up."""
    task = asyncio.ensure_future(work)
    try:
        while True:
            done, _ = await asyncio.wait({task}, timeout=CHECK_SECONDS)
            if done:
                return task.result()
            if await request.is_disconnected():
                return None
    finally:
        if not task.done():
            task.cancel()
            await asyncio.wait({task})
