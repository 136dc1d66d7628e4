"""For blocking callers. Generated from `_async/receives.py` by `tools/unasync.py`: do not edit."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from turnabout.colours import beside, to_its_end, wait_for_event
from turnabout.waiting.line import Waiter, WaitingLine
from turnabout.words.entities import Delivery

IDLE_SECONDS = 20.0
"""Longest time without a look while no change is expected; a look also runs maintenance."""
QUIET_SECONDS = 1.5 * IDLE_SECONDS
"""Time without an answer after which waiters get none, either: the network may be gone."""
LOOK_MESSAGES_MAX = 1_000
"""Messages per look, unless the first of the group wants more."""
GAP_SECONDS_EACH, GAP_SECONDS_MAX = 0.0001, 0.02
"""Time between two looks: for each waiter behind the first, and at most."""


class ReceiveSource(Protocol):
    """The source of a group's messages."""

    @property
    def is_closed(self) -> bool:
        """Whether nobody waits any more."""
        ...

    def lease(self, most: int) -> tuple[Sequence[Delivery], int | None]:
        """Up to `most`, in the order of turns; if there are none, when to ask again."""
        ...

    def give_back(self, deliveries: Sequence[Delivery]) -> None:
        """Release messages that were leased for nobody."""
        ...

    def signal(self) -> int:
        """A number that changes when there may be messages. Others know now that we wait."""
        ...

    def wait(self, seen: int, seconds: float) -> None:
        """Return when the signal is no longer `seen`, or after `seconds`, or when it is closed."""
        ...


@dataclass(slots=True, eq=False)
class WaitingReceive(Waiter):
    """A receive that wants up to `most` messages."""

    most: int
    deliveries: Sequence[Delivery] = ()
    error: Exception | None = None

    @property
    def is_answered(self) -> bool:
        """Whether it has its messages, or an error."""
        return bool(self.deliveries) or self.error is not None


class ReceiveGroup:
    """A group: see the module. A store is asked by one of its members at a time."""

    def __init__(self, source: ReceiveSource) -> None:
        self._source = source
        self._line = WaitingLine[WaitingReceive]()
        self._was_empty = False
        """A look has found less than was wanted: nothing is left."""
        self._seen: int | None = None
        """The queue's signal, if a look after it left nothing: until it changes, none will find
        anything.
        """
        self._retry_at: float | None = None
        self._look_at = 0.0
        self._rest_until = 0.0
        self._answered_at = time.monotonic()

    def __len__(self) -> int:
        """The number of waiting receives."""
        return len(self._line)

    def wait(
        self, most: int, ends_at: float, *, was_empty: bool, in_front: bool
    ) -> tuple[Sequence[Delivery], int | None]:
        """Deliveries, as soon as there are some; else, after `ends_at` or when the connection is
        closed, when to ask again. `was_empty`: the caller has just looked and found nothing;
        `in_front`: the others came during that look.
        """
        from threading import Event

        waiter = WaitingReceive(Event(), most)
        if self._line.join(waiter, in_front=in_front):
            self._was_empty = was_empty
        try:
            while not waiter.is_answered and not self._source.is_closed:
                left = ends_at - time.monotonic()
                if left <= 0:
                    if time.monotonic() - self._answered_at < QUIET_SECONDS:
                        break
                    to_its_end(self._look())
                elif self._line.leads(waiter):
                    self._lead(left)
                else:
                    wait_for_event(waiter.called, left)
        except BaseException:
            self._line.leave(waiter)
            if waiter.deliveries:
                beside(self._source.give_back(waiter.deliveries))
            raise
        self._line.leave(waiter)
        if waiter.error is not None:
            raise waiter.error
        return waiter.deliveries, self._retry_after_ms()

    def _lead(self, left: float) -> None:
        """One look for all, or one sleep. The more wait, the less often a look is made."""
        from time import sleep

        if (pause := min(self._rest_until - time.monotonic(), left)) > 0:
            sleep(pause)
        if not self._was_empty:
            self._was_empty = not to_its_end(self._look())
        elif self._seen is None:  # others are told that we wait, and then one more look is due
            seen = self._source.signal()
            self._was_empty = not to_its_end(self._look())
            self._seen = seen if self._was_empty else None
        else:
            began = time.monotonic()
            pause = max(min(left, self._look_at - began), 0.0)
            self._source.wait(self._seen, pause)
            now = time.monotonic()
            if now >= self._look_at or now < began + pause:
                self._seen = None
                # One alone will most likely find something, so nobody need be told that it waits.
                self._was_empty = len(self._line) > 1

    def _look(self) -> bool:
        """Lease for all, and hand out. True: there may be more."""
        wanted = [waiter.most for waiter in self._line.waiters()]
        if not wanted:
            return False
        most = min(sum(wanted), max(LOOK_MESSAGES_MAX, wanted[0]))
        try:
            deliveries, retry_after_ms = self._source.lease(most)
        except Exception as error:  # noqa: BLE001 - raised again, by everybody in the group
            if not self._source.is_closed:  # else they return
                self._fail(error)
            return False
        self._answered_at = now = time.monotonic()
        self._retry_at = None if retry_after_ms is None else now + retry_after_ms / 1000
        self._look_at = now + IDLE_SECONDS
        if self._retry_at is not None:
            self._look_at = min(self._look_at, self._retry_at)
        rest = self._hand_out(deliveries)
        gap = (len(self._line) - 1) * GAP_SECONDS_EACH
        self._rest_until = time.monotonic() + min(gap, GAP_SECONDS_MAX)
        if rest:
            self._source.give_back(rest)
        return len(deliveries) >= most

    def _hand_out(self, deliveries: Sequence[Delivery]) -> Sequence[Delivery]:
        """Give each waiter in turn what it wants, as far as it goes. Returns the rest."""
        left = deliveries

        def give(waiter: WaitingReceive) -> bool:
            nonlocal left
            waiter.deliveries, left = left[: waiter.most], left[waiter.most :]
            return bool(waiter.deliveries)

        self._line.answer(give)
        return left

    def _fail(self, error: Exception) -> None:
        def give(waiter: WaitingReceive) -> bool:
            waiter.error = error
            return True

        self._line.answer(give)

    def _retry_after_ms(self) -> int | None:
        if self._retry_at is None:
            return None
        return max(round((self._retry_at - time.monotonic()) * 1000), 0)
