"""The steps that differ between asyncio and threads in more than a word, once for each.

`tools/unasync.py` puts the blocking one in the place of the other. What stands in the parentheses
of an asyncio one is a coroutine; the blocking one gets what has come of it.
"""

from __future__ import annotations

import threading
from collections.abc import Coroutine
from contextlib import suppress
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    import asyncio

T = TypeVar("T")

_tasks: set[asyncio.Task[Any]] = set()
"""An event loop forgets tasks that nobody holds."""


def wait_for_event(event: threading.Event, seconds: float) -> None:
    """Wait until it is set, for at most `seconds`."""
    event.wait(seconds)


async def wait_for_event_async(event: asyncio.Event, seconds: float) -> None:
    """Wait until it is set, for at most `seconds`."""
    import asyncio

    with suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await event.wait()


def to_its_end(done: T) -> T:
    """Finish work that others depend on, too."""
    return done


async def to_its_end_async(work: Coroutine[Any, Any, T]) -> T:
    """Finish this even if the caller is cancelled: others depend on it."""
    import asyncio

    return await asyncio.shield(_begun(work))


def beside(done: object, among: set[Any] | None = None) -> None:
    """Run work that nobody waits for."""


def beside_async(
    work: Coroutine[Any, Any, object], among: set[asyncio.Task[Any]] | None = None
) -> None:
    """Work that nobody waits for; while it lasts it is in `among`. Where no loop runs any more, it
    is left undone.
    """
    try:
        task = _begun(work)
    except RuntimeError:
        work.close()
        return
    if among is not None:
        among.add(task)
        task.add_done_callback(among.discard)


def ended(among: set[Any]) -> None:
    """Wait until all that work is over."""


async def ended_async(among: set[asyncio.Task[Any]]) -> None:
    """Wait until all that work is over."""
    import asyncio

    await asyncio.gather(*among, return_exceptions=True)


def _begun(work: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
    import asyncio

    task = asyncio.ensure_future(work)
    _tasks.add(task)
    task.add_done_callback(_tasks.discard)
    return task
