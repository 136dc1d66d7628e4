"""`receive` and `peek`: messages on the terminal, or as lines of JSON."""

from __future__ import annotations

import base64
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, get_args

import click

from turnabout.cli import _show
from turnabout.cli._app import NOT_AS_WISHED, App, command, pass_app
from turnabout.cli._interrupt import Unbroken
from turnabout.cli._kinds import DURATION, QUEUE
from turnabout.words import limits
from turnabout.words.entities import Delivery, Origin, Peeked, Receipt, State
from turnabout.words.errors import UsageError
from turnabout.words.outcomes import Acked
from turnabout.words.payload import JSON, decode_json

if TYPE_CHECKING:
    from turnabout import Message, Queue
    from turnabout.words.batch import Batch

# A wait is cut in slices, between which Ctrl-C is heard. A send still ends a slice at once.
SLICE_SECONDS = 0.5
PAYLOAD_SHAPE = (
    "payload: the JSON value, else the text; null if it is neither: then payload_base64 holds it\n"
    "times are milliseconds since 1970 by the database's clock"
)


@command(
    "receive",
    short_help="Lease messages and print them with their receipts.",
    examples=[
        "turnabout receive emails",
        "turnabout receive emails -n 10 --wait 20s --lease 5m",
        "while turnabout receive emails --ack --wait 1h --json; do :; done",
    ],
    json_form='one line for each: {"id", "receipt", "attempt", "channel", "priority", "payload",\n'
    '  "payload_base64", "content_type", "headers", "state", "state_base64", "failures",\n'
    '  "crashes", "sent_at", "lease_until", "origin"}\n' + PAYLOAD_SHAPE,
)
@click.argument("queue", type=QUEUE)
@click.option(
    "-n",
    "--max-messages",
    type=click.IntRange(1, limits.RECEIVE_MESSAGES_MAX),
    default=1,
    show_default=True,
    help="How many at most.",
)
@click.option("--wait", type=DURATION, default=0, help="How long to wait for the first (20s).")
@click.option("--lease", type=DURATION, help="How long they are yours; else as the queue says.")
@click.option("--ack", is_flag=True, help="Ack them once they are printed: they are done.")
@pass_app
def receive(
    app: App, queue: str, max_messages: int, wait: float, lease: float | None, ack: bool
) -> None:
    """Lease messages of QUEUE, the channels in turn, and print them.

    They are yours until the lease ends: `turnabout ack`, `defer`, `fail`, `extend` or `release`
    them by their receipts, or let --ack do it once they are printed. If they cannot be printed
    they are given back. Exit code 1 if there was nothing to receive.
    """
    limits.milliseconds(wait, "--wait", limits.WAIT_SECONDS_MAX)
    with app.open() as turnabout:
        handle = turnabout.queue(queue)
        batch = _receive(handle, max_messages, wait, lease)
        if not batch:
            handle.settings()  # a wrong name is told as one
            soon = batch.retry_after_seconds
            when = "" if soon is None else f"; ask again in {_show.duration(soon)}"
            app.refuse("empty", f"nothing to receive in {queue}{when}", NOT_AS_WISHED)
        lost = _print_and_settle(app, handle, batch, ack)
    if not ack and not app.as_json:
        receipts = " ".join(str(message.receipt) for message in batch[:3])
        more = " …" if len(batch) > 3 else ""
        left = _show.duration(batch[0].delivery.lease_ms / 1000)
        _show.note(
            _show.dim(f"Leased for {left}. When done: turnabout ack {queue} {receipts}{more}")
        )
    if lost:
        app.refuse(
            "lease_lost",
            f"{_show.plural(lost, 'message')} could not be acked: the lease had run out, and it "
            "was handed out again",
            NOT_AS_WISHED,
        )


def _receive(queue: Queue, max_messages: int, wait: float, lease: float | None) -> Batch[Message]:
    """`receive` that Ctrl-C does not break off with messages leased that nobody saw."""
    ends_at = time.monotonic() + wait
    while True:
        left = ends_at - time.monotonic()
        with Unbroken():
            batch = queue.receive(
                max_messages,
                wait_seconds=max(0.0, min(SLICE_SECONDS, left)),
                lease_seconds=lease,
            )
            if batch:
                return batch
        if left <= SLICE_SECONDS:
            return batch


