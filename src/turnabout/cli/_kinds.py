"""Kinds of values that options take: durations, rates, headers, receipts, queue names."""

from __future__ import annotations

import re
import time
from datetime import datetime
from typing import TYPE_CHECKING, Any

import click

from turnabout.cli import _places
from turnabout.cli._app import App
from turnabout.words import limits
from turnabout.words.entities import Receipt
from turnabout.words.errors import TurnaboutError, UsageError
from turnabout.words.policy import Rate

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

    _Kind = click.ParamType[Any]
else:
    _Kind = click.ParamType  # generic only since click 8.4

_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86_400.0}
_PART = re.compile(r"([0-9]+(?:\.[0-9]+)?)(ms|s|m|h|d)")
_RATE = re.compile(r"([0-9]+)/([0-9a-z.]+)(?::([0-9]+))?")
NONE = "none"


def seconds(text: str) -> float:
    """`90`, `90s`, `1m30s`, `250ms`, `2h`, `7d` as seconds; ValueError for anything else."""
    text = text.strip().lower().replace(" ", "")
    if re.fullmatch(r"[0-9]+(\.[0-9]+)?", text):
        return float(text)
    parts = _PART.findall(text)
    if not parts or "".join(number + unit for number, unit in parts) != text:
        raise ValueError(text)
    return sum(float(number) * _UNITS[unit] for number, unit in parts)


class Duration(_Kind):
    """Seconds, or a number with a unit."""

    name = "duration"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        if isinstance(value, (int, float)):
            return float(value)
        try:
            return seconds(value)
        except ValueError:
            self.fail(f"{value!r} is no duration: write 90, 90s, 1m30s, 250ms, 2h or 7d", param)


class DurationOrNone(_Kind):
    """A duration, or `none`."""

    name = "duration|none"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> float | str:
        return value if value == NONE else DURATION.convert(value, param, ctx)


class Instant(_Kind):
    """A time: so long ago (`2h`), or as ISO 8601 writes it. Milliseconds since 1970."""

    name = "time"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        if isinstance(value, int):
            return value
        try:
            return round((time.time() - seconds(value)) * 1000)
        except ValueError:
            pass
        try:
            # Without a zone it is meant as the clock on the wall says.
            return round(datetime.fromisoformat(value).timestamp() * 1000)
        except (ValueError, OverflowError, OSError):
            self.fail(
                f"{value!r} is no time: write how long ago (2h, 7d) or 2026-05-01T12:00", param
            )


class PerSecond(_Kind):
    """`50` or `50/s`."""

    name = "N/s"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        text = str(value).removesuffix("/s")
        if not (text.isascii() and text.isdigit() and int(text)):
            self.fail(f"{value!r} is no number of messages a second: write 50 or 50/s", param)
        return int(text)


class RateKind(_Kind):
    """`COUNT/PERIOD[:BURST]`, or `none`."""

    name = "rate"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> Rate | str:
        if isinstance(value, Rate) or value == NONE:
            return value
        match = _RATE.fullmatch(str(value))
        try:
            if match is None:
                raise ValueError(value)
            count, period, burst = match.groups()
            # "10/s" is ten in one second.
            per = seconds(period if period[0].isdigit() else f"1{period}")
            return Rate(int(count), per, int(burst or 1))
        except UsageError as error:
            self.fail(str(error), param)
        except ValueError:
            self.fail(
                f"{value!r} is no rate: write COUNT/PERIOD[:BURST], for example 10/s, 100/1m "
                "or 10/1s:5 (at most 5 at once)",
                param,
            )


class WholeOrNone(_Kind):
    """A whole number, or `none` for no limit."""

    name = "number"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> int | str:
        if isinstance(value, int) or value == NONE:
            return value
        try:
            return int(value)
        except ValueError:
            self.fail(f"{value!r} is neither a whole number nor {NONE!r}", param)


class HeaderKind(_Kind):
    """`name=value`."""

    name = "name=value"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[str, str]:
        if isinstance(value, tuple):
            return value  # pyright: ignore[reportUnknownVariableType]
        name, equals, text = str(value).partition("=")
        if not equals or not name:
            self.fail(f"{value!r} is no header: write NAME=VALUE", param)
        return name, text


class ReceiptKind(_Kind):
    """`4711.1`: a message's id and attempt, as `receive` prints it."""

    name = "receipt"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> Receipt:
        if isinstance(value, Receipt):
            return value
        try:
            return Receipt.parse(value)
        except UsageError as error:
            self.fail(str(error), param)


class MessageId(_Kind):
    """`4711`: a message's id, as `send` and `peek` print it."""

    name = "id"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        text = str(value)
        if text.isascii() and text.isdigit() and len(text) < 20 and 1 <= int(text) <= limits.ID_MAX:
            return int(text)
        self.fail(f"{limits.shown(text)} is no id: it reads like 4711", param)


class QueueName(_Kind):
    """A queue's name, completed from the database where that is cheap: an SQLite file."""

    name = "queue"

    def shell_complete(
        self, ctx: click.Context, param: click.Parameter, incomplete: str
    ) -> list[CompletionItem]:
        from click.shell_completion import CompletionItem

        app = ctx.find_root().ensure_object(App)
        path = _places.sqlite_path(app.url)
        if path is None or not path.exists():
            return []
        try:
            with app.open() as turnabout:
                names = [entry.name for entry in turnabout.queues()]
        except (TurnaboutError, OSError):
            return []  # a shell waits for this: no word is better than an error
        return [CompletionItem(name) for name in names if name.startswith(incomplete)]


DURATION = Duration()
DURATION_OR_NONE = DurationOrNone()
INSTANT = Instant()
PER_SECOND = PerSecond()
RATE = RateKind()
WHOLE_OR_NONE = WholeOrNone()
HEADER = HeaderKind()
RECEIPT = ReceiptKind()
MESSAGE_ID = MessageId()
QUEUE = QueueName()
