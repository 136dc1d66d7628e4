"""`cancel` and `retry`: messages by their ids. What is done by receipts: `call`."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import click

from turnabout.cli import _show
from turnabout.cli._app import App, negative
from turnabout.cli._declare import argument, command, options
from turnabout.cli._interrupt import unbroken
from turnabout.cli._json import lines
from turnabout.cli._kinds import MESSAGE_ID, QUEUE
from turnabout.words import limits
from turnabout.words import outcomes as o

if TYPE_CHECKING:
    from turnabout import Queue

PER_CALL = 1000
IDS = options(argument("queue", QUEUE), argument("ids", MESSAGE_ID, nargs=-1))
OUTCOMES = {
    o.Cancelled: "cancelled",
    o.CancelRequested: "its worker will learn it; it will not come back",
    o.Retried: "ready",
}
NOT_WAITING = {"leased": "it is leased", "gone": "it has ended, or was never in this queue"}


@command(
    "cancel",
    "turnabout cancel emails 4711 4712",
    "turnabout peek emails --channel customer-42 --json | jq .id | turnabout cancel emails",
    json=lines(o.CancelOutcome, "id"),
)
@IDS
def cancel(app: App, queue: str, ids: tuple[int, ...]) -> None:
    """Cancel messages of QUEUE by their IDs.

    The ids are arguments, or lines of the input. A message that waits ends at once. The
    worker of a leased one learns it at its next heartbeat; unless acked, it ends as cancelled.
    Exit code 1 if one was gone.
    """
    _run(app, queue, ids, lambda q, some: q.cancel(some))


@command(
    "retry",
    "turnabout retry emails 4711",
    "turnabout peek emails --state scheduled --json | jq .id | turnabout retry emails",
    json=lines(o.RetryOutcome, "id"),
)
@IDS
def retry(app: App, queue: str, ids: tuple[int, ...]) -> None:
    """Make waiting messages of QUEUE ready now, by their IDs.

    The ids are arguments, or lines of the input. Failures and crashes are forgotten. This is also
    how a channel goes on whose first message has no attempts left (`--on-exhausted block`). The
    dead don't go back to their queue by it, but by `turnabout redrive start QUEUE-dead --id ID`.
    Exit code 1 if one was not waiting.
    """
    dead_queue = queue.removesuffix(limits.DEAD_SUFFIX) + limits.DEAD_SUFFIX
    hint = f"What died goes back by `turnabout redrive start {dead_queue} --id ID`, not by retry."
    if queue == dead_queue:
        _show.note(hint)
        hint = ""
    _run(app, queue, ids, lambda q, some: q.retry(some), hint)


def _run(
    app: App,
    name: str,
    ids: Sequence[int],
    act: Callable[[Queue, Sequence[int]], Sequence[Any]],
    hint: str = "",
) -> None:
    """Run the verb for the messages named, in the arguments or the input, and print a line for
    each; exit code 1, after the hint, if one was not waiting.
    """
    missed = 0
    ids = ids or _from_input()
    with app.queue(name) as queue:
        for i in range(0, len(ids), PER_CALL):
            some = ids[i : i + PER_CALL]
            with unbroken():
                for one, outcome in zip(some, act(queue, some), strict=True):
                    if isinstance(outcome, o.NotWaiting):
                        text = _show.yellow(f"not changed: {NOT_WAITING[outcome.now]}")
                        missed += 1
                    else:
                        text = OUTCOMES[type(outcome)]
                    app.say(outcome, f"{one}  {text}", tagged=True, id=one)
    if missed:
        if hint:
            _show.note(hint)
        negative()


def _from_input() -> list[int]:
    """Ids from a pipe, one a line."""
    if _show.is_terminal(sys.stdin):
        raise click.UsageError("give at least one ID, as other commands print it")
    words = (line.decode(errors="replace").strip() for line in sys.stdin.buffer)
    found = [MESSAGE_ID.convert(word, None, None) for word in words if word]
    if not found:
        _show.note("No ids came in: nothing to do.")
    return found
