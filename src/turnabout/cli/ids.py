"""`cancel`, `retry` and `wait`: messages by their ids, as `send` and `peek` print them."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import click

from turnabout.cli import _show
from turnabout.cli._app import NOT_AS_WISHED, App, command, pass_app
from turnabout.cli._interrupt import Unbroken
from turnabout.cli._kinds import DURATION, MESSAGE_ID, QUEUE
from turnabout.cli.receive import bytes_json
from turnabout.words import limits
from turnabout.words.outcomes import Cancelled, CancelRequested, NotWaiting, Retried
from turnabout.words.records import Ending, Result

if TYPE_CHECKING:
    from turnabout import Queue

Outcome = Cancelled | CancelRequested | Retried | NotWaiting
F = TypeVar("F", bound=Callable[..., Any])

PER_CALL = 1000
NOW = {"leased": "it is leased", "gone": "it has ended, or was never in this queue"}
ENDED = {
    "done": "done",
    "dead": "dead",
    "cancelled": "cancelled",
    "expired": "expired: its time to live passed while it waited",
    "unknown": "ended; how is not known any more, its history is swept or off",
}


def _ids(function: F) -> F:
    """The arguments that all three have."""
    many = click.argument("ids", type=MESSAGE_ID, nargs=-1)
    return click.argument("queue", type=QUEUE)(many(function))


@command(
    "cancel",
    short_help="End messages as cancelled.",
    examples=[
        "turnabout cancel emails 4711 4712",
        "turnabout peek emails --channel customer-42 --json | jq .id | turnabout cancel emails",
    ],
    json_form='one line for each: {"id", "outcome": "cancelled" | "cancel_requested" |\n'
    '  "not_waiting"}; "not_waiting" lines have "now": "gone"',
)
@_ids
@pass_app
def cancel(app: App, queue: str, ids: tuple[int, ...]) -> None:
    """Cancel messages of QUEUE by their IDs, given here or as lines of the input.

    One that waits ends at once. For one that is leased the wish is noted: its worker is told at
    its next heartbeat, and unless it is acked it ends as cancelled. Exit code 1 if one was gone.
    """
    _each(app, queue, ids, lambda q, some: q.cancel(some))


@command(
    "retry",
    short_help="Make waiting messages ready now, their charges forgotten.",
    examples=[
        "turnabout retry emails 4711",
        "turnabout peek emails --state scheduled --json | jq .id | turnabout retry emails",
    ],
    json_form='one line for each: {"id", "outcome": "retried" | "not_waiting"};\n'
    '"not_waiting" lines have "now": "leased" or "gone"',
)
@_ids
@pass_app
def retry(app: App, queue: str, ids: tuple[int, ...]) -> None:
    """Make messages of QUEUE ready now by their IDs, given here or as lines of the input.

    Their failures and crashes are forgotten. This is also how a channel goes on whose first
    message has no attempts left (`--on-exhausted block`). Dead messages: `turnabout redrive`.
    Exit code 1 if one was not waiting.
    """
    _each(app, queue, ids, lambda q, some: q.retry(some))


def _each(
    app: App,
    name: str,
    ids: Sequence[int],
    act: Callable[[Queue, Sequence[int]], Sequence[Outcome]],
) -> None:
    """Run the verb, a line for each id; exit code 1 if one was not as wished."""
    ids = ids or _from_input()
    missed = 0
    with app.open() as turnabout:
        queue = turnabout.queue(name)
        for i in range(0, len(ids), PER_CALL):
            some = ids[i : i + PER_CALL]
            with Unbroken():
                for one, outcome in zip(some, act(queue, some), strict=True):
                    value, text = _said(outcome)
                    app.outcome({"id": one, **value}, f"{one}  {text}")
                    missed += isinstance(outcome, NotWaiting)
    if missed:
        raise click.exceptions.Exit(NOT_AS_WISHED)


def _said(outcome: Outcome) -> tuple[dict[str, Any], str]:
    """An outcome for programs, and for people."""
    match outcome:
        case Cancelled():
            return {"outcome": "cancelled"}, "cancelled"
        case CancelRequested():
            return {"outcome": "cancel_requested"}, "its worker is told: it will not come back"
        case Retried():
            return {"outcome": "retried"}, "ready"
        case NotWaiting():
            text = _show.yellow(f"not changed: {NOW[outcome.now]}")
            return {"outcome": "not_waiting", "now": outcome.now}, text


@command(
    "wait",
    short_help="Wait until messages have ended, and print their results.",
    examples=[
        "turnabout wait renders 4711 --timeout 5m",
        "turnabout send renders 'page 1' --json | jq .first_id | turnabout wait renders",
    ],
    json_form='one line for each: {"id", "outcome": "done" | "dead" | "cancelled" | "expired" |\n'
    '  "unknown" | null, "finished_at", "attempt", "failures", "crashes", "error", "result",\n'
    '  "result_base64", "content_type"}; null: it has not ended',
)
@_ids
@click.option(
    "--timeout", type=DURATION, default=30.0, show_default="30s", help="How long to wait."
)
@pass_app
def wait(app: App, queue: str, ids: tuple[int, ...], timeout: float) -> None:
    """Wait until messages of QUEUE have ended, given by their IDs here or as lines of the input.

    Prints how each ended, with the result of its ack. Exit code 0 if all are done; 1 if one ended
    otherwise or has not ended in time.
    """
    limits.milliseconds(timeout, "--timeout", limits.WAIT_SECONDS_MAX)
    wanted = ids or tuple(_from_input())
    with app.open() as turnabout:
        handle = turnabout.queue(queue)
        handle.settings()  # a wrong name is told at once
        endings = handle.wait(wanted, timeout_seconds=timeout)
    for one, ending in zip(wanted, endings, strict=True):
        app.outcome(_ending_json(one, ending), _ending_text(one, ending))
    if any(ending is None or ending.outcome != "done" for ending in endings):
        raise click.exceptions.Exit(NOT_AS_WISHED)


def _ending_json(one: int, ending: Ending | None) -> dict[str, Any]:
    ended = Ending(one, "unknown") if ending is None else ending
    return {
        "id": one,
        "outcome": None if ending is None else ending.outcome,
        "finished_at": ended.finished_at,
        "attempt": ended.attempt,
        "failures": ended.failures,
        "crashes": ended.crashes,
        "error": ended.error,
        **result_json(ended.result),
    }


def result_json(result: Result | None) -> dict[str, Any]:
    """The result of an ack as `--json` prints it."""
    if result is None:
        return {"result": None, "result_base64": None, "content_type": None}
    return {
        **bytes_json("result", result.data, result.content_type),
        "content_type": result.content_type,
    }


def _ending_text(one: int, ending: Ending | None) -> str:
    if ending is None:
        return f"{one}  {_show.yellow('not ended yet')}"
    text = f"{one}  {ENDED[ending.outcome]}"
    if ending.finished_at is not None:
        text += f", {_show.when(ending.finished_at)}"
    if ending.error is not None:
        text += f": {_show.clean(ending.error, lines=True)}"
    if ending.result is not None:
        text += f"\n{_show.payload(ending.result.data)}"
    return text


def _from_input() -> list[int]:
    """Ids from a pipe, one a line."""
    if _show.is_terminal(sys.stdin):
        raise click.UsageError("give one ID or more, as `turnabout send` and `peek` print them")
    words = (line.strip() for line in sys.stdin)
    found = [MESSAGE_ID.convert(word, None, None) for word in words if word]
    if not found:
        _show.note("No ids came in: nothing to do.")
    return found
