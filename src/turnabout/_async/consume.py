"""`consume`: a loop over messages, each of which is acked when the loop asks for the next."""

from __future__ import annotations

import gc
import logging
import sys
import traceback
from collections import deque
from collections.abc import Awaitable, Callable
from contextlib import suppress
from types import CodeType, FrameType, TracebackType
from typing import Generic, Self, TypeVar

from turnabout._async.shared import Shared
from turnabout.colours import beside_async
from turnabout.words import limits
from turnabout.words.delivered import DeliveredMessage
from turnabout.words.entities import Delivery, Failure
from turnabout.words.errors import TurnaboutError, Uncertain
from turnabout.words.outcomes import AckOutcome, LeaseLost, Received
from turnabout.words.verbs import Ack, Fail, Receive, Release
from turnabout.words.workers import this_process

log = logging.getLogger("turnabout")
M = TypeVar("M", bound=DeliveredMessage)


class AsyncMessageLoop(Generic[M]):
    """The messages of a queue, one after the other; what `consume` makes.

    As a context manager it ends with its block. Without one, the `for` loop that is left drops it:
    then it ends likewise, on CPython at once.
    """

    def __init__(
        self,
        shared: Shared,
        verb: Receive,
        wait_seconds: float | None,
        receive: Callable[[Receive, float], Awaitable[Received]],
        message_of: Callable[[Delivery], M],
    ) -> None:
        """`verb`: what is to be received each time. `wait_seconds`: None is for ever."""
        self._shared = shared
        self._verb = verb
        self._is_endless = wait_seconds is None
        self._wait_seconds = limits.WAIT_SECONDS_MAX if wait_seconds is None else wait_seconds
        self._receive_next = receive
        self._message_of = message_of
        self._current: M | None = None
        self._ready: deque[M] = deque()
        self._done: list[M] = []
        self._is_over = False
        self._callers: set[CodeType] = set()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> M:
        if not self._callers:
            self._note_callers(sys._getframe(1))
        self._leave_current()
        if not self._ready and not self._is_over:
            await self._receive()
            self._is_over = not self._ready
        if self._is_over:
            raise StopAsyncIteration
        self._current = self._ready.popleft()
        return self._current

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: object, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._end(_text_of(error) if isinstance(error, Exception) else None)

    async def close(self) -> None:
        """End the loop: ack what is done, and release the message at hand and those fetched ahead,
        uncharged. After that, and in a second call, nothing happens.
        """
        await self._end(None)

    def __del__(self) -> None:
        if self._is_over or sys.is_finalizing():
            return
        # Only where the loop itself was left: a garbage collection comes at any moment, also in
        # the middle of a call of ours. Then the leases run out.
        frame = sys._getframe(1)
        if frame.f_code in self._callers:
            beside_async(self._end(_in_flight(frame)), self._shared.loose_ends)

    def _note_callers(self, frame: FrameType) -> None:
        """Note the frames whose end drops this loop: the function that has it, and its caller."""
        outer = frame.f_back
        self._callers = {frame.f_code} if outer is None else {frame.f_code, outer.f_code}

    def _leave_current(self) -> None:
        """The loop's body has come to its end for the message at hand."""
        message, self._current = self._current, None
        if message is not None and not message.is_settled:
            self._done.append(message)

    async def _receive(self) -> None:
        """Ack what is done, and fetch more. An answer that was lost is asked for once more."""
        unsure = False
        verb = self._verb
        while not self._ready:
            acks = tuple([message.receipt for message in self._done])
            request = Receive(
                verb.queue, verb.max_messages, verb.lease_ms, verb.shard, verb.turn, acks
            )
            try:
                received = await self._receive_next(request, self._wait_seconds)
            except Uncertain:
                if unsure or not acks:
                    raise
                unsure = True
                continue
            done, self._done = self._done, []
            self._warn_of_losses(done, received.acked, unsure=unsure)
            self._ready.extend(map(self._message_of, received.deliveries))
            if not self._is_endless:
                return

    def _warn_of_losses(
        self, done: list[M], outcomes: tuple[AckOutcome, ...], *, unsure: bool = False
    ) -> None:
        for message, outcome in zip(done, outcomes, strict=True):
            if isinstance(outcome, LeaseLost) and not (unsure and outcome.now == "gone"):
                log.warning(
                    "too late for message %s of %s: its lease was lost (the message is %s)",
                    message.receipt,
                    self._verb.queue,
                    outcome.now,
                )

    async def _end(self, error: str | None) -> None:
        """Ack what is done; fail the message at hand with that text, or else release it, and those
        fetched ahead. What can't be told to the store is left to run out.
        """
        self._is_over = True
        current, self._current = self._current, None
        done, self._done = self._done, []
        ahead = list(self._ready)
        self._ready.clear()
        if current is not None and not current.is_settled and error is None:
            ahead.insert(0, current)
        store, queue = self._shared.store, self._verb.queue
        with suppress(TurnaboutError):
            if done:
                acks = tuple([message.receipt for message in done])
                self._warn_of_losses(done, await store.run(Ack(queue, acks)))
            if current is not None and not current.is_settled and error is not None:
                failure = Failure(current.receipt, error, worker=this_process())
                await store.run(Fail(queue, (failure,)))
            if ahead:
                receipts = tuple([message.receipt for message in ahead])
                await store.run(Release(queue, receipts))


def _text_of(error: BaseException) -> str:
    """A traceback, as Python prints it."""
    return limits.error_text("".join(traceback.format_exception(error)))


def _in_flight(frame: FrameType) -> str | None:
    """The text of the exception that is leaving this frame just now; None: there is none.

    Python does not tell an iterator why it is dropped, but the traceback has an entry for the very
    instruction that the frame is at. Before 3.12 that leads only to the place of the exception.
    """
    for entry in gc.get_referrers(frame):
        if isinstance(entry, TracebackType) and entry.tb_lasti == frame.f_lasti:
            for error in gc.get_referrers(entry):
                if isinstance(error, BaseException):
                    return _text_of(error) if isinstance(error, Exception) else None
            trace = "".join(traceback.format_tb(entry))
            return limits.error_text(f"an exception in the body of the loop\n{trace}")
    return None
