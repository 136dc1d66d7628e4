"""For blocking callers. Generated from `_async/store.py` by `tools/unasync.py`: do not edit."""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NoReturn, TypeVar

from turnabout.remote.address import parse
from turnabout.remote.exchange import Exchange, Steps
from turnabout.remote.notifications import ListenerThread, RemoteNotifier
from turnabout.remote.refusals import no_transaction, was_closed
from turnabout.remote.transport import carry, open_blocking
from turnabout.store import Store
from turnabout.words.errors import TurnaboutError
from turnabout.words.verb import Change
from turnabout.words.verbs import Verb

A = TypeVar("A")


class RemoteStore(Store):
    """See `turnabout.store.Store`. Opens its first connection at the first call.

    A call that is cut off, by a cancellation or Ctrl-C, may still happen; the server gives back
    what it leased for it.
    """

    def __init__(self, url: str, *, token: str | None = None) -> None:
        self._address = parse(url, token)
        self._exchange = Exchange(self._address)
        self._closed = False
        self._begin()

    def _begin(self) -> None:
        """The state of this process alone."""
        self._pid = os.getpid()
        self._lock = threading.Lock()
        self._running = 0
        self._transport = open_blocking(self._address)
        self._notifier = RemoteNotifier(self._listen)
        self._listener: ListenerThread | None = None

    def run(self, verb: Verb[A]) -> A:
        """Carry out a verb by one request."""
        return self._drive(self._exchange.run(verb))

    def run_transaction(
        self, verbs: Sequence[Verb[Any]], *, all_or_none: bool = False
    ) -> list[Any]:
        """Carry out at most 100 verbs in one transaction, by one request."""
        return (
            self._drive(self._exchange.transaction(verbs, all_or_none=all_or_none))
            if verbs
            else []
        )

    def _drive(self, steps: Steps[A]) -> A:
        self._enter()
        try:
            request = next(steps)
            while True:
                request = steps.send(carry(self._transport, request))
        except StopIteration as end:
            return end.value
        finally:
            self._leave()

    def _enter(self) -> None:
        if self._pid != os.getpid():  # a forked child must not speak on its parent's connections
            self._begin()
        with self._lock:
            if self._closed:
                raise was_closed("turnabout.connect")
            self._running += 1

    def _leave(self) -> None:
        with self._lock:
            self._running -= 1
            is_last = self._closed and not self._running
        if is_last:
            self._transport.close()

    @property
    def maintains_itself(self) -> bool:
        """The server does."""
        return True

    def hand_on(self, context: Callable[[], Mapping[str, str]]) -> None:
        """Send these headers with each request, as they are then: a trace's context."""
        self._exchange.context = context

    def signal(self, queue: str, change: Change = Change.ANY) -> int:
        """A version that changes with what the server tells; asks only the first time."""
        if self._notifier.last(queue, change) is None:
            with contextlib.suppress(TurnaboutError):  # a hint only: the look will tell
                version = self._drive(self._exchange.version(queue, change, None, 0))
                self._notifier.learn(queue, change, version)
        return self._notifier.version(queue, change)

    def wait(
        self, queue: str, seen: int, seconds: float, change: Change = Change.ANY
    ) -> None:
        """Return on a change in the queue, or after `seconds`."""
        if self._pid != os.getpid():
            self._begin()
        self._notifier.wait(queue, seen, seconds, change)

    def _listen(self, queue: str, change: Change) -> None:
        with self._lock:
            if self._listener is None:
                self._listener = ListenerThread(self._exchange, self._notifier)
        self._listener.listen(queue, change)

    def within(self, connection: object) -> NoReturn:
        """A server cannot join a caller's transaction. Raises: UsageError."""
        raise no_transaction()

    def close(self) -> None:
        """Waiting calls return; connections are closed, the last one when its call is over."""
        if self._pid != os.getpid():
            self._closed = True
            return
        with self._lock:
            was_closed_before, self._closed = self._closed, True
            is_idle, listener = not self._running, self._listener
        if was_closed_before:
            return
        self._notifier.close()
        if listener is not None:
            listener.close()
        if is_idle:
            self._transport.close()
