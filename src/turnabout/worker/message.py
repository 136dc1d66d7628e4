"""The messages that handlers get: the ordinary ones, which also know whether their lease is lost.

Their verbs go through `WatchedStore`, so the worker sees what a handler settles by itself, however
it says it; what it ends in a transaction of its own it reports by `mark_settled`. In a thread they
go through `BridgeStore`, over the worker's loop and its connection.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
import threading
from collections.abc import Coroutine, Generator, Mapping, Sequence
from typing import Any, TypeVar, cast

from turnabout import _async, _sync
from turnabout.store import AsyncForwardingStore, AsyncStore, Joined, Store
from turnabout.words.entities import Delivery, Receipt
from turnabout.words.errors import Unavailable, Uncertain, UsageError
from turnabout.words.outcomes import Dead, Extended, LeaseLost, Retrying
from turnabout.words.verb import Change
from turnabout.words.verbs import Verb
from turnabout.worker.loop import HeldLeases, Lease

A = TypeVar("A")

Held = Mapping[str, HeldLeases] | Mapping[str, Mapping[Receipt, Lease]]
"""Leases of a worker, by queue."""


class _HeldMessage:
    """A handler's view of its message's lease."""

    __slots__ = ()
    _lease: Lease

    @property
    def lost(self) -> bool:
        """True once the lease is lost, or the handler has passed its time limit: stop, as another
        worker has the message or will have it. The task of an `async` handler is cancelled, too.
        """
        return self._lease.lost

    @property
    def cancel_requested(self) -> bool:
        """True once a cancel of the message was requested: end soon; unless it is acked, it ends
        as cancelled. Heartbeats find out; a `cancellable` handler is then cancelled.
        """
        return self._lease.cancel_requested

    def mark_settled(self) -> None:
        """Tell the worker that you ended the message elsewhere, as in your own transaction."""
        self._lease.settled = True


class Message(_HeldMessage, _sync.Message):
    """A message in a handler of the ordinary kind, which runs in a thread."""

    __slots__ = ("_lease",)

    def __init__(self, queue: _sync.Queue, delivery: Delivery, lease: Lease) -> None:
        super().__init__(queue, delivery)
        self._lease = lease

    @property
    def stop_event(self) -> threading.Event:
        """Set once `lost` is true: instead of `time.sleep(60)`, a handler that should hear of it
        does `message.stop_event.wait(60)`, and ends if that is true.
        """
        return self._lease.told_by_event()


class AsyncMessage(_HeldMessage, _async.AsyncMessage):
    """A message in an `async` handler."""

    __slots__ = ("_lease",)

    def __init__(self, queue: _async.AsyncQueue, delivery: Delivery, lease: Lease) -> None:
        super().__init__(queue, delivery)
        self._lease = lease


class WatchedStore(AsyncForwardingStore):
    """A store that notes which of the worker's messages a handler settles by itself."""

    def __init__(self, store: AsyncStore, held: Held) -> None:
        super().__init__(store)
        self._held = held

    async def run(self, verb: Verb[A]) -> A:
        """Carry out a verb. While it is under way its messages are not extended."""
        with self.under_way((verb,)):
            answer = await self._store.run(verb)
        self.note(verb, answer)
        return answer

    async def run_transaction(
        self, verbs: Sequence[Verb[Any]], *, all_or_none: bool = False
    ) -> list[Any]:
        """Carry out some verbs in one transaction, as `run` does one."""
        with self.under_way(verbs):
            answers = await self._store.run_transaction(verbs, all_or_none=all_or_none)
        for verb, answer in zip(verbs, answers, strict=True):
            self.note(verb, answer)
        return answers

    @contextlib.contextmanager
    def under_way(self, verbs: Sequence[Verb[Any]]) -> Generator[None]:
        """A block in which the messages of these verbs are not extended."""
        leases = [lease for verb in verbs for lease in self._named(verb) if lease is not None]
        for lease in leases:
            lease.verbs += 1
        try:
            yield
        finally:
            for lease in leases:
                lease.verbs -= 1

    def note(self, verb: Verb[Any], answer: object) -> None:
        """Note what the answer says of the worker's leases."""
        leases = self._named(verb)
        if not leases:
            return
        assert verb.items is not None
        outcomes: Sequence[object] = verb.items.outcomes_of(answer)
        for lease, outcome in zip(leases, outcomes, strict=True):
            if lease is None:
                continue
            if isinstance(outcome, LeaseLost):
                lease.refused = True
                lease.lose()
            lease.settled = lease.settled or verb.settles
            lease.dead = lease.dead or isinstance(outcome, Dead)
            if isinstance(outcome, Retrying):
                lease.retry_at = outcome.due_at
            if isinstance(outcome, Extended):
                lease.cancel_requested = outcome.cancel_requested

    async def close(self) -> None:
        """Nothing: the connection is the worker's, and handlers only borrow it."""

    def _named(self, verb: Verb[Any]) -> list[Lease | None]:
        """The worker's leases for the receipts in a verb, in its order."""
        if verb.items is None or verb.items.receipt_of is None:
            return []
        receipts: list[Receipt] = verb.items.receipts(verb)
        held = self._held.get(cast("Any", verb).queue)
        return [] if held is None else [held.get(receipt) for receipt in receipts]


class BridgeStore(Store):
    """The async store, for the threads that handlers run in. Of another colour than what it stands
    before, so it forwards call by call.
    """

    def __init__(self, store: AsyncStore, loop: asyncio.AbstractEventLoop) -> None:
        self._store = store
        self._loop = loop
        self._thread = threading.get_ident()

    def run(self, verb: Verb[A]) -> A:
        """Carry out a verb on the worker's loop and wait for the answer."""
        return self.on_loop(self._store.run(verb))

    def run_transaction(
        self, verbs: Sequence[Verb[Any]], *, all_or_none: bool = False
    ) -> list[Any]:
        """Carry out some verbs on the worker's loop and wait for the answers."""
        return self.on_loop(self._store.run_transaction(verbs, all_or_none=all_or_none))

    def signal(self, queue: str, change: Change = Change.ANY) -> int:
        """Forwarded."""
        return self.on_loop(self._store.signal(queue, change))

    def wait(self, queue: str, seen: int, seconds: float, change: Change = Change.ANY) -> None:
        """Forwarded."""
        self.on_loop(self._store.wait(queue, seen, seconds, change))

    @property
    def maintains_itself(self) -> bool:
        """Forwarded."""
        return self._store.maintains_itself

    def within(self, connection: object) -> Joined:
        """Refused: this store lives on the worker's loop."""
        raise UsageError(
            "a message's own queue cannot join your transaction here: use a queue of your own "
            "connection, or the handler's option `transaction=True`"
        )

    def close(self) -> None:
        """Nothing: the connection is the worker's."""

    def on_loop(self, work: Coroutine[Any, Any, A]) -> A:
        """Have the worker's loop do some work, and wait for it."""
        if threading.get_ident() == self._thread:
            work.close()
            raise UsageError("a message of a threaded handler was used on the event loop")
        try:
            future = asyncio.run_coroutine_threadsafe(work, self._loop)
        except RuntimeError as error:
            work.close()
            raise Unavailable("the worker has stopped: nothing happened") from error
        try:
            return future.result()
        except concurrent.futures.CancelledError as error:
            raise Uncertain(
                "the worker stopped before the answer came: the call may have happened"
            ) from error
