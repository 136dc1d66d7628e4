"""The answer of `receive` at the face: a sequence of messages that also says when to ask again."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TypeVar, overload

from turnabout.words.outcomes import AckOutcome

M = TypeVar("M", covariant=True)


class Batch(Sequence[M]):
    """Messages in the order of turns. Empty is false; then `retry_after_seconds` tells more."""

    __slots__ = ("_messages", "acked", "retry_after_ms")

    def __init__(
        self,
        messages: list[M],
        retry_after_ms: int | None,
        acked: tuple[AckOutcome, ...] = (),
    ) -> None:
        """`acked`: what became of the messages that were to be acked first, in their order."""
        self._messages = messages
        self.retry_after_ms = retry_after_ms
        self.acked = acked

    @property
    def retry_after_seconds(self) -> float | None:
        """Milliseconds until asking again is worthwhile; None: only a send can help."""
        return None if self.retry_after_ms is None else self.retry_after_ms / 1000

    def __len__(self) -> int:
        return len(self._messages)

    def __iter__(self) -> Iterator[M]:
        return iter(self._messages)

    @overload
    def __getitem__(self, index: int) -> M: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[M]: ...
    def __getitem__(self, index: int | slice) -> M | Sequence[M]:
        return self._messages[index]

    def __repr__(self) -> str:
        return f"Batch({self._messages!r}, retry_after_ms={self.retry_after_ms})"
