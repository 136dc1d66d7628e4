"""`send`: a message from the command line, or many from a file or a pipe."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, Literal

import click

from penstock.cli import _show
from penstock.cli._app import NOT_AS_WISHED, USAGE, App, command, exit_code, pass_app
from penstock.cli._interrupt import Unbroken
from penstock.cli._kinds import DURATION, HEADER, QUEUE
from penstock.cli._progress import progress
from penstock.cli._records import ENDINGS, BadLine, Format, Lines, Record, Records, Shape
from penstock.words import limits
from penstock.words.entities import Outgoing
from penstock.words.errors import PenstockError, Uncertain
from penstock.words.outcomes import ChannelFull, Sent

if TYPE_CHECKING:
    from penstock import Queue

BATCH_BYTES_MAX = 4 * 1024 * 1024
WAIT_SECONDS = 0.25

WhenFull = Literal["stop", "skip", "wait"]


class Full(Exception):
    """A channel is full, and the user said to stop."""

    def __init__(self, outcome: ChannelFull) -> None:
        super().__init__()
        self.text = (
            f"channel {_show.channel(outcome.channel)} is full: it holds {outcome.size:,} "
            f"unfinished messages and its policy allows {outcome.max_size:,}"
        )


@dataclass
class Sender:
    """Messages into batches, in order; what was sent, refused, and where to go on from."""

    queue: Queue
    batch_size: int
    when_full: WhenFull
    sent: int = 0
    refused: int = 0
    first_id: int | None = None
    last_id: int | None = None
    waiting_for: str | None = None
    on_sent: Callable[[], None] = lambda: None
    pending: list[Record] = field(default_factory=list[Record])
    _bytes: int = 0

    def add(self, record: Record) -> None:
        """Take one more; a batch that is large enough is sent."""
        self.pending.append(record)
        self._bytes += len(record.message.payload)
        if len(self.pending) >= self.batch_size or self._bytes >= BATCH_BYTES_MAX:
            self.flush()

    def flush(self) -> None:
        """Send what is pending, in order.

        A batch is all or nothing, so when a channel is full the part before the message that does
        not fit is sent first: then nothing after it was, and its line is where to go on.
        """
        part = len(self.pending)
        while self.pending:
            with Unbroken():
                outcome = self.queue.send_many(r.message for r in self.pending[:part])
                if isinstance(outcome, Sent):
                    self._count(outcome, part)
            if isinstance(outcome, Sent):
                part = len(self.pending)
            elif self.when_full == "skip":
                self._skip(outcome)
                part = len(self.pending)
            else:
                part = self._fitting(outcome, part)
                if not part:
                    self._stop_or_wait(outcome)
                    part = len(self.pending)
        self._bytes = 0

    def _count(self, outcome: Sent, part: int) -> None:
        self.sent += len(outcome.ids)
        self.first_id = self.first_id or outcome.ids[0]
        self.last_id = outcome.ids[-1]
        self.waiting_for = None
        del self.pending[:part]
        self.on_sent()

    def _fitting(self, full: ChannelFull, part: int) -> int:
        """How many leading messages fit; fewer than were refused, so that this comes to an end."""
        room = max(0, full.max_size - full.size)
        for i, record in enumerate(self.pending[:part]):
            if record.message.channel == full.channel:
                if not room:
                    return i
                room -= 1
        return part - 1

    def _skip(self, full: ChannelFull) -> None:
        """Drop the messages that do not fit, at least one; the others stay in order."""
        mine = sum(r.message.channel == full.channel for r in self.pending)
        room = min(max(0, full.max_size - full.size), mine - 1)
        kept: list[Record] = []
        for record in self.pending:
            if record.message.channel != full.channel:
                kept.append(record)
            elif room:
                room -= 1
                kept.append(record)
        self.refused += len(self.pending) - len(kept)
        self.pending[:] = kept

    def _stop_or_wait(self, full: ChannelFull) -> None:
        if self.when_full == "stop":
            raise Full(full)
        if self.waiting_for != full.channel:
            self.waiting_for = full.channel
            _show.note(f"Waiting for room in channel {_show.channel(full.channel)} …")
        time.sleep(WAIT_SECONDS)


@command(
    "send",
    short_help="Send a message, or a file or pipe full of them.",
    examples=[
        "penstock send emails 'Hello' --channel customer-42",
        'penstock send emails \'{"to": "ada@example.org"}\' --delay 10m --header trace=abc',
        "penstock send events --file events.jsonl --channel-from customer_id",
        "zcat orders.csv.gz | penstock send orders --format csv --channel-from shop",
    ],
    json_form='{"queue", "sent", "refused", "blank", "first_id", "last_id", "next_line"}\n'
    "blank: empty lines passed over; next_line: where to go on from if it stopped early",
)
@click.argument("queue", type=QUEUE)
@click.argument("payload", required=False)
@click.option("--file", "path", type=click.Path(path_type=Path), help="Read messages from here.")
@click.option(
    "--format",
    "kind",
    type=click.Choice(["text", "jsonl", "csv", "tsv"]),
    help="What the lines are; unless given, by the file's ending, else text.",
)
@click.option("--channel", default="", help="The channel; unless given, the default one.")
@click.option("--channel-from", metavar="FIELD", help="Take it from this field or column.")
@click.option("--priority", type=int, default=0, help="Smaller numbers first, in a channel.")
@click.option("--delay", type=DURATION, help="Deliver after this time (90s, 5m, 2h).")
@click.option("--header", "headers", type=HEADER, multiple=True, help="May be repeated.")
@click.option("--json-payload", "as_json", is_flag=True, help="It must be JSON.")
@click.option("--text", "as_text", is_flag=True, help="It is text, even if it looks like JSON.")
@click.option(
    "--batch-size",
    type=click.IntRange(1, limits.SEND_MESSAGES_MAX),
    default=500,
    show_default=True,
    help="Messages in one transaction.",
)
@click.option("--from-line", type=click.IntRange(1), default=1, help="Start with this line.")
@click.option(
    "--when-full",
    type=click.Choice(["stop", "skip", "wait"]),
    default="stop",
    show_default=True,
    help="What to do when a channel's max_size is reached.",
)
@pass_app
def send(
    app: App,
    queue: str,
    payload: str | None,
    path: Path | None,
    kind: Format | None,
    channel: str,
    channel_from: str | None,
    priority: int,
    delay: float | None,
    headers: tuple[tuple[str, str], ...],
    as_json: bool,
    as_text: bool,
    batch_size: int,
    from_line: int,
    when_full: WhenFull,
) -> None:
    """Send messages to QUEUE, which is made if it is not there.

    PAYLOAD is one message. Without it, or with "-", each line of the standard input is one; with
    --file, each line, each JSON line or each row of CSV (as a JSON object, its cells as text). A
    text that is a JSON object or list is sent as JSON. Blank lines are passed over.

    Batches are all or nothing. If a line is wrong, everything before it has been sent, nothing
    after it, and --from-line goes on there.
    """
    if as_json and as_text:
        raise click.UsageError("--json-payload and --text exclude each other")
    if channel and channel_from:
        raise click.UsageError("--channel and --channel-from exclude each other")
    shape = Shape(
        channel,
        channel_from,
        priority,
        delay,
        dict(headers) or None,
        "json" if as_json else "text" if as_text else "auto",
    )
    if payload is not None and payload != "-":
        if path is not None:
            raise click.UsageError("give a PAYLOAD or a --file, not both")
        _send_one(app, queue, shape.from_text(_bytes_of(payload)), when_full)
        return
    kind = kind or _format_of(path)
    if as_text and kind != "text":
        raise click.UsageError(f"--text does not go with {kind}")
    with _opened(path) as stream, app.open(create=True) as penstock:
        sender = Sender(penstock.queue(queue), batch_size, when_full)
        lines = Lines(stream, sender.flush)
        records = Records(lines, kind, shape, from_line=from_line)
        _send_all(app, sender, lines, records, _size_of(path))


def _bytes_of(payload: str) -> bytes:
    """The argument as it was typed; bytes that are not UTF-8 are kept and refused later."""
    return payload.encode(errors="surrogateescape")


def _format_of(path: Path | None) -> Format:
    if path is None or str(path) == "-":
        return "text"
    try:
        return ENDINGS[path.suffix.lower()]
    except KeyError:
        raise click.UsageError(
            f"the ending of {str(path)!r} does not tell its format: add --format text, jsonl or csv"
        ) from None


@contextmanager
def _opened(path: Path | None) -> Generator[BinaryIO]:
    """The file, or the standard input if somebody feeds it."""
    if path is None or str(path) == "-":
        if _show.is_terminal(sys.stdin) and path is None:
            _show.note("Each line is a message; Ctrl-D ends.")
        with nullcontext(sys.stdin.buffer) as stream:
            yield stream
        return
    try:
        stream = path.open("rb")
    except OSError as error:
        raise click.UsageError(f"cannot read {path}: {error.strerror}") from error
    with stream:
        yield stream


def _size_of(path: Path | None) -> int | None:
    return path.stat().st_size if path is not None and path.is_file() else None


def _send_one(app: App, name: str, message: Outgoing, when_full: WhenFull) -> None:
    with app.open(create=True) as penstock:
        sender = Sender(penstock.queue(name), 1, when_full)
        try:
            sender.add(Record(1, message))
        except Full as full:
            if app.as_json:
                app.document(_report(sender, 0, None) | {"refused": 1})
            app.refuse("channel_full", f"{full.text}. Nothing was sent.", NOT_AS_WISHED)
        except KeyboardInterrupt:
            if not sender.sent:
                raise  # else it came too late: say what happened
    where = f", channel {_show.channel(message.channel)}" if message.channel else ""
    text = f"Sent {sender.last_id} to {name}{where}."
    if sender.refused:
        text = f"Not sent: channel {_show.channel(message.channel)} is full."
    app.outcome(_report(sender, 0, None), text)
    if sender.refused:
        raise click.exceptions.Exit(NOT_AS_WISHED)


def _send_all(app: App, sender: Sender, lines: Lines, records: Records, total: int | None) -> None:
    """Send all records, and report however it ends."""
    began = time.monotonic()
    name = sender.queue.name
    problem: tuple[str, str, int] | None = None
    next_line: int | None = None
    retryable = False
    with progress(f"Sending to {name}", total) as bar:
        sender.on_sent = lambda: bar(sender.sent, lines.bytes_read)
        try:
            try:
                for record in records:
                    sender.add(record)
            except BadLine as bad:
                sender.flush()  # all that came before it
                problem = ("bad_line", f"line {bad.line}: {bad.text}", USAGE)
                next_line = bad.line
            else:
                sender.flush()
        except Full as full:
            next_line = sender.pending[0].line
            problem = ("channel_full", f"line {next_line}: {full.text}", NOT_AS_WISHED)
        except PenstockError as error:
            next_line = sender.pending[0].line if sender.pending else records.next_line
            problem = (error.code, _with_lines(error, sender), exit_code(error))
            retryable = error.retryable
        except KeyboardInterrupt:
            next_line = sender.pending[0].line if sender.pending else records.next_line
            problem = ("interrupted", f"stopped before line {next_line}", 130)
    report = _report(sender, records.blank, next_line)
    app.outcome(report, _summary(name, sender, records.blank, time.monotonic() - began))
    if problem is not None:
        code, text, status = problem
        text += f". {_show.plural(sender.sent, 'message')} sent; go on with --from-line {next_line}"
        app.refuse(code, text, status, retryable=retryable)
    if sender.refused:
        raise click.exceptions.Exit(NOT_AS_WISHED)


def _with_lines(error: PenstockError, sender: Sender) -> str:
    """The error, and which lines it leaves open."""
    if not isinstance(error, Uncertain) or not sender.pending:
        return str(error)
    first, last = sender.pending[0].line, sender.pending[-1].line
    return f"lines {first} to {last} may have been sent or not: {error}"


def _report(sender: Sender, blank: int, next_line: int | None) -> dict[str, object]:
    return {
        "queue": sender.queue.name,
        "sent": sender.sent,
        "refused": sender.refused,
        "blank": blank,
        "first_id": sender.first_id,
        "last_id": sender.last_id,
        "next_line": next_line,
    }


def _summary(name: str, sender: Sender, blank: int, seconds: float) -> str:
    text = f"Sent {_show.plural(sender.sent, 'message')} to {name} in {_show.duration(seconds)}"
    if seconds > 0.1 and sender.sent > 1:
        text += f" ({_show.count(round(sender.sent / seconds))}/s)"
    if sender.refused:
        text += f", {_show.plural(sender.refused, 'message')} refused: channels are full"
    if blank:
        text += f", {_show.plural(blank, 'blank line')} passed over"
    return f"{text}."
