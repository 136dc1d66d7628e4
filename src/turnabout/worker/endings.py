"""How a handler's run can end, and what the worker then tells the database.

- return: acked, done; what it returns, if anything, is the result for callers of `wait`;
- raise Defer(…), or return it: back later, uncharged;
- raise GiveUp("why"): failed, and no further attempt: to the dead-letter queue;
- raise anything else: failed, with the traceback; back after the queue's back-off.
"""

from __future__ import annotations

import logging
import traceback
from dataclasses import dataclass

from turnabout.words import limits
from turnabout.words.errors import UsageError
from turnabout.words.prepare import result
from turnabout.words.records import Result

log = logging.getLogger("turnabout.worker")


class Defer(Exception):
    """Raise it in a handler: bring this message back later, uncharged.

    `state` is saved with the message and handed out with its next delivery; None keeps what is
    saved.
    """

    def __init__(self, *, delay_seconds: float = 0, state: bytes | None = None) -> None:
        super().__init__(f"deferred for {delay_seconds} s")
        self.delay_ms = limits.delay_ms(delay_seconds)
        self.state = None if state is None else limits.state(state)


class GiveUp(Exception):
    """Raise it in a handler when trying again is of no use. The message is dead at once."""


@dataclass(frozen=True, slots=True)
class Done:
    """To be acked."""

    result: Result | None = None


@dataclass(frozen=True, slots=True)
class Failed:
    """To be failed, with this text kept."""

    error: str
    retry: bool = True


@dataclass(frozen=True, slots=True)
class PutOff:
    """To be deferred."""

    delay_ms: int
    state: bytes | None


@dataclass(frozen=True, slots=True)
class GivenBack:
    """To be released, uncharged."""


Ending = Done | Failed | PutOff | GivenBack


@dataclass(frozen=True, slots=True)
class Returned:
    """A handler has returned this value."""

    value: object = None


def ending_of(end: BaseException | Returned) -> Ending:
    """How the message ends after its handler returned or raised."""
    error = end.value if isinstance(end, Returned) else end
    match error:
        case Defer():
            return PutOff(error.delay_ms, error.state)
        case GiveUp():
            return Failed(limits.error_text(str(error) or traceback_of(error)), retry=False)
        case BaseException() if error is end:
            return Failed(limits.error_text(traceback_of(error)))
        case _:
            return Done(_result(error))


def _result(value: object) -> Result | None:
    """The result of a handler, if it can be kept. If not, its work is done all the same: doing it
    again would not help.
    """
    try:
        return result(value)
    except UsageError as error:
        log.warning("a handler's return value is not kept as the result: %s", error)
        return None


def traceback_of(error: BaseException) -> str:
    """The traceback as Python prints it, from the handler on, without Turnabout's own frames."""
    frames = error.__traceback__
    while frames is not None and _ours(frames.tb_frame.f_globals.get("__name__")):
        frames = frames.tb_next
    shown = error.__traceback__ if frames is None else frames
    return "".join(traceback.format_exception(type(error), error, shown))


def _ours(module: object) -> bool:
    return isinstance(module, str) and (
        module.startswith("turnabout.worker.") or module in ("contextvars", "asyncio.tasks")
    )
