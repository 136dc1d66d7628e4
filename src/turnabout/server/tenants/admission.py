"""Admission of requests: those that use the store take turns, and those that wait have places.

Both are shared among the namespaces: `turns` says who is next, `shares` who has to give way.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from functools import partial

from turnabout.server.options import ServerOptions
from turnabout.server.tenants.answer_room import MESSAGES_MIN, AnswerRoom
from turnabout.server.tenants.shares import Shares
from turnabout.server.tenants.turns import Turns
from turnabout.words.errors import Busy, QuotaExceeded

FEW, MANY = 4, 256
"""Requests that use the store at once: FEW if several namespaces are busy, MANY if one is alone.
Running many together delays the other namespaces, but saves commits.
"""

BODIES_MAX = 64
"""Memory for bodies, in bodies of the largest size; half of it for one sender. Answers have as much
again.
"""


class Admission:
    """A server's resources that requests take, counted and shared."""

    def __init__(
        self,
        options: ServerOptions,
        weight_of: Callable[[str], int] = lambda _: 1,
        refused: Callable[[str], object] = lambda _: None,
    ) -> None:
        """`refused` is told the name of the limit."""
        many = min(MANY, max(1, options.max_pending // 2))
        lines = Shares(max(1, options.max_pending - many), partial(refused, "max_pending"))
        self.turns = Turns(min(FEW, many), many, lines, weight_of)
        self.polls = Shares(options.max_polls, partial(refused, "max_polls"))
        self.memory = BODIES_MAX * options.max_body_bytes
        """Bytes for large bodies; and as many for answers."""
        self.answers = AnswerRoom(
            max(self.memory, MESSAGES_MIN * options.max_payload_bytes), options.write_seconds
        )
        self.requests = 0
        """All that are under way, as the request guard counts them."""
        self.body_bytes = 0
        """Bytes of large bodies, which are in memory until their requests end."""
        self._bodies = Counter[bytes | str]()
        """The same by sender: a token, or a peer without one."""

    @property
    def pending(self) -> int:
        """Requests that have the store, or want it."""
        return self.turns.running + self.turns.places.taken

    @property
    def waiting(self) -> int:
        """Requests that wait for something to happen."""
        return self.polls.taken

    def take_body(self, sender: bytes | str, more: int, most: int) -> bool:
        """Count bytes of a body; False: there is no room for them. A sender may have as much as is
        left free: one alone half of all, and however many are greedy, a newcomer finds some.
        """
        self.body_bytes += more
        self._bodies[sender] += more
        return self._bodies[sender] <= most - self.body_bytes

    def give_body(self, sender: bytes | str, taken: int) -> None:
        """Return the memory of a body whose request has ended."""
        self.body_bytes -= taken
        self._bodies[sender] -= taken
        if not self._bodies[sender]:
            del self._bodies[sender]

    @asynccontextmanager
    async def waiter(self, namespace: str, most: int | None = None) -> AsyncGenerator[None]:
        """A block in which a request waits: `async with admission.waiter(…): …`.

        most:   places that the namespace may have (its quota).
        Raises: Busy when all places are taken and the namespace has its share of them, or has to
                give this one up; QuotaExceeded.
        """
        if most is not None and self.polls.held(namespace) >= most:
            raise QuotaExceeded(
                f"{most:,} requests of the namespace wait already (max_polls): repeat later, or "
                "without wait_seconds"
            )
        waits = asyncio.timeout(None)

        def give_way() -> bool:
            waits.reschedule(0.0)
            return True

        if not self.polls.take(namespace, give_way):
            raise _full(self.polls.most)
        try:
            async with waits:
                yield
        except TimeoutError:
            if waits.expired():
                raise _full(self.polls.most) from None
            raise
        finally:
            self.polls.give(namespace, give_way)


def _full(most: int) -> Busy:
    return Busy(
        f"{most:,} requests wait on this server, and this namespace has its share of them "
        "(max_polls): repeat later, or without wait_seconds"
    )
