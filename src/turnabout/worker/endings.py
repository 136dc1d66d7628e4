"""Ends of a handler's run, and the verbs that they lead to.

- return: acked, done; what it returns, if anything, is the result for callers of `wait`;
- raise Defer(…), or return it: back later, uncharged;
- raise Pause(seconds=…): the same, when its channel, which is paused, hands out again;
- raise GiveUp("why"): failed, and no further attempt: to the dead-letter queue;
- raise TryAgain(delay_seconds=…) from error: failed, and back after that time;
- raise anything else: failed, with the traceback; back after the queue's back-off.
"""

from __future__ import annotations

import logging
import traceback
from dataclasses import dataclass, replace
from types import FrameType, TracebackType
from typing import Any

from turnabout.words import limits
from turnabout.words import verbs as v
from turnabout.words.entities import Deferral, Failure, Receipt
from turnabout.words.prepare import result
from turnabout.words.records import Result
from turnabout.words.workers import this_process

log = logging.getLogger("turnabout.worker")

SUMMARY_CHARS_MAX = 200


class Defer(Exception):
    """Raise it in a handler: bring this message back later, uncharged.

    `state` is saved with the message and handed out with its next delivery; None keeps what is
    saved.
    """

    def __init__(self, *, delay_seconds: float = 0, state: bytes | None = None) -> None:
        super().__init__(f"deferred for {delay_seconds} s")
        self.delay_ms = limits.delay_ms(delay_seconds)
        self.state = None if state is None else limits.state(state)


class Pause(Defer):
    """Raise it in a handler: hand out nothing of this message's channel for so long, itself
    included, and charge it with nothing. For a service that says "too many requests".
    """

    def __init__(self, *, seconds: float, reason: str | None = None) -> None:
        super().__init__()
        self.args = (f"its channel is paused for {seconds:g} s",)
        self.seconds = limits.delay_ms(seconds) / 1000
        self.reason = limits.reason(reason)


class GiveUp(Exception):
    """Raise it in a handler when trying again is of no use: the message is dead at once, with your
    text, or with the error that `raise GiveUp from error` names.
    """


class TryAgain(Exception):
    """Raise it in a handler, from the error if there is one: this attempt failed, and the message
    is back after that time, whatever the queue's back-off is.
    """

    def __init__(self, *, delay_seconds: float) -> None:
        super().__init__(f"failed, to be tried again in {delay_seconds:g} s")
        self.delay_ms = limits.delay_ms(delay_seconds)


@dataclass(frozen=True, slots=True)
class Done:
    """The message is to be acked."""

    result: Result | None = None


@dataclass(frozen=True, slots=True)
class Failed:
    """The message is to be failed, with this text kept."""

    error: str
    retry: bool
    cause: BaseException
    """The handler's exception, for the log."""
    delay_ms: int | None = None
    """Delay of the retry; None: the queue's back-off."""

    def failure(self, receipt: Receipt, worker: str) -> Failure:
        """The failure of that message."""
        return Failure(receipt, self.error, self.retry, self.delay_ms, worker)


@dataclass(frozen=True, slots=True)
class PutOff:
    """The message is to be deferred."""

    delay_ms: int
    state: bytes | None


@dataclass(frozen=True, slots=True)
class GivenBack:
    """The message is to be released, uncharged."""


Ending = Done | Failed | PutOff | GivenBack
COUNTED: dict[type[Ending], str] = {
    Done: "handled",
    Failed: "failed",
    PutOff: "deferred",
    GivenBack: "released",
}
"""The counter of each in `WorkerStats`."""


@dataclass(frozen=True, slots=True)
class Returned:
    """A handler has returned this value."""

    value: object = None


