"""One who asks: a store that sees one namespace, lets through what the token allows, and counts.

Every door runs its verbs here, so none of them can forget a name, a scope or a quota.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

from penstock.words.credentials import NO_NAMESPACE, Token
from penstock.words.errors import UsageError
from penstock.words.outcomes import Received
from penstock.words.verbs import Receive, Verb

if TYPE_CHECKING:
    from penstock.server.house import House

A = TypeVar("A")


class Caller:
    """An `AsyncStore` for one request's credential."""

    def __init__(self, house: House, namespace: str = NO_NAMESPACE, token: Token | None = None):
        """`token` None: nobody has to show one here."""
        self.house = house
        self.namespace = namespace
        self.token = token

    async def run(self, verb: Verb[A]) -> A:
        """Carry out a verb, in the caller's namespace. Raises: Forbidden, and as `AsyncStore`."""
        return await self.house.together.run(verb)

    async def run_together(self, verbs: Sequence[Verb[Any]]) -> list[Any]:
        """As `AsyncStore.run_together`, each verb allowed."""
        return await self.house.together.run_together(verbs)

    async def receive(
        self, verb: Receive, wait_seconds: float, gone: Callable[[], Awaitable[bool]]
    ) -> Received:
        """A receive that waits for messages; what comes after the caller is `gone` is released."""
        return await self.house.parking.receive(verb, wait_seconds, gone)

    async def signal(self, queue: str) -> int:
        """As `AsyncStore.signal`."""
        return await self.house.store.signal(queue)

    async def wait(self, queue: str, seen: int, seconds: float) -> None:
        """As `AsyncStore.wait`; ends when the server closes."""
        await self.house.store.wait(queue, seen, seconds)

    def within(self, connection: object) -> NoReturn:
        """There is no transaction of the caller's behind a server."""
        raise UsageError("a server has no transactions of yours: connect to the database itself")

    async def close(self) -> None:
        """Nothing: the house is closed by whoever opened it."""
