"""The order of requests: those of busy namespaces are carried out in turn, by weight.

Few run at once if several namespaces are busy; the others wait in a line for each, and the lines
are served by deficit round robin: in each round a line may spend a quantum for each unit of its
weight; a request that costs more waits until enough credit has accumulated. A namespace always has
a request under way, so that its first waits for no other's work.

Source: M. Shreedhar, G. Varghese, Efficient fair queuing using deficit round robin, 1995.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

from turnabout.server.tenants.shares import Shares
from turnabout.words.errors import Busy
from turnabout.words.verbs import Receive, Verb

A = TypeVar("A")

QUANTUM = 100
"""Cost that a line may spend in a round, for each unit of weight."""
CALL_COST = 10
"""Cost of any request, in messages: a send of ten costs about twice as much as a send of one."""
BYTES_A_MESSAGE = 1024
SHARED_SECONDS = 10.0
"""Time for which only `few` run after two namespaces asked in turn: both may soon ask again."""


def cost_of(*verbs: Verb[Any]) -> int:
    """The cost of a request for the server and its database, in messages, as far as it is known
    beforehand.
    """
    cost = 0
    for verb in verbs:
        cost += CALL_COST + verb.carried_bytes() // BYTES_A_MESSAGE
        if verb.items is not None:
            cost += len(verb.items.of(verb))
        if isinstance(verb, Receive):
            cost += verb.max_messages
        elif verb.items is None:
            cost += getattr(verb, "limit", None) or 0
    return cost


class Line:
    """A namespace's requests: how many run, and those that wait for their turn."""

    __slots__ = ("credit", "is_listed", "pending", "running", "weight")

    def __init__(self, weight: int) -> None:
        self.weight = weight
        self.running = 0
        self.credit = 0
        self.pending: deque[tuple[int, asyncio.Future[None]]] = deque()
        self.is_listed = False
        """Whether the line is in the round."""

    def grant(self) -> bool:
        """Let the next one run; False: the line is empty."""
        while self.pending:
            cost, turn = self.pending.popleft()
            if not turn.done():  # else its client has gone, or it gave way
                self.credit -= cost
                turn.set_result(None)
                return True
        self.credit = 0
        return False


class Turns:
    """Turns of requests at the store, among all namespaces."""

    def __init__(
        self,
        few: int,
        many: int,
        places: Shares,
        weight_of: Callable[[str], int] = lambda _: 1,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """few, many: requests that run at once, where several namespaces are busy, and one alone.
        places:    for requests that wait for their turn.
        """
        self.running = 0
        self.places = places
        self._few, self._many = few, many
        self._weight_of = weight_of
        self._clock = clock
        self._last: str | None = None
        """The namespace that asked last, and until when it is not taken to be alone."""
        self._shared_until = 0.0
        self._lines: dict[str, Line] = {}
        self._round: deque[Line] = deque()
        """Lines with waiting requests, the next one first."""

    async def run(self, namespace: str, work: Callable[[], Awaitable[A]], *verbs: Verb[Any]) -> A:
        """Do the work of these verbs when it is the namespace's turn.

        Raises: Busy where as many wait as may, and this namespace has its share of them.
        """
        if namespace != self._last:
            if self._last is not None:
                self._shared_until = self._clock() + SHARED_SECONDS
            self._last = namespace
        line = self._lines.get(namespace)
        if line is None:
            line = self._lines[namespace] = Line(self._weight_of(namespace))
        if line.pending or (line.running and not self._has_slot()):
            await self._wait(namespace, line, cost_of(*verbs))
        else:
            line.running += 1
            self.running += 1
        try:
            return await work()
        finally:
            self._leave(namespace, line)

    async def _wait(self, namespace: str, line: Line, cost: int) -> None:
        """Wait for the turn, and count as running from then on."""
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()

        def give_way() -> bool:
            if not turn.done():
                turn.set_exception(_busy(self.places.most))
            return True

        if not self.places.take(namespace, give_way):
            raise _busy(self.places.most)
        line.pending.append((cost, turn))
        if not line.is_listed:
            line.is_listed = True
            self._round.append(line)
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not (turn.cancelled() or turn.exception()):  # it came just now
                self._leave(namespace, line)
            raise
        finally:
            self.places.give(namespace, give_way)

    def _leave(self, namespace: str, line: Line) -> None:
        line.running -= 1
        self.running -= 1
        if not line.running:  # it is never without one
            self._grant(line)
        while self._round and self._has_slot():
            self._step()
        if not line.running and not line.pending:
            self._lines.pop(namespace, None)

    def _has_slot(self) -> bool:
        if self.running < self._few:
            return True
        return self.running < self._many and self._clock() >= self._shared_until

    def _step(self) -> None:
        """A step of the round: the first line spends, or saves and goes to the end."""
        line = self._round[0]
        is_alone = len(self._round) == 1
        if not line.pending:
            self._round.popleft()
            line.is_listed = False
        elif is_alone or line.credit >= line.pending[0][0]:
            self._grant(line)
            line.credit = 0 if is_alone else line.credit
        else:
            line.credit += QUANTUM * line.weight
            self._round.rotate(-1)

    def _grant(self, line: Line) -> None:
        if line.grant():
            line.running += 1
            self.running += 1


def _busy(most: int) -> Busy:
    return Busy(
        f"{most:,} requests wait for their turn, and this namespace has its share of them "
        "(max_pending): repeat later"
    )
