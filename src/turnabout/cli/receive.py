"""`receive` and `peek`: messages on the terminal, or as lines of JSON."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, get_args

import click

from turnabout.cli import _show
from turnabout.cli._app import NEGATIVE, App
from turnabout.cli._declare import argument, command, limit, option
from turnabout.cli._interrupt import unbroken
from turnabout.cli._json import lines
from turnabout.cli._kinds import DURATION, QUEUE
from turnabout.words import limits
from turnabout.words.entities import AttemptError, Delivery, Origin, Peeked, State
from turnabout.words.outcomes import Acked, AckOutcome, Received
from turnabout.words.value import replace
from turnabout.words.verbs import Receive

if TYPE_CHECKING:
    from turnabout import Queue
    from turnabout._sync.shared import Shared

# A wait is cut in slices, between which Ctrl-C is heard. A send still ends a slice at once.
SLICE_SECONDS = 0.5


@command(
    "receive",
    "turnabout receive emails",
    "turnabout receive emails -n 10 --wait 20s --lease 5m",
    "while turnabout receive emails --ack --wait 1h --json; do :; done",
    json=lines(Delivery),
)
@argument("queue", QUEUE)
@option(
    "-n --max-messages", "At most this many.", click.IntRange(1, limits.RECEIVE_MESSAGES_MAX), 1
)
@option("--wait", "How long to wait for the first (20s).", DURATION)
@option("--lease", "How long they are yours; unless given, as the queue says.", DURATION)
@option("--ack", "Ack them once they are printed: they are done.", bool)
def receive(
    app: App, queue: str, max_messages: int, wait: float | None, lease: float | None, ack: bool
) -> None:
    """Lease messages of QUEUE and print them with their receipts.

    The channels are served in turn. The messages are yours until the lease ends: say by their
    receipts what becomes of them (`turnabout call ack`, `defer`, `fail`, `extend`, `release`), or
    let --ack end them once they are printed. If they cannot be printed they are given back. Exit
    code 1 if there was nothing to receive.
    """
    from turnabout._sync.shared import Shared

    limits.milliseconds(wait or 0, "--wait", limits.WAIT_SECONDS_MAX)
    verb = Receive(queue, max_messages, None if lease is None else limits.lease_ms(lease))
    with app.queue(queue) as handle:
        received = receive_in_slices(Shared(handle.store), verb, wait or 0)
        found = received.deliveries
        if not found:
            handle.settings()  # a wrong name is an error, not an empty queue
            soon = received.retry_after_ms
            when = "" if soon is None else f"; ask again in {_show.milliseconds(soon)}"
            app.refuse("empty", f"nothing to receive in {queue}{when}", NEGATIVE)
        lost = _print_and_settle(app, handle, found, ack)
    if not ack and not app.as_json:
        fields = json.dumps({"queue": queue, "receipts": [str(one.receipt) for one in found[:3]]})
        left = _show.milliseconds(found[0].lease_ms)
        _show.note(_show.dim(f"Leased for {left}. When done: turnabout call ack '{fields}'"))
    if lost:
        text = f"{_show.plural(lost, 'message')} could not be acked: the lease had run out"
        app.refuse("lease_lost", f"{text}, and it was handed out again", NEGATIVE)


def receive_in_slices(shared: Shared, verb: Receive, wait_seconds: float) -> Received:
    """`receive` that Ctrl-C does not break off with messages leased that nobody saw."""
    from turnabout._sync.receiving import receive_in_turn

    ends_at = time.monotonic() + wait_seconds
    acked: tuple[AckOutcome, ...] = ()
    while True:
        left = ends_at - time.monotonic()
        with unbroken():
            found = receive_in_turn(shared, verb, max(0.0, min(SLICE_SECONDS, left)))
        acked = acked or found.acked
        if found.deliveries or left <= SLICE_SECONDS:
            return replace(found, acked=acked)
        _, verb = verb.apart()


def _print_and_settle(app: App, queue: Queue, found: Sequence[Delivery], ack: bool) -> int:
    """Print all, then ack if asked to; how many leases were lost. Given back if not printed."""
    receipts = [one.receipt for one in found]
    try:
        for one in found:
            app.say(one, _delivery(one))
        _show.flush()
    except (OSError, KeyboardInterrupt):
        queue.release(receipts)
        raise
    if not ack:
        return 0
    with unbroken():
        outcomes = queue.ack(receipts)
    return sum(not isinstance(outcome, Acked) for outcome in outcomes)


def _delivery(one: Delivery) -> str:
    head = [str(one.receipt), _show.channel(one.channel), f"sent {_show.when(one.sent_at)}"]
    if one.attempt > 1:
        head.append(f"attempt {one.attempt}")
    return _message(head, one, one.state)


def _message(
    head: list[str],
    one: Delivery | Peeked,
    state: bytes | None,
    errors: Sequence[AttemptError] = (),
) -> str:
    """A message in lines: what it is, its payload, its state, its story."""
    extras = [f"priority {one.priority}"] if one.priority else []
    headers: Mapping[str, str] = one.headers
    extras += [_show.clean(f"{name}={value}") for name, value in headers.items()]
    blocks = ["  ".join([_show.bold(head[0]), *head[1:], *extras]), _show.payload(one.payload)]
    if state is not None:
        blocks.append(f"{_show.dim('state:')} {_show.payload(state)}")
    blocks += map(_failed, errors)
    if one.origin is not None:
        blocks.append(_story(one.origin))
    return "\n".join(blocks)


def _failed(one: AttemptError) -> str:
    head = _show.dim(f"attempt {one.attempt}, {_show.when(one.at)}:")
    return f"{head} {_show.clean(one.error, lines=True)}"


def _story(origin: Origin) -> str:
    text = (
        f"died {_show.when(origin.died_at)} in {_show.clean(origin.queue)} ({origin.reason}; "
        f"{_show.plural(origin.failures, 'failure')}, "
        f"{_show.plural(origin.crashes, 'crash', 'crashes')})"
    )
    if origin.redrives:
        text += f", redriven {_show.plural(origin.redrives, 'time')}"
    return "\n".join([text, *map(_failed, origin.errors)])


# --- peek ----------------------------------------------------------------------------------------


def attempts(one: Any) -> str:
    """Show the deliveries, and how many of them were charged."""
    charged = one.failures + one.crashes
    return f"{one.attempt}" + (f" ({charged} failed)" if charged else "")


def _error(message: Peeked) -> str:
    """The last error in this queue, in a line; the whole text is in `--full`."""
    return _show.error(message.error or "", 50)


def _cause(message: Peeked) -> str:
    """The last error in a line, or else the reason; the whole story is in `--full`."""
    origin = message.origin
    return "" if origin is None else _show.error(origin.last_error or origin.reason, 50)


MESSAGES: _show.Columns = (
    ("ID", "id", str),
    ("STATE", lambda one: one.state + (", ran out" if one.ran_out else ""), str),
    ("CHANNEL", "channel", _show.channel),
    ("ATTEMPT", attempts, str),
    ("SENT", "sent_at", _show.when),
    ("PAYLOAD", "payload", lambda data: _show.payload(data, 50)),
)


@command(
    "peek",
    "turnabout peek emails",
    "turnabout peek emails --state leased --channel customer-42",
    "turnabout peek emails-dead -n 100 --json | jq .origin.last_error",
    json=lines(Peeked),
)
@argument("queue", QUEUE)
@limit(limits.PEEK_MESSAGES_MAX)
@option("--state", "Only in this state.", get_args(State))
@option("--channel", "Only in this channel.")
@option("--after-id", "Go on after this id.", click.IntRange(0), 0, show_default=False)
@option("--full", "Whole payloads, not one line of each.", bool)
def peek(app: App, queue: str, limit: int, full: bool, **which: Any) -> None:
    """Show the unfinished messages of QUEUE in the order of sending.

    Nothing is leased or changed. The last error is shown in a line, and with --full that of each
    attempt; of a dead message (in the dead-letter queue) where it came from, when and why it died.
    """
    with app.queue(queue) as handle:
        found = handle.peek(limit, **which)
    if app.as_json or full:
        for message in found:
            app.say(message, "" if app.as_json else _peeked(message))
    elif found:
        columns = (("NOTE", _note), ("LAST ERROR", _error), ("DIED OF", _cause))
        more = [(head, tell, str) for head, tell in columns if any(map(tell, found))]
        _show.out(_show.table([*MESSAGES, *more], found))
    if app.as_json:
        return
    if not found:
        is_filtered = any(one not in (None, 0) for one in which.values())
        _show.note(f"No such message in {queue}." if is_filtered else f"{queue} is empty.")
    elif len(found) == limit:
        _show.note(_show.dim(f"There may be more: --after-id {found[-1].id}"))


def _note(message: Peeked) -> str:
    if message.note is None:
        return ""
    share, text = message.note.progress, _show.clean(message.note.text)
    return text if share is None else f"{_show.bar(share)} {share:.0%} {text}".rstrip()


def _peeked(message: Peeked) -> str:
    due = {
        "scheduled": "due",
        "leased": "lease ran out" if message.ran_out else "lease ends",
        "ready": "",
    }[message.state]
    head = [str(message.id), message.state, _show.channel(message.channel)]
    head.append(f"sent {_show.when(message.sent_at)}")
    if due:
        never = message.due_at >= limits.FOREVER_MS
        head.append(f"{due} {'on `turnabout retry`' if never else _show.when(message.due_at)}")
    if message.expires_at is not None:
        head.append(f"expires {_show.when(message.expires_at)}")
    if message.cancel_requested:
        head.append(_show.yellow("to be cancelled"))
    if message.note is not None:
        head.append(_note(message))
    return _message(head, message, message.saved_state, message.errors)
