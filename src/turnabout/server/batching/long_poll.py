"""Receives that leave their turn to the server, or wait.

Looks asked for at the same time become one (`BatchingStore`), which goes on from where the last one
of this server ended. Receives that found nothing wait as the library's do (`ReceiveGroup`): two
thousand cost one query, and one message wakes one of them. Special to a server are the limit on
waiting requests, clients that have gone, and the end of all waiting.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, TypeVar, cast

from turnabout._async.receiving import StoreSource, place_of, receive_once
from turnabout._async.shared import Shared
from turnabout.server.batching.batching_store import BatchingStore
from turnabout.server.batching.maintenance import Maintenance
from turnabout.server.batching.merging import LOOKS, Mergeable
from turnabout.server.options import ServerOptions
from turnabout.server.tenants.admission import Admission
from turnabout.store import AsyncForwardingStore, AsyncStore
from turnabout.words.entities import Delivery
from turnabout.words.errors import TurnaboutError
from turnabout.words.namespaces import namespace_of
from turnabout.words.outcomes import Received
from turnabout.words.value import replace
from turnabout.words.verb import Change, Verb
from turnabout.words.verbs import Receive, Release

A = TypeVar("A")
Gone = Callable[[], Awaitable[bool]]

YOUNG_SECONDS = 0.1
"""A request this recent is assumed to be connected."""
CHECK_SECONDS = 5.0
"""Time between two checks that the client of a waiter is still connected."""
NOTHING = Received(())


class WaitingClient:
    """A client whose receive waits."""

    __slots__ = ("asked_at", "checked_at", "ends", "gone")

    def __init__(self, asked_at: float, gone: Gone | None) -> None:
        self.asked_at = self.checked_at = asked_at
        self.gone = gone
        self.ends = asyncio.timeout(None)

    def end(self) -> None:
        """Stop waiting, without messages."""
        self.ends.reschedule(0.0)

    async def is_gone(self, now: float) -> bool:
        """Whether the client has hung up; assumed not to have in its first moments."""
        if self.gone is None or now - self.asked_at < YOUNG_SECONDS:
            return False
        self.checked_at = now
        try:
            return await self.gone()
        except Exception:  # noqa: BLE001 - a client that cannot be asked cannot be answered
            return True


class LongPoll:
    """All receives of one server."""

    def __init__(self, store: AsyncStore, admission: Admission | None = None) -> None:
        """`admission` decides which requests may look, and wait."""
        self.store = store
        self._shared = Shared(store)
        self.maintenance = Maintenance(self._shared)
        self._admission = admission or Admission(ServerOptions())
        self._looks = BatchingStore(TurnKeeper(self._shared, self.maintenance), _looks_only)
        self._waiting: dict[WaitingClient, None] = {}
        self._guard: asyncio.Task[None] | None = None
        self._tasks: set[asyncio.Task[None]] = set()

    async def receive(
        self, verb: Receive, wait_seconds: float, gone: Gone | None, most: int | None = None
    ) -> Received:
        """Deliveries in the order of turns; if there are none within `wait_seconds`, when to ask
        again. It ignores `verb.turn`, and goes on from where the last one of this server ended.

        Messages that come after the client has `gone`, or its task was cancelled, are released.
        most:   requests of the namespace that may wait.
        Raises: like `Admission` and the store.
        """
        asked_at = time.monotonic()
        ends_at = asked_at + wait_seconds
        shared = self._shared
        may_wait = wait_seconds > 0 and not shared.is_closed
        others_wait = may_wait and place_of(verb) in shared.waiters
        namespace = namespace_of(verb.queue)
        received = NOTHING
        if not others_wait or verb.acks:  # else it stands behind them
            look = partial(self._looks.run, verb)
            received = await self._admission.turns.run(namespace, look, verb)
            if received.deliveries or shared.is_closed or time.monotonic() >= ends_at:
                return received
            verb = verb.apart()[1]
        try:
            async with self._admission.waiter(namespace, most):
                waited = await self._wait(
                    verb, WaitingClient(asked_at, gone), ends_at, others_wait=others_wait
                )
        except TurnaboutError:
            if not received.acked:
                raise
            return received  # it must be told what became of these
        return replace(waited, acked=received.acked) if received.acked else waited

    async def _wait(
        self, verb: Receive, client: WaitingClient, ends_at: float, *, others_wait: bool
    ) -> Received:
        source = GroupSource(self._shared, verb, self._looks)
        self._waiting[client] = None
        if self._guard is None:
            self._guard = asyncio.ensure_future(self._watch())
        deliveries: Sequence[Delivery] = ()
        try:
            async with client.ends:
                deliveries, retry_after_ms = await source.wait_for_messages(
                    ends_at, was_empty=not others_wait, in_front=False
                )
                if not deliveries:
                    return Received((), retry_after_ms)
                if await client.is_gone(time.monotonic()):
                    self.give_back(verb.queue, deliveries)
                    return NOTHING
                return Received(tuple(deliveries))
        except TimeoutError:  # it was ended
            self.give_back(verb.queue, deliveries)
            return NOTHING
        except asyncio.CancelledError:
            self.give_back(verb.queue, deliveries)
            raise
        finally:
            self._waiting.pop(client, None)

    def close(self) -> None:
        """All that wait are answered now, without messages; and nothing waits from now on."""
        self._shared.is_closed = True
        self._end(*self._waiting)
        if self._guard is not None:
            self._guard.cancel()

    def give_back(self, queue: str, deliveries: Sequence[Delivery]) -> None:
        """Release messages whose client has gone, so that others can have them at once."""
        if deliveries:
            receipts = tuple(delivery.receipt for delivery in deliveries)
            self._start(self._release(Release(queue, receipts)))

    def _start(self, work: Coroutine[None, None, None]) -> None:
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _release(self, verb: Release) -> None:
        with suppress(TurnaboutError):  # then their leases run out
            await self.store.run(verb)

    async def _watch(self) -> None:
        """Drop clients that have gone, as long as there are waiters."""
        try:
            while self._waiting:
                await asyncio.sleep(CHECK_SECONDS / 5)
                now = time.monotonic()
                for client in list(self._waiting):
                    if now - client.checked_at >= CHECK_SECONDS and await client.is_gone(now):
                        self._end(client)
        finally:
            self._guard = None

    def _end(self, *clients: WaitingClient) -> None:
        for client in clients:
            if client in self._waiting:  # else it got its answer meanwhile
                del self._waiting[client]
                client.end()


class TurnKeeper(AsyncForwardingStore):
    """Receives go on from where the last one of this server ended."""

    def __init__(self, shared: Shared, maintenance: Maintenance) -> None:
        super().__init__(shared.store)
        self._shared = shared
        self._maintenance = maintenance

    async def run(self, verb: Verb[A]) -> A:
        """Run a verb; a receive uses the server's turn, and tells maintenance its queue."""
        if not isinstance(verb, Receive):
            return await self._store.run(verb)
        self._maintenance.upkeep.received_from(verb.queue)
        return cast("A", await receive_once(self._shared, verb))


class GroupSource(StoreSource):
    """Looks for a group, merged with looks for other groups."""

    def __init__(self, shared: Shared, verb: Receive, looks: AsyncStore) -> None:
        super().__init__(shared, verb)
        self._looks = looks

    async def lease(self, most: int) -> tuple[Sequence[Delivery], int | None]:
        """Like `ReceiveSource.lease`."""
        received = await self._looks.run(replace(self._verb, max_messages=most))
        return received.deliveries, received.retry_after_ms

    async def wait(self, seen: int, seconds: float) -> None:
        """Like `ReceiveSource.wait`; schedules are fired by `maintenance`."""
        await self._shared.store.wait(self._verb.queue, seen, seconds, Change.READY)


def _looks_only(verb: Verb[Any]) -> Mergeable | None:
    return LOOKS if isinstance(verb, Receive) else None