def _print_and_settle(app: App, queue: Queue, batch: Batch[Message], ack: bool) -> int:
    """Print all, then ack if asked to; how many leases were lost. Given back if not printed."""
    receipts = [message.receipt for message in batch]
    try:
        for message in batch:
            _print_delivery(app, message.delivery)
        _show.flush()
    except (OSError, KeyboardInterrupt):
        queue.release(receipts)
        raise
    if not ack:
        return 0
    with Unbroken():
        outcomes = queue.ack(receipts)
    return sum(not isinstance(outcome, Acked) for outcome in outcomes)


def _print_delivery(app: App, delivery: Delivery) -> None:
    if app.as_json:
        app.document(delivery_json(delivery))
        return
    about = [
        _show.bold(f"{delivery.id}.{delivery.attempt}"),
        _show.channel(delivery.channel),
        f"sent {_show.when(delivery.sent_at)}",
    ]
    if delivery.attempt > 1:
        about.append(f"attempt {delivery.attempt}")
    about += _extras(delivery.priority, delivery.headers)
    _show.out("  ".join(about))
    _show.out(_show.payload(delivery.payload))
    if delivery.state is not None:
        _show.out(f"{_show.dim('state:')} {_show.payload(delivery.state)}")
    if delivery.origin is not None:
        _show.out(_story(delivery.origin))


def _extras(priority: int, headers: Any) -> list[str]:
    extras = [f"priority {priority}"] if priority else []
    return extras + [_show.clean(f"{name}={value}") for name, value in headers.items()]


@command(
    "peek",
    short_help="Look at unfinished messages; nothing is leased or changed.",
    examples=[
        "turnabout peek emails",
        "turnabout peek emails --state leased --channel customer-42",
        "turnabout peek emails-dead -n 100 --json | jq .origin.last_error",
    ],
    json_form='one line for each: {"id", "state", "channel", "priority", "payload",\n'
    '  "payload_base64", "content_type", "headers", "attempt", "failures", "crashes",\n'
    '  "sent_at", "due_at", "saved_state", "saved_state_base64", "error", "origin",\n'
    '  "expires_at", "cancel_requested"}\n' + PAYLOAD_SHAPE,
)
@click.argument("queue", type=QUEUE)
@click.option(
    "-n",
    "--limit",
    type=click.IntRange(1, limits.PEEK_MESSAGES_MAX),
    default=20,
    show_default=True,
    help="How many at most.",
)
@click.option("--state", type=click.Choice(get_args(State)), help="Only of this state.")
@click.option("--channel", help="Only of this channel.")
@click.option("--after-id", type=click.IntRange(0), default=0, help="Go on after this id.")
@click.option("--full", is_flag=True, help="Whole payloads, not one line of each.")
@pass_app
def peek(
    app: App,
    queue: str,
    limit: int,
    state: State | None,
    channel: str | None,
    after_id: int,
    full: bool,
) -> None:
    """Show the unfinished messages of QUEUE in the order of sending.

    Nothing is leased or changed. The last error is shown in a line, and with --full all of it;
    for a dead message (in the dead-letter queue) its whole story: where it came from, when and
    why it died.
    """
    with app.open() as turnabout:
        found = turnabout.queue(queue).peek(limit, state=state, channel=channel, after_id=after_id)
    if app.as_json:
        for message in found:
            app.document(peeked_json(message))
        return
    if not found:
        _show.note(f"No such message in {queue}.")
        return
    if full:
        for message in found:
            _print_peeked(message)
    else:
        _print_table(found)
    if len(found) == limit:
        _show.note(_show.dim(f"There may be more: --after-id {found[-1].id}"))


def _print_table(found: Sequence[Peeked]) -> None:
    rows = [
        (
            str(m.id),
            m.state,
            _show.channel(m.channel),
            _tries(m),
            _show.when(m.sent_at),
            _show.payload(m.payload, 50),
        )
        for m in found
    ]
    heads = ("ID", "STATE", "CHANNEL", "ATTEMPT", "SENT", "PAYLOAD")
    for head, tell in (("LAST ERROR", _error), ("DIED OF", _cause)):
        told = [tell(m) for m in found]
        if any(told):
            heads += (head,)
            rows = [(*row, text) for row, text in zip(rows, told, strict=True)]
    _show.out(_show.table(heads, rows, left=len(heads)))


def _error(message: Peeked) -> str:
    """Why it has failed here, in a line; the whole text is in `--full`."""
    return _show.error(message.error or "", 50)


