"""A consumer's inputs: its job, how a handler is called, and the surrounding run."""

from __future__ import annotations

import signal
import threading
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass
from typing import Any, Literal, Protocol, cast

from turnabout._async import AsyncTurnabout
from turnabout.worker.endings import Returned
from turnabout.worker.loop import ConsumerOptions, Emptiness, Lease, Phase
from turnabout.worker.message import AsyncMessage, Message
from turnabout.worker.slots import Slots
from turnabout.worker.threads import End, Threads

SyncHandler = Callable[[Message], object]
AsyncHandler = Callable[[AsyncMessage], Awaitable[object]]


@dataclass(slots=True)
class WorkerStats:
    """Counts of what a worker has done so far."""

    handled: int = 0
    """Acked, or settled by the handler itself."""
    failed: int = 0
    deferred: int = 0
    released: int = 0
    """Given back at a stop."""
    cancelled: int = 0
    """Ended as cancelled, as was requested."""
    lost: int = 0
    """Leases lost before they were settled."""


@dataclass(frozen=True, slots=True)
class Job:
    """A queue, its handler (one of the two) and how it is worked on."""

    queue: str
    options: ConsumerOptions
    sync: SyncHandler | None
    coro: AsyncHandler | None
    transaction: bool = False
    """The handler also takes a connection: see `transaction.py`."""


async def awaited(handler: AsyncHandler, message: AsyncMessage) -> End:
    """Call an `async` handler."""
    try:
        return Returned(await handler(message))
    except BaseException as error:  # noqa: BLE001 - even SystemExit must fail the message
        return error


def called(handler: SyncHandler, message: Message) -> End:
    """Call an ordinary handler, in a thread that catches what it raises."""
    answer = handler(message)
    if issubclass(type(answer), Coroutine):  # not of `answer`: a proxy's `__class__` may raise
        cast("Coroutine[Any, Any, Any]", answer).close()
        return TypeError("the handler returned a coroutine: write it as `async def`")
    return Returned(answer)


def is_ctrl_c(error: BaseException) -> bool:
    """Whether it may be the user's, pressed while a handler ran on the loop. In a worker that takes
    signals itself the handler has raised it.
    """
    return (
        isinstance(error, KeyboardInterrupt)
        and threading.current_thread() is threading.main_thread()
        and signal.getsignal(signal.SIGINT) is signal.default_int_handler
    )


class Surroundings(Protocol):
    """The part of a run that its consumers use."""

    turnabout: AsyncTurnabout
    name: str
    until_empty: bool | Literal["now"]
    slots: Slots
    poll_seconds: float
    phase: Phase
    stats: WorkerStats
    emptiness: Emptiness
    threads: Threads

    def broken(self, error: BaseException) -> None:
        """An error that a retry won't fix: stop the worker, and raise this at its end."""
        ...

    def stop(self, why: str) -> None:
        """Take nothing more, finish what runs, end."""
        ...

    def message_ended(self, queue: str, lease: Lease) -> None:
        """The worker has done with a message."""
        ...

    def hangs(self, more: int) -> None:
        """1: a handler does not end though it should; -1: it has ended after all."""
        ...
