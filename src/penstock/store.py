"""The port: what every store is. One method carries out a verb; the rest is about waiting.

A store runs a verb in one transaction and answers with that verb's outcome. It holds no
transaction and no lock while anybody waits. SQLite, PostgreSQL and the HTTP client each have a
class for either colour; this file knows none of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol, TypeVar

from penstock.words.verbs import Verb

A = TypeVar("A")


class Store(Protocol):
    """A store for blocking callers. Safe to share between threads."""

    def run(self, verb: Verb[A]) -> A:
        """Carry out a verb in one transaction and answer with its outcome.

        Raises: UsageError, Forbidden, Unavailable: nothing happened; Uncertain: it may have.
        """
        ...

    def run_together(self, verbs: Sequence[Verb[Any]]) -> list[Any]:
        """Carry out some verbs in one transaction, in this order; their outcomes, or none at all.

        An outcome that refuses (ChannelFull, LeaseLost) undoes nothing. Raises: as `run`.
        """
        ...

    def signal(self, queue: str) -> int:
        """A number that changes when something may have been sent to the queue, or ended in it.
        Ask before the look, so that nothing that comes in between is slept over.
        """
        ...

    def wait(self, queue: str, seen: int, seconds: float) -> None:
        """Return when `signal(queue)` is no longer `seen`, or after `seconds`. May return early."""
        ...

    def close(self) -> None:
        """Free connections and files. Waiting calls return; later calls raise UsageError."""
        ...


class AsyncStore(Protocol):
    """The same store for asyncio callers, on one event loop."""

    async def run(self, verb: Verb[A]) -> A:
        """Carry out a verb in one transaction and answer with its outcome.

        Raises: UsageError, Forbidden, Unavailable: nothing happened; Uncertain: it may have.
        """
        ...

    async def run_together(self, verbs: Sequence[Verb[Any]]) -> list[Any]:
        """Carry out some verbs in one transaction, in this order; their outcomes, or none at all.

        An outcome that refuses (ChannelFull, LeaseLost) undoes nothing. Raises: as `run`.
        """
        ...

    async def signal(self, queue: str) -> int:
        """A number that changes when something may have been sent to the queue, or ended in it.
        Ask before the look, so that nothing that comes in between is slept over.
        """
        ...

    async def wait(self, queue: str, seen: int, seconds: float) -> None:
        """Return when `signal(queue)` is no longer `seen`, or after `seconds`. May return early."""
        ...

    async def close(self) -> None:
        """Free connections and files. Waiting calls return; later calls raise UsageError."""
        ...
