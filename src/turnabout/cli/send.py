"""`send`: a message from the command line, or many from a file or a pipe."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, Literal, TypeVar

import click

from turnabout.cli import _show
from turnabout.cli._app import NOT_AS_WISHED, USAGE, App, command, exit_code, pass_app
from turnabout.cli._interrupt import Unbroken
from turnabout.cli._kinds import DURATION, HEADER, QUEUE
from turnabout.cli._progress import progress
from turnabout.cli._records import ENDINGS, BadLine, Format, Lines, Record, Records, Shape
from turnabout.words import limits
from turnabout.words.entities import Outgoing
from turnabout.words.errors import TurnaboutError, Uncertain
from turnabout.words.outcomes import ChannelFull, QueueFull, Sent
from turnabout.words.policy import DEDUP_MODES, DEDUP_SCOPES

if TYPE_CHECKING:
    from turnabout import Queue

BATCH_BYTES_MAX = 4 * 1024 * 1024
WAIT_SECONDS = 0.25

F = TypeVar("F", bound=Callable[..., Any])
WhenFull = Literal["stop", "skip", "wait"]


class Full(Exception):
    """The queue or a channel is full, and the user said to stop."""

    def __init__(self, queue: str, outcome: ChannelFull | QueueFull) -> None:
        super().__init__()
        holds = f"is full: it holds {outcome.size:,} unfinished messages and"
        if isinstance(outcome, ChannelFull):
            self.code = "channel_full"
            name = _show.channel(outcome.channel)
            self.text = f"channel {name} {holds} its policy allows {outcome.max_size:,}"
        else:
            self.code = "queue_full"
            self.text = f"queue {queue} {holds} its max_messages is {outcome.max_messages:,}"


def _room(full: ChannelFull | QueueFull) -> int:
    most = full.max_size if isinstance(full, ChannelFull) else full.max_messages
    return max(0, most - full.size)


def _is_for(record: Record, full: ChannelFull | QueueFull) -> bool:
    """Whether the message takes room of what is full."""
    return isinstance(full, QueueFull) or record.message.channel == full.channel


@dataclass
class Sender:
    """Messages into batches, in order; what was sent, refused, and where to go on from."""

    queue: Queue
    batch_size: int
    when_full: WhenFull
    sent: int = 0
    refused: int = 0
    duplicates: int = 0
    replaced: int = 0
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
        self.duplicates += len(outcome.duplicates)
        self.replaced += len(outcome.replaced)
        self.sent += len(outcome.ids) - len(outcome.duplicates) - len(outcome.replaced)
        self.first_id = self.first_id or outcome.ids[0]
        self.last_id = outcome.ids[-1]
        self.waiting_for = None
        del self.pending[:part]
        self.on_sent()

    def _fitting(self, full: ChannelFull | QueueFull, part: int) -> int:
        """How many leading messages fit; fewer than were refused, so that this comes to an end."""
        room = _room(full)
        for i, record in enumerate(self.pending[: part - 1]):
            if _is_for(record, full):
                if not room:
                    return i
                room -= 1
        return part - 1

    def _skip(self, full: ChannelFull | QueueFull) -> None:
        """Drop the messages that do not fit, at least one; the others stay in order."""
        mine = sum(_is_for(record, full) for record in self.pending)
        room = min(_room(full), mine - 1)
        kept: list[Record] = []
        for record in self.pending:
            if not _is_for(record, full):
                kept.append(record)
            elif room:
                room -= 1
                kept.append(record)
        self.refused += len(self.pending) - len(kept)
        self.pending[:] = kept

    def _stop_or_wait(self, full: ChannelFull | QueueFull) -> None:
        if self.when_full == "stop":
            raise Full(self.queue.name, full)
        where = self.queue.name
        if isinstance(full, ChannelFull):
            where = f"channel {_show.channel(full.channel)}"
        if self.waiting_for != where:
            self.waiting_for = where
            _show.note(f"Waiting for room in {where} …")
        time.sleep(WAIT_SECONDS)


def _dedup_options(function: F) -> F:
    for option in reversed(
        (
            click.option(
                "--dedup-key", metavar="KEY", help="Of the one PAYLOAD: it is sent once for it."
            ),
            click.option(
                "--dedup-key-from", metavar="FIELD", help="Take it from this field or column."
            ),
            click.option(
                "--dedup-mode",
                type=click.Choice(DEDUP_MODES),
                help="How long a key suppresses; unless given, as the queue says.",
            ),
            click.option(
                "--dedup-window",
                "dedup_window_seconds",
                type=DURATION,
                help="In the modes window and sliding.",
            ),
            click.option("--dedup-scope", type=click.Choice(DEDUP_SCOPES), help="Where it counts."),
        )
    ):
        function = option(function)
    return function


@command(
    "send",
    short_help="Send a message, or a file or pipe full of them.",
    examples=[
        "turnabout send emails 'Hello' --channel customer-42",
        'turnabout send emails \'{"to": "ada@example.org"}\' --delay 10m --header trace=abc',
        "turnabout send events --file events.jsonl --channel-from customer_id",
        "zcat orders.csv.gz | turnabout send orders --format csv --channel-from shop",
        "turnabout send invoices '{\"order\": 7}' --dedup-key order-7 --dedup-window 1d",
        "turnabout send orders --file orders.csv --dedup-key-from order_id",
    ],
    json_form='{"queue", "sent", "refused", "duplicates", "replaced", "blank", "first_id",\n'
    '  "last_id", "next_line"}\n'
    "duplicates: not sent, as an earlier message stands for it; replaced: took a waiting one's\n"
    "  place; their ids are those of the messages that survive\n"
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
@click.option("--ttl", type=DURATION, help="Expire if it still waits after this time.")
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
    help="What to do when a channel's max_size or the queue's max_messages is reached.",
)
@_dedup_options
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
    ttl: float | None,
    headers: tuple[tuple[str, str], ...],
    as_json: bool,
    as_text: bool,
    batch_size: int,
    from_line: int,
    when_full: WhenFull,
    dedup_key_from: str | None,
    **dedup: Any,
) -> None:
    """Send messages to QUEUE, which is made if it is not there.

    PAYLOAD is one message. Without it, or with "-", each line of the standard input is one; with
    --file, each line, each JSON line or each row of CSV (as a JSON object, its cells as text). A
    text that is a JSON object or list is sent as JSON. Blank lines are passed over.

    A dedup key makes a send safe to repeat: while an earlier message with it stands, as the mode
    says, nothing is sent, and the answer has that one's id.

    Batches are all or nothing. If a line is wrong, everything before it has been sent, nothing
    after it, and --from-line goes on there.
    """
    shape = _shape(
        as_json=as_json,
        as_text=as_text,
        channel=channel,
        channel_from=channel_from,
        priority=priority,
        delay_seconds=delay,
        headers=dict(headers) or None,
        ttl_seconds=ttl,
        dedup={name: value for name, value in dedup.items() if value is not None},
        dedup_key_from=dedup_key_from,
    )
    if payload is not None and payload != "-":
        if path is not None:
            raise click.UsageError("give a PAYLOAD or a --file, not both")
        _send_one(app, queue, shape.from_text(_bytes_of(payload)), when_full)
        return
    if "dedup_key" in shape.dedup:
        raise click.UsageError("one key for all lines would send one: use --dedup-key-from")
    kind = kind or _format_of(path)
    if as_text and kind != "text":
        raise click.UsageError(f"--text does not go with {kind}")
    with _opened(path) as stream, app.open(create=True) as turnabout:
        sender = Sender(turnabout.queue(queue), batch_size, when_full)
        lines = Lines(stream, sender.flush)
        records = Records(lines, kind, shape, from_line=from_line)
        _send_all(app, sender, lines, records, _size_of(path))


def _shape(*, as_json: bool, as_text: bool, **options: Any) -> Shape:
    """The options of `send` as they shape each message; those that exclude each other refused."""
    if as_json and as_text:
        raise click.UsageError("--json-payload and --text exclude each other")
    if options["channel"] and options["channel_from"]:
        raise click.UsageError("--channel and --channel-from exclude each other")
    if options["dedup"].get("dedup_key") and options["dedup_key_from"]:
        raise click.UsageError("--dedup-key and --dedup-key-from exclude each other")
    if options["dedup"] and not options["dedup_key_from"] and "dedup_key" not in options["dedup"]:
        raise click.UsageError("--dedup-mode, --dedup-window, --dedup-scope need a --dedup-key")
    return Shape(**options, kind="json" if as_json else "text" if as_text else "auto")


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
    with app.open(create=True) as turnabout:
        sender = Sender(turnabout.queue(name), 1, when_full)
        try:
            sender.add(Record(1, message))
        except Full as full:
            if app.as_json:
                app.document(_report(sender, 0, None) | {"refused": 1})
            app.refuse(full.code, f"{full.text}. Nothing was sent.", NOT_AS_WISHED)
        except KeyboardInterrupt:
            if sender.last_id is None:
                raise  # else it came too late: say what happened
    where = f", channel {_show.channel(message.channel)}" if message.channel else ""
    text = f"Sent {sender.last_id} to {name}{where}."
    if sender.duplicates:
        text = f"Not sent: {sender.last_id} has the same dedup key and stands for it."
    elif sender.replaced:
        text = f"Replaced the content of {sender.last_id}, which was waiting in {name}{where}."
    elif sender.refused:
        text = f"Not sent: {name} or its channel {_show.channel(message.channel)} is full."
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
    is_typed = total is None and _show.is_terminal(sys.stdin)
    with progress(f"Sending to {name}", total, is_typed=is_typed) as bar:
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
            problem = (full.code, f"line {next_line}: {full.text}", NOT_AS_WISHED)
        except TurnaboutError as error:
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


def _with_lines(error: TurnaboutError, sender: Sender) -> str:
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
        "duplicates": sender.duplicates,
        "replaced": sender.replaced,
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
        text += f", {_show.plural(sender.refused, 'message')} refused: no room"
    if sender.duplicates:
        text += f", {_show.plural(sender.duplicates, 'duplicate')} not sent"
    if sender.replaced:
        text += f", {_show.plural(sender.replaced, 'waiting message')} replaced"
    if blank:
        text += f", {_show.plural(blank, 'blank line')} passed over"
    return f"{text}."
