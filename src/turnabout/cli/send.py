"""`send`: a message from the command line, or many from a file or a pipe."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, BinaryIO, cast

import click

from turnabout.cli import _show
from turnabout.cli._app import INTERRUPTED, NEGATIVE, USAGE, App, exit_code, negative
from turnabout.cli._declare import argument, command, option, options
from turnabout.cli._kinds import DURATION, HEADER, QUEUE, TIME
from turnabout.cli._lines import BadLine, Format, Lines, Record, Shape, records
from turnabout.cli._progress import progress
from turnabout.cli._sender import Full, RecordSender, SendReport, WhenFull, begun
from turnabout.words import limits
from turnabout.words.entities import Outgoing
from turnabout.words.errors import TurnaboutError, Uncertain
from turnabout.words.policy import DEDUP_MODES, DEDUP_SCOPES

ENDINGS: dict[Format, tuple[str, ...]] = {
    "text": (".txt", ".log"),
    "jsonl": (".jsonl", ".ndjson", ".json"),
}

message_options = options(
    option(
        "--channel", "The channel; unless given, the default one.", default="", show_default=False
    ),
    option("--priority", "Smaller numbers first, in a channel.", int, 0, show_default=False),
    option("--delay delay_seconds", "Deliver after this time (90s, 5m, 2h).", DURATION),
    option("--ttl ttl_seconds", "Expire if it still waits after this time.", DURATION),
    option("--header headers", "May be repeated.", HEADER, multiple=True),
    option("--json-payload must_be_json", "It must be JSON.", bool),
    option("--text is_text", "It is text, even if it looks like JSON.", bool),
    option("--dedup-key", "It is sent once for this key.", metavar="KEY"),
    option("--dedup-mode", "How long a key counts; unless given, as the queue says.", DEDUP_MODES),
    option("--dedup-window dedup_window_seconds", "For the modes window and sliding.", DURATION),
    option("--dedup-scope", "Where it counts.", DEDUP_SCOPES),
)
"""Options of a message, for `send` and `schedule set`."""


def shape_of(values: Mapping[str, Any]) -> Shape:
    """The shape of messages, from those options; those that exclude each other refused."""
    fields = {name: value for name, value in values.items() if value is not None}
    as_json, as_text = fields.pop("must_be_json"), fields.pop("is_text")
    channel_from, key_from = fields.pop("channel_from", None), fields.pop("dedup_key_from", None)
    key = fields.get("dedup_key")
    fields["headers"] = dict(fields["headers"]) or None
    if as_json and as_text:
        raise click.UsageError("--json-payload and --text exclude each other")
    if fields["channel"] and channel_from:
        raise click.UsageError("--channel and --channel-from exclude each other")
    if key and key_from:
        raise click.UsageError("--dedup-key and --dedup-key-from exclude each other")
    if any(name.startswith("dedup_") for name in fields) and key is None and not key_from:
        raise click.UsageError("--dedup-mode, --dedup-window, --dedup-scope need a --dedup-key")
    kind = "json" if as_json else "text" if as_text else "auto"
    return Shape(channel_from, key_from, kind, fields)


def bytes_of(payload: str) -> bytes:
    """An argument as it was typed; bytes that are not UTF-8 are kept and refused later."""
    return payload.encode(errors="surrogateescape")


@command(
    "send",
    "turnabout send emails 'Hello' --channel customer-42",
    'turnabout send emails \'{"to": "ada@example.org"}\' --delay 10m --header trace=abc',
    "turnabout send events --file events.jsonl --channel-from customer_id",
    "zcat lines.txt.gz | turnabout send orders",
    "turnabout send invoices '{\"order\": 7}' --dedup-key order-7 --dedup-window 1d",
    "turnabout send orders --file orders.jsonl --dedup-key-from order_id",
    json=SendReport,
)
@argument("queue", QUEUE)
@argument("payload", required=False)
@option("--file path", "Read messages from here.", click.Path(), default="-", show_default=False)
@option("--format kind", "What lines are. [default: by the file's ending, or text]", tuple(ENDINGS))
@message_options
@option("--due-at", "Deliver at this time, as 2027-01-31T09:00, not before.", TIME)
@option("--channel-from", "Take the channel from this field of the JSON.", metavar="FIELD")
@option("--dedup-key-from", "Take the dedup key from this field.", metavar="FIELD")
@option(
    "--batch-size", "Messages in one transaction.", click.IntRange(1, limits.SEND_MESSAGES_MAX), 500
)
@option(
    "--when-full",
    "What to do when a channel's max_size or the queue's max_messages is reached.",
    ("stop", "skip", "wait"),
    "stop",
)
def send(
    app: App,
    queue: str,
    payload: str | None,
    path: str,
    kind: Format | None,
    batch_size: int,
    when_full: WhenFull,
    **values: Any,
) -> None:
    """Send a message to QUEUE, or a file or pipe full of them.

    The queue is made if it does not exist. PAYLOAD is one message. Without it, or with "-", each
    line of the standard input is one; with --file, each line of the file. A text that is a JSON
    object or list is sent as JSON. Blank lines are skipped.

    A dedup key makes a send safe to repeat: while an earlier message with it stands, as the mode
    says, nothing is sent, and the answer has the id of that one.

    Batches are all or nothing. If a line is wrong, everything before it has been sent, and nothing
    after it; the error names the line that the rest begins with.
    """
    shape = shape_of(values)
    if payload is not None and payload != "-":
        if path != "-":
            raise click.UsageError("give a PAYLOAD or a --file, not both")
        _send_one(app, queue, shape.from_text(bytes_of(payload)), when_full)
        return
    if values["dedup_key"] is not None:
        raise click.UsageError("with one key for all lines, one is sent: use --dedup-key-from")
    is_file = path != "-"
    kind = kind or (_format_of(path) if is_file else "text")
    if kind == "jsonl" and values["is_text"]:
        raise click.UsageError("--text does not go with JSON lines")
    if not is_file and _show.is_terminal(sys.stdin):
        _show.note("Each line is a message; Ctrl-D ends.")
    with click.open_file(path, "rb") as stream, app.queue(queue, create=True) as handle:
        sender = RecordSender(handle, batch_size, when_full, begun(queue))
        lines = Lines(cast("BinaryIO", stream), sender.flush)
        found = records(lines, kind, shape)
        _send_all(app, sender, lines, found, _size_of(path) if is_file else None)


def _format_of(name: str) -> Format:
    for kind, endings in ENDINGS.items():
        if name.lower().endswith(endings):
            return kind
    raise click.UsageError(
        f"the name {name!r} does not show the file's format: add --format text or jsonl "
        "(tables: docs/how-to/send-many.md)"
    )


def _size_of(path: str) -> int | None:
    return Path(path).stat().st_size if Path(path).is_file() else None


def _send_one(app: App, name: str, message: Outgoing, when_full: WhenFull) -> None:
    report = begun(name)
    with app.queue(name, create=True) as queue:
        try:
            RecordSender(queue, 1, when_full, report).add(Record(1, message))
        except Full as full:
            if app.as_json:
                report.refused = 1
                app.say(report, "")
            app.refuse(full.code, f"{full.text}. Nothing was sent.", NEGATIVE)
        except KeyboardInterrupt:
            if report.last_id is None:
                raise  # else it came too late: say what happened
    where = f", channel {_show.channel(message.channel)}" if message.channel else ""
    text = f"Sent {report.last_id} to {name}{where}."
    if report.duplicates:
        text = f"Not sent: {report.last_id} has the same dedup key and stands for it."
    elif report.replaced:
        text = f"Replaced the content of {report.last_id}, which was waiting in {name}{where}."
    elif report.refused:
        text = f"Not sent: {name} or its channel {_show.channel(message.channel)} is full."
    app.say(report, text)
    if report.refused:
        negative()


def _send_all(
    app: App, sender: RecordSender, lines: Lines, found: Iterable[Record], total: int | None
) -> None:
    """Send all records, and report however it ends."""
    began = time.monotonic()
    report = sender.report
    problem: tuple[str, str, int] | None = None
    retryable = False
    is_typed = total is None and _show.is_terminal(sys.stdin)
    with progress(f"Sending to {report.queue}", total, is_typed=is_typed) as bar:
        sender.on_sent = lambda: bar(report.sent, lines.bytes_read)
        try:
            try:
                for record in found:
                    sender.add(record)
            except BadLine as bad:
                sender.flush()  # all that came before it
                problem = ("bad_line", f"line {bad.line}: {bad.text}", USAGE)
                report.next_line = bad.line
            else:
                sender.flush()
        except Full as full:
            report.next_line = sender.pending[0].line
            problem = (full.code, f"line {report.next_line}: {full.text}", NEGATIVE)
        except (TurnaboutError, KeyboardInterrupt) as error:
            report.next_line = sender.pending[0].line if sender.pending else lines.next
            if isinstance(error, TurnaboutError):
                problem = (error.code, _with_lines(error, sender), exit_code(error))
                retryable = error.retryable
            else:
                problem = ("interrupted", f"stopped before line {report.next_line}", INTERRUPTED)
    report.blank = lines.blank
    app.say(report, _summary(report, time.monotonic() - began))
    if problem is not None:
        code, text, status = problem
        sent = _show.plural(report.sent, "message")
        text += f". {sent} sent; the rest begins at line {report.next_line}"
        app.refuse(code, text, status, retryable=retryable)
    if report.refused:
        negative()


def _with_lines(error: TurnaboutError, sender: RecordSender) -> str:
    """The error, and which lines it leaves open."""
    if not isinstance(error, Uncertain) or not sender.pending:
        return str(error)
    first, last = sender.pending[0].line, sender.pending[-1].line
    return f"lines {first} to {last} may have been sent or not: {error}"


def _summary(report: SendReport, seconds: float) -> str:
    text = f"Sent {_show.plural(report.sent, 'message')} to {report.queue}"
    text += f" in {_show.duration(seconds)}"
    if seconds > 0.1 and report.sent > 1:
        text += f" ({_show.count(round(report.sent / seconds))}/s)"
    for number, what, done in (
        (report.refused, "message", "refused: no room"),
        (report.duplicates, "duplicate", "not sent"),
        (report.replaced, "waiting message", "replaced"),
        (report.blank, "blank line", "skipped"),
    ):
        if number:
            text += f", {_show.plural(number, what)} {done}"
    return f"{text}."