def ending_of(end: BaseException | Returned) -> Ending:
    """Decide a message's ending after its handler returned or raised. The user's exception may
    itself raise at any access, even SystemExit.
    """
    value = end.value if isinstance(end, Returned) else end
    try:
        match value:
            case Defer():
                state = None if value.state is None else limits.state(value.state)
                return PutOff(limits.duration_ms(value.delay_ms, "delay_ms"), state)
            case GiveUp():
                cause = value if value.args else value.__cause__ or value
                return _failed(cause, _message_of(value) if value.args else "", retry=False)
            case TryAgain():
                delay_ms = limits.duration_ms(value.delay_ms, "delay_ms")
                return replace(_failed(value.__cause__ or value), delay_ms=delay_ms)
            case BaseException() if value is end:
                return _failed(value)
            case _:
                return Done(result(value))
    except BaseException as error:  # noqa: BLE001 - see above
        if value is end or issubclass(type(value), (Defer, GiveUp, TryAgain)):
            return _failed(error, f"the handler's {type(value).__name__} cannot be read:\n")
        # Its work is done, and doing it again would not help.
        log.warning("a handler's return value is not kept as the result: %s", text_of(error))
        return Done()


def _failed(error: BaseException, text: str = "", *, retry: bool = True) -> Failed:
    cause = printable(error)
    if retry or not text:
        text += traceback_of(cause)
    return Failed(limits.error_text(text), retry, cause)


def _message_of(error: BaseException) -> str:
    """The error's own text; a substitute if it raises."""
    try:
        return str(error)
    except BaseException as raised:  # noqa: BLE001 - as above
        return f"(its text cannot be had: {type(raised).__name__})"


def text_of(error: BaseException) -> str:
    """The first line of an error's text, with its type."""
    text = _message_of(error).strip()
    line = text.splitlines()[0][:SUMMARY_CHARS_MAX] if text else ""
    return f"{type(error).__name__}: {line}" if line else type(error).__name__


def traceback_of(error: BaseException) -> str:
    """The traceback as Python prints it, from the handler on."""
    return "".join(traceback.format_exception(type(error), error, shown_traceback(error)))


def printable(error: BaseException) -> BaseException:
    """The error; or one with its name, where its text, its causes or its notes raise."""
    try:
        traceback_of(error)
    except BaseException:  # noqa: BLE001 - as above
        return RuntimeError(text_of(error)).with_traceback(error.__traceback__)
    return error


def shown_traceback(error: BaseException) -> TracebackType | None:
    """An error's traceback from the handler on, without Turnabout's own frames."""
    frames = error.__traceback__
    while frames is not None and _ours(frames.tb_frame.f_globals.get("__name__")):
        frames = frames.tb_next
    return error.__traceback__ if frames is None else frames


def timeout_error(seconds: float, cause: BaseException | None) -> TimeoutError:
    """The error of a handler that hit its time limit; its stack is the `cause`."""
    error = TimeoutError(f"the handler did not end within {seconds:g} s (timeout_seconds)")
    error.__cause__ = None if cause is None else cause.with_traceback(shown_traceback(cause))
    return error


def stack_of(frame: FrameType) -> str:
    """A thread's stack as a traceback shows it: from the handler on."""
    frames = [*traceback.walk_stack(frame)][::-1]
    while len(frames) > 1 and _ours(frames[0][0].f_globals.get("__name__")):
        del frames[0]
    return "".join(traceback.format_list(traceback.StackSummary.extract(iter(frames))))


def _ours(module: object) -> bool:
    return isinstance(module, str) and (
        module.startswith("turnabout.") or module in ("contextvars", "asyncio.tasks", "threading")
    )


def verb_of(
    queue: str, receipt: Receipt, ending: Done | Failed | PutOff
) -> v.Verb[tuple[Any, ...]]:
    """The verb that ends one message so."""
    match ending:
        case Done():
            return v.Ack(queue, (receipt,), () if ending.result is None else (ending.result,))
        case Failed():
            return v.Fail(queue, (ending.failure(receipt, this_process()),))
        case PutOff():
            return v.Defer(queue, (Deferral(receipt, ending.delay_ms, ending.state),))
