"""What becomes of messages: `ack`, `defer`, `fail`, `extend`, `release` by their receipts;
`cancel`, `retry` and `wait` by their ids.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import click

from turnabout.cli import _show
from turnabout.cli._app import App, negative
from turnabout.cli._declare import argument, command, option, options
from turnabout.cli._interrupt import unbroken
from turnabout.cli._json import lines
from turnabout.cli._kinds import DURATION, MESSAGE_ID, QUEUE, RECEIPT, Kind
from turnabout.cli._lines import Shape
from turnabout.words import limits
from turnabout.words import outcomes as o
from turnabout.words.entities import Deferral, Failure, Note, Receipt
from turnabout.words.records import Ending, Result

if TYPE_CHECKING:
    from turnabout import Queue

PER_CALL = 1000
LOST = {
    "leased": "it was handed out again to another receiver",
    "ready": "it came back, and waits to be received",
    "scheduled": "it came back, and is due later",
    "gone": "it has ended, or was never in this queue",
}
ENDED = {
    "done": "done",
    "dead": "dead",
    "cancelled": "cancelled",
    "expired": "expired: its time to live passed while it waited",
    "unknown": "ended; it is not known how: its history was removed, or is off",
}
Receipts = tuple[Receipt, ...]
RECEIPTS = options(argument("queue", QUEUE), argument("receipts", RECEIPT, nargs=-1))
IDS = options(argument("queue", QUEUE), argument("ids", MESSAGE_ID, nargs=-1))


# --- by receipts ---------------------------------------------------------------------------------


@command(
    "ack",
    "turnabout ack emails 4711.1 4712.1",
    "turnabout receive emails -n 100 --json | jq -r .receipt | turnabout ack emails",
    "turnabout ack renders 4711.1 --result '{\"pages\": 12}'",
    json=lines(o.AckOutcome, "receipt"),
)
@RECEIPTS
@option("--result", "For callers that wait; an object or list is JSON.", metavar="TEXT")
def ack(app: App, queue: str, receipts: Receipts, result: str | None) -> None:
    """End messages of QUEUE: they are done.

    RECEIPTs are arguments, or lines of the input. The result is kept in the queue's history:
    `turnabout wait` prints it. Exit code 1 if a lease was lost: the message may be handled again
    elsewhere.
    """
    kept = None
    if result is not None:
        message = Shape().from_text(result.encode(errors="surrogateescape"))
        kept = Result(message.payload, message.content_type)
    _run(app, queue, receipts, lambda q, some: q.ack(some, results=[kept] * len(some)))


@command(
    "defer",
    "turnabout defer emails 4711.1 --delay 10m",
    "turnabout defer imports 4711.1 --state '{\"page\": 7}'",
    json=lines(o.DeferOutcome, "receipt"),
)
@RECEIPTS
@option("--delay", "After this time; unless given, at once.", DURATION)
@option("--state", "Save this text with the message; unless given, its state stays.")
def defer(app: App, queue: str, receipts: Receipts, delay: float | None, state: str | None) -> None:
    """Bring messages of QUEUE back later, uncharged.

    It is not a failure.
    """
    delay_ms = limits.delay_ms(delay or 0)
    saved = None if state is None else limits.state(state.encode(errors="surrogateescape"))
    _run(
        app, queue, receipts, lambda q, some: q.defer([Deferral(r, delay_ms, saved) for r in some])
    )


@command(
    "fail",
    "turnabout fail emails 4711.1 --error 'SMTP said 550'",
    "turnabout fail emails 4711.1 --no-retry",
    json=lines(o.FailOutcome, "receipt"),
)
@RECEIPTS
@option("--error", "What went wrong; kept with the message.", default="", show_default=False)
@option("--no-retry", "Dead at once: it can never work.", bool)
@option("--delay", "Retry after this time, instead of the back-off.", DURATION)
def fail(
    app: App, queue: str, receipts: Receipts, error: str, no_retry: bool, delay: float | None
) -> None:
    """Charge a failed attempt to messages of QUEUE.

    They come back after the queue's back-off; when their attempts are used up they move to the
    dead-letter queue, or what the queue's --on-exhausted says. A message that was to be cancelled
    ends as cancelled.
    """
    delay_ms = None if delay is None else limits.delay_ms(delay)
    text = limits.error_text(error)
    _run(
        app,
        queue,
        receipts,
        lambda q, some: q.fail([Failure(r, text, not no_retry, delay_ms) for r in some]),
    )


@command(
    "extend",
    "turnabout extend emails 4711.1 --lease 10m",
    "turnabout extend emails 4711.1 --note 'page 12' --progress 40",
    json=lines(o.ExtendOutcome, "receipt"),
)
@RECEIPTS
@option("--lease", "From now; unless given, as the queue says.", DURATION)
@option(
    "--note",
    "What is being done: peek, events and history show it.",
    default="",
    show_default=False,
)
@option("--progress", "How much of it is done, in percent.", click.FloatRange(0, 100))
def extend(
    app: App,
    queue: str,
    receipts: Receipts,
    lease: float | None,
    note: str,
    progress: float | None,
) -> None:
    """Keep the leases of messages of QUEUE for longer, and note how far the work has come.

    The time counts from now, and never makes a lease shorter. `turnabout peek` and events show the
    note, and history, once the message has ended.
    """
    said = None
    if note or progress is not None:
        said = Note(note, None if progress is None else progress / 100)
    _run(app, queue, receipts, lambda q, some: q.extend(some, lease_seconds=lease, note=said))


@command("release", "turnabout release emails 4711.1", json=lines(o.ReleaseOutcome, "receipt"))
@RECEIPTS
def release(app: App, queue: str, receipts: Receipts) -> None:
    """Give messages of QUEUE back at once, uncharged."""
    _run(app, queue, receipts, lambda q, some: q.release(some))


# --- by ids --------------------------------------------------------------------------------------


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
    _run(app, queue, ids, lambda q, some: q.cancel(some), MESSAGE_ID)


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
    _run(app, queue, ids, lambda q, some: q.retry(some), MESSAGE_ID, hint)


@command(
    "wait",
    "turnabout wait renders 4711 --timeout 5m",
    "turnabout send renders 'page 1' --json | jq .first_id | turnabout wait renders",
    json=lines(Ending),
)
@IDS
@option("--timeout", "How long to wait.", DURATION, "30s")
def wait(app: App, queue: str, ids: tuple[int, ...], timeout: float) -> None:
    """Wait until messages of QUEUE have ended, and print how.

    The IDs are arguments, or lines of the input; the results of acks are printed, too. Exit code 0
    if all are done; 1 if one ended otherwise or has not ended in time: then its line of JSON has
    only its id.
    """
    limits.milliseconds(timeout, "--timeout", limits.WAIT_SECONDS_MAX)
    wanted = ids or tuple(_from_input(MESSAGE_ID))
    with app.queue(queue) as handle:
        handle.settings()  # a wrong name fails at once
        endings = handle.wait(wanted, timeout_seconds=timeout)
    for one, ending in zip(wanted, endings, strict=True):
        app.say({"id": one} if ending is None else ending, _ending(one, ending))
    if any(ending is None or ending.outcome != "done" for ending in endings):
        negative()


def _ending(one: int, ending: Ending | None) -> str:
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


COMMANDS = (ack, defer, fail, extend, release, cancel, retry, wait)


# --- both ----------------------------------------------------------------------------------------


def _run(
    app: App,
    name: str,
    named: Sequence[Any],
    act: Callable[[Queue, Sequence[Any]], Sequence[Any]],
    kind: Kind = RECEIPT,
    hint: str = "",
) -> None:
    """Run the verb for the messages named, in the arguments or the input, and print a line for
    each; exit code 1, after the hint, if a lease was lost or one was not waiting.
    """
    missed = 0
    named = named or _from_input(kind)
    with app.queue(name) as queue:
        for i in range(0, len(named), PER_CALL):
            some = named[i : i + PER_CALL]
            with unbroken():
                for one, outcome in zip(some, act(queue, some), strict=True):
                    said = one if kind is MESSAGE_ID else str(one)
                    text = f"{one}  {_told(outcome)}"
                    app.say(outcome, text, tagged=True, **{kind.name: said})
                    missed += isinstance(outcome, (o.LeaseLost, o.NotWaiting))
    if missed:
        if hint:
            _show.note(hint)
        negative()


def _from_input(kind: Kind) -> list[Any]:
    """Receipts or ids from a pipe, one a line."""
    if _show.is_terminal(sys.stdin):
        raise click.UsageError(f"give at least one {kind.name.upper()}, as other commands print it")
    words = (line.decode(errors="replace").strip() for line in sys.stdin.buffer)
    found = [kind.convert(word, None, None) for word in words if word]
    if not found:
        _show.note(f"No {kind.name}s came in: nothing to do.")
    return found


_PLAIN = {
    o.Acked: "done",
    o.Cancelled: "cancelled",
    o.CancelRequested: "its worker will learn it; it will not come back",
    o.Retried: "ready",
    o.Released: "released",
}


def _told(outcome: Any) -> str:
    """An outcome in words."""
    match outcome:
        case o.Deferred():
            return f"deferred, due {_show.when(outcome.due_at)}"
        case o.Retrying():
            return f"failed, again {_show.when(outcome.due_at)}"
        case o.Dead():
            return f"dead, {'ended' if outcome.queue is None else f'moved to {outcome.queue}'}"
        case o.Extended():
            text = f"extended, yours for {_show.when(outcome.lease_until).removeprefix('in ')}"
            wish = _show.yellow("; it is to be cancelled: end soon")
            return text + wish if outcome.cancel_requested else text
        case o.Blocked():
            text = "no attempts or deliveries left: its channel waits for `retry` or `cancel`"
            return _show.yellow(text)
        case o.NotWaiting():
            why = "it is leased" if outcome.now == "leased" else LOST["gone"]
            return _show.yellow(f"not changed: {why}")
        case o.LeaseLost():
            return _show.yellow(f"lease lost: {LOST[outcome.now]}")
        case _:
            return _PLAIN[type(outcome)]
