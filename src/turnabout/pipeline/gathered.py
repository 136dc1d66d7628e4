"""Items put together: as many as are read, staged or written at once."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

T = TypeVar("T")


def gathered(items: Iterable[T], most: int, size: Callable[[T], int]) -> Iterator[list[T]]:
    """Lists of items, each full once their sizes are `most` together."""
    held: list[T] = []
    total = 0
    for one in items:
        held.append(one)
        total += size(one)
        if total >= most:
            yield held
            held, total = [], 0
    if held:
        yield held
