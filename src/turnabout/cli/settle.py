"""`ack`, `defer`, `fail`, `extend`, `release`: what becomes of messages, by their receipts."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import click

from turnabout.cli import _show
from turnabout.cli._app import NOT_AS_WISHED, App, command, pass_app
from turnabout.cli._interrupt import Unbroken
from turnabout.cli._kinds import DURATION, QUEUE, RECEIPT
from turnabout.cli._records import Shape
from turnabout.words import limits
from turnabout.words.entities import Deferral, Failure, Receipt
from turnabout.words.outcomes import (
    Acked,
    Blocked,
    Cancelled,
    Dead,
    Deferred,
    Extended,
    LeaseLost,
    Released,
    Retrying,
)
from turnabout.words.records import Result

if TYPE_CHECKING:
    from turnabout import Queue

Outcome = Acked | Deferred | Retrying | Dead | Blocked | Cancelled | Extended | Released | LeaseLost
F = TypeVar("F", bound=Callable[..., Any])

PER_CALL = 1000
LOST = {
    "leased": "it was handed out again, and somebody else has it",
    "ready": "it came back, and waits to be received",
    "scheduled": "it came back, and is due later",
    "gone": "it has ended, or was never in this queue",
}


def _json_form(outcomes: str) -> str:
    return f'one line for each: {{"receipt", "outcome"}}; outcome: {outcomes}\n  | "lease_lost"'


def _receipts(function: F) -> F:
    """The arguments that all five have."""
    many = click.argument("receipts", type=RECEIPT, nargs=-1)
    return click.argument("queue", type=QUEUE)(many(function))


@command(
    "ack",
    short_help="These messages are done.",
    examples=[
        "turnabout ack emails 4711.1 4712.1",
        "turnabout receive emails -n 100 --json | jq -r .receipt | turnabout ack emails",
        "turnabout ack renders 4711.1 --result '{\"pages\": 12}'",
    ],
    json_form=_json_form('"acked"') + '\n"lease_lost" lines have "now": where the message is',
)
@_receipts
@click.option("--result", metavar="TEXT", help="For those who wait; an object or list is JSON.")
@pass_app
def ack(app: App, queue: str, receipts: tuple[Receipt, ...], result: str | None) -> None:
    """End messages of QUEUE: they are done. RECEIPTs are arguments, or lines of the input.

    The result is kept in the queue's history: `turnabout wait` prints it. Exit code 1 if a lease
    was lost: somebody else may be doing that message again.
    """
    kept = None
    if result is not None:
        message = Shape().from_text(result.encode(errors="surrogateescape"))
        kept = Result(message.payload, message.content_type)
    _settle(app, queue, receipts, lambda q, some: q.ack(some, results=[kept] * len(some)))


@command(
    "defer",
    short_help="Bring messages back later, uncharged.",
    examples=[
        "turnabout defer emails 4711.1 --delay 10m",
        "turnabout defer imports 4711.1 --state '{\"page\": 7}'",
    ],
    json_form=_json_form('"deferred" | "cancelled"') + '\n"deferred" lines have "due_at"',
)
@_receipts
@click.option("--delay", type=DURATION, default=0, help="After this time; unless given, at once.")
@click.option("--state", help="Save this text with the message; unless given, state stays.")
@pass_app
def defer(
    app: App, queue: str, receipts: tuple[Receipt, ...], delay: float, state: str | None
) -> None:
    """Bring messages of QUEUE back later. It is not a failure and is not charged."""
    delay_ms = limits.delay_ms(delay)
    saved = None if state is None else limits.state(state.encode(errors="surrogateescape"))
    _settle(
        app,
        queue,
        receipts,
        lambda q, some: q.defer([Deferral(receipt, delay_ms, saved) for receipt in some]),
    )


@command(
    "fail",
    short_help="These attempts failed: retry after the back-off, or dead.",
    examples=[
        "turnabout fail emails 4711.1 --error 'SMTP said 550'",
        "turnabout fail emails 4711.1 --no-retry",
    ],
    json_form=_json_form('"retrying" | "dead" | "blocked" | "cancelled"')
    + '\n"retrying" lines have "due_at"; "dead" ones "queue", the dead-letter queue or null',
)
@_receipts
@click.option("--error", default="", help="What went wrong; kept with the message.")
@click.option("--no-retry", is_flag=True, help="Dead at once: it can never work.")
@click.option("--delay", type=DURATION, help="Retry after this time, not after the back-off.")
@pass_app
def fail(
    app: App,
    queue: str,
    receipts: tuple[Receipt, ...],
    error: str,
    no_retry: bool,
    delay: float | None,
) -> None:
    """Charge a failed attempt to messages of QUEUE.

    They come back after the queue's back-off; when their attempts are used up they move to the
    dead-letter queue, or what the queue's --on-exhausted says. One that somebody wanted to cancel
    ends as cancelled.
    """
    delay_ms = None if delay is None else limits.delay_ms(delay)
    text = limits.error_text(error)
    _settle(
        app,
        queue,
        receipts,
        lambda q, some: q.fail([Failure(r, text, not no_retry, delay_ms) for r in some]),
    )


@command(
    "extend",
    short_help="Keep messages for longer.",
    examples=["turnabout extend emails 4711.1 --lease 10m"],
    json_form=_json_form('"extended"')
    + '\n"extended" lines have "lease_until" and "cancel_requested"',
)
@_receipts
@click.option("--lease", type=DURATION, help="From now; unless given, as the queue says.")
@pass_app
def extend(app: App, queue: str, receipts: tuple[Receipt, ...], lease: float | None) -> None:
    """Keep the leases of messages of QUEUE for longer, counted from now; never shorter."""
    _settle(app, queue, receipts, lambda q, some: q.extend(some, lease_seconds=lease))


@command(
    "release",
    short_help="Give messages back at once, uncharged.",
    examples=["turnabout release emails 4711.1"],
    json_form=_json_form('"released" | "cancelled"'),
)
@_receipts
@pass_app
def release(app: App, queue: str, receipts: tuple[Receipt, ...]) -> None:
    """Give messages of QUEUE back: they are ready at once, and nothing is charged."""
    _settle(app, queue, receipts, lambda q, some: q.release(some))


def _settle(
    app: App,
    name: str,
    receipts: Sequence[Receipt],
    act: Callable[[Queue, Sequence[Receipt]], Sequence[Outcome]],
) -> None:
    """Run the verb, a line for each receipt; exit code 1 if a lease was lost."""
    if not receipts:
        receipts = _from_input()
    lost = 0
    with app.open() as turnabout:
        queue = turnabout.queue(name)
        for i in range(0, len(receipts), PER_CALL):
            some = receipts[i : i + PER_CALL]
            with Unbroken():
                outcomes = act(queue, some)
                for receipt, outcome in zip(some, outcomes, strict=True):
                    app.outcome(_json_of(receipt, outcome), _line_of(receipt, outcome))
                    lost += isinstance(outcome, LeaseLost)
    if lost:
        raise click.exceptions.Exit(NOT_AS_WISHED)


def _from_input() -> list[Receipt]:
    """Receipts from a pipe, one a line."""
    if _show.is_terminal(sys.stdin):
        raise click.UsageError("give one RECEIPT or more, as `turnabout receive` prints them")
    lines = (line.decode(errors="replace").strip() for line in sys.stdin.buffer)
    found = [Receipt.parse(line) for line in lines if line]
    if not found:
        _show.note("No receipts came in: nothing to do.")
    return found


def _json_of(receipt: Receipt, outcome: Outcome) -> dict[str, Any]:
    shape: dict[str, Any] = {"receipt": str(receipt)}
    match outcome:
        case Acked():
            return shape | {"outcome": "acked"}
        case Deferred():
            return shape | {"outcome": "deferred", "due_at": outcome.due_at}
        case Retrying():
            return shape | {"outcome": "retrying", "due_at": outcome.due_at}
        case Dead():
            return shape | {"outcome": "dead", "queue": outcome.queue}
        case Extended():
            return shape | {
                "outcome": "extended",
                "lease_until": outcome.lease_until,
                "cancel_requested": outcome.cancel_requested,
            }
        case Blocked():
            return shape | {"outcome": "blocked"}
        case Cancelled():
            return shape | {"outcome": "cancelled"}
        case Released():
            return shape | {"outcome": "released"}
        case LeaseLost():
            return shape | {"outcome": "lease_lost", "now": outcome.now}


def _line_of(receipt: Receipt, outcome: Outcome) -> str:
    match outcome:
        case Acked():
            text = "done"
        case Deferred():
            text = f"deferred, due {_show.when(outcome.due_at)}"
        case Retrying():
            text = f"failed, again {_show.when(outcome.due_at)}"
        case Dead():
            where = "ended" if outcome.queue is None else f"moved to {outcome.queue}"
            text = f"dead, {where}"
        case Extended():
            text = f"extended, yours for {_show.when(outcome.lease_until).removeprefix('in ')}"
            if outcome.cancel_requested:
                text += _show.yellow("; somebody wants it cancelled: end soon")
        case Blocked():
            text = _show.yellow("no attempts left: its channel waits for `retry` or `cancel`")
        case Cancelled():
            text = "cancelled, as somebody had asked for"
        case Released():
            text = "released"
        case LeaseLost():
            text = _show.yellow(f"lease lost: {LOST[outcome.now]}")
    return f"{receipt}  {text}"
