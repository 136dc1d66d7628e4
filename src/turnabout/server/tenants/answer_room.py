"""The memory of answers, shared max-min by namespace.

Bytes are counted from before the database is asked, when their size can only be bounded, until the
last of them is written. When room is short an answer is smaller; when there is none, a namespace
that holds more than its share has its oldest answer cut off, or the request is refused. So a client
that does not read costs its own namespace, and cannot have the server killed for memory.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncGenerator, Callable, Generator
from contextlib import asynccontextmanager, contextmanager

from turnabout.words.errors import Busy

Cut = Callable[[str], object]
"""Ends the connection of an answer; it is told the name of the limit."""

WAIT_SECONDS = 1.0
"""Longest wait for room that other queries hold; most of it is returned in a moment."""
HAND_OVER_SECONDS = 0.1
"""Time from the database's answer until a request writes it; its bytes count all the while."""
MESSAGES_MIN = 10
"""Messages of any size that always find room, where no other namespace needs it."""
SMALL_BYTES = 64 * 1024
"""Largest answer that is not counted."""


class AnswerShare:
    """Room for one answer of the database."""

    __slots__ = ("kept", "size")

    def __init__(self, size: int) -> None:
        self.size = size
        self.kept = 0

    def brought(self, size: int) -> None:
        """Note the bytes used, which go to the callers that asked."""
        self.kept = size


class AnswerRoom:
    """The bytes of all answers of one server."""

    def __init__(self, most: int, write_seconds: float) -> None:
        """`write_seconds`: time for a client to read an answer."""
        self.most = most
        self.taken = 0
        self._write_seconds = write_seconds
        self._held = Counter[str]()
        """Bytes by namespace."""
        self._asking = 0
        """Bytes of these that queries may return, or have just returned."""
        self._writing: dict[str, dict[object, Cut]] = {}
        """Answers being written, by namespace, the oldest first."""
        self._freed = asyncio.Event()

    @asynccontextmanager
    async def asking(self, namespace: str, wanted: int, least: int) -> AsyncGenerator[AnswerShare]:
        """A block in which the database is asked for `wanted` bytes, or as many as are free.
        Raises: Busy if that is less than `least`.
        """
        size = self._find(wanted, least) or await self._wait(namespace, wanted, least)
        share = AnswerShare(size)
        self._asking += size
        self._add(namespace, size)
        try:
            yield share
        finally:
            kept = min(share.kept, size)
            self._give(namespace, size - kept)
            if kept > SMALL_BYTES:
                loop = asyncio.get_running_loop()
                loop.call_later(HAND_OVER_SECONDS, self._give, namespace, kept)
            elif kept:
                self._give(namespace, kept)

    async def _wait(self, namespace: str, wanted: int, least: int) -> int:
        """Wait for room: other queries return most of theirs when they end."""
        try:
            async with asyncio.timeout(WAIT_SECONDS):
                while self._cut_greediest(namespace, least) or self._asking:
                    self._freed.clear()
                    await self._freed.wait()
                    if size := self._find(wanted, least):
                        return size
        except TimeoutError:
            pass
        raise Busy(
            "answers that are not read yet take this namespace's share of the server's memory: "
            "read them, or ask for fewer messages, and repeat later"
        )

    @contextmanager
    def writing(self, namespace: str, size: int, cut: Cut | None) -> Generator[None]:
        """A block in which an answer is written, which may be `cut`."""
        if size <= SMALL_BYTES:
            yield
            return
        self._add(namespace, size)
        answer, answers = object(), self._writing.setdefault(namespace, {})
        timer = None
        if cut is not None:
            answers[answer] = cut
            loop = asyncio.get_running_loop()
            timer = loop.call_later(self._write_seconds, cut, "write_seconds")
        try:
            yield
        finally:
            if timer is not None:
                timer.cancel()
            answers.pop(answer, None)
            self._add(namespace, -size)

    def _add(self, namespace: str, size: int) -> None:
        self.taken += size
        self._held[namespace] += size
        if not self._held[namespace]:
            del self._held[namespace]
            self._writing.pop(namespace, None)
        if size < 0:
            self._freed.set()

    def _give(self, namespace: str, size: int) -> None:
        self._asking -= size
        self._add(namespace, -size)

    def _find(self, wanted: int, least: int) -> int:
        """The wanted size, or all that is free; 0: that is less than the least."""
        size = min(wanted, self.most - self.taken)
        return size if size >= least else 0

    def _cut_greediest(self, namespace: str, least: int) -> bool:
        """Cut off an answer of the namespace that holds most, if this one is below its share."""
        share = self.most // len(self._held.keys() | {namespace})
        most, greediest = max(
            ((self._held[name], name) for name, answers in self._writing.items() if answers),
            default=(0, ""),
        )
        if not self._held[namespace] + least <= share < most:
            return False
        answers = self._writing[greediest]
        answers.pop(next(iter(answers)))("answers")
        return True