def _cause(message: Peeked) -> str:
    """The last error in a line, or else the reason; the whole story is in `--full`."""
    origin = message.origin
    return "" if origin is None else _show.error(origin.last_error or origin.reason, 50)


def _tries(message: Peeked) -> str:
    charged = message.failures + message.crashes
    return f"{message.attempt}" + (f" ({charged} failed)" if charged else "")


def _print_peeked(message: Peeked) -> None:
    due = {"scheduled": "due", "leased": "lease ends", "ready": ""}[message.state]
    about = [_show.bold(str(message.id)), message.state, _show.channel(message.channel)]
    about.append(f"sent {_show.when(message.sent_at)}")
    if due:
        never = message.due_at >= limits.FOREVER_MS
        when = "when a person says `retry`" if never else _show.when(message.due_at)
        about.append(f"{due} {when}")
    if message.expires_at is not None:
        about.append(f"expires {_show.when(message.expires_at)}")
    if message.cancel_requested:
        about.append(_show.yellow("to be cancelled"))
    about += _extras(message.priority, message.headers)
    _show.out("  ".join(about))
    _show.out(_show.payload(message.payload))
    if message.saved_state is not None:
        _show.out(f"{_show.dim('state:')} {_show.payload(message.saved_state)}")
    if message.error:
        _show.out(f"{_show.dim('last error:')} {_show.clean(message.error, lines=True)}")
    if message.origin is not None:
        _show.out(_story(message.origin))


def _story(origin: Origin) -> str:
    text = (
        f"died {_show.when(origin.died_at)} in {_show.clean(origin.queue)} ({origin.reason}; "
        f"{_show.plural(origin.failures, 'failure')}, "
        f"{origin.crashes} {'crash' if origin.crashes == 1 else 'crashes'})"
    )
    if origin.redrives:
        text += f", redriven {_show.plural(origin.redrives, 'time')}"
    if origin.last_error:
        text += f": {_show.clean(origin.last_error, lines=True)}"
    return text


# --- the JSON of messages ------------------------------------------------------------------------


def delivery_json(delivery: Delivery) -> dict[str, Any]:
    """A delivery as `receive --json` prints it."""
    return {
        "id": delivery.id,
        "receipt": str(Receipt(delivery.id, delivery.attempt)),
        "attempt": delivery.attempt,
        "channel": delivery.channel,
        "priority": delivery.priority,
        **bytes_json("payload", delivery.payload, delivery.content_type),
        "content_type": delivery.content_type,
        "headers": dict(delivery.headers),
        **bytes_json("state", delivery.state, ""),
        "failures": delivery.failures,
        "crashes": delivery.crashes,
        "sent_at": delivery.sent_at,
        "lease_until": delivery.lease_until,
        "origin": _origin_json(delivery.origin),
    }


def peeked_json(message: Peeked) -> dict[str, Any]:
    """A message as `peek --json` prints it."""
    return {
        "id": message.id,
        "state": message.state,
        "channel": message.channel,
        "priority": message.priority,
        **bytes_json("payload", message.payload, message.content_type),
        "content_type": message.content_type,
        "headers": dict(message.headers),
        "attempt": message.attempt,
        "failures": message.failures,
        "crashes": message.crashes,
        "sent_at": message.sent_at,
        "due_at": message.due_at,
        **bytes_json("saved_state", message.saved_state, ""),
        "error": message.error,
        "origin": _origin_json(message.origin),
        "expires_at": message.expires_at,
        "cancel_requested": message.cancel_requested,
    }


def _origin_json(origin: Origin | None) -> dict[str, Any] | None:
    from dataclasses import asdict

    return None if origin is None else asdict(origin)


def bytes_json(name: str, data: bytes | None, content_type: str) -> dict[str, Any]:
    """Bytes as a JSON value, a text, or in base64: whichever keeps them readable."""
    if data is None:
        return {name: None, f"{name}_base64": None}
    if content_type.partition(";")[0].strip() == JSON:
        try:
            value = decode_json(data)
            _show.json_line(value)  # 1e400 reads as infinity, which JSON cannot say
        except (UsageError, ValueError, RecursionError):
            pass  # it only claims to be JSON: shown as what it is
        else:
            return {name: value, f"{name}_base64": None}
    try:
        return {name: data.decode(), f"{name}_base64": None}
    except UnicodeDecodeError:
        return {name: None, f"{name}_base64": base64.b64encode(data).decode()}
