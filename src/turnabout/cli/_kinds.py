"""Kinds of values that options take: durations, rates, headers, receipts, queue names."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from datetime import datetime
from typing import TYPE_CHECKING, Any

import click

from turnabout.cli import _places
from turnabout.cli._app import App
from turnabout.words import limits
from turnabout.words.durations import seconds
from turnabout.words.errors import TurnaboutError, UsageError
from turnabout.words.policy import Rate

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

    _Kind = click.ParamType[Any]
else:
    _Kind = click.ParamType  # generic only since click 8.4

NONE = "none"


class Kind(_Kind):
    """A kind of value: how it is read, and what to write when it is not valid."""

    def __init__(self, name: str, read: Callable[[str], Any], write: str, what: str = "") -> None:
        self.name = name
        self._read = read
        self._error = f"is not a valid {what or name}: write {write}"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if not isinstance(value, str):
            return value
        try:
            return self._read(value)
        except UsageError as error:
            self.fail(str(error), param)
        except (ValueError, OverflowError, OSError):
            self.fail(f"{limits.shown(value)} {self._error}", param)


_RATE = re.compile(r"([0-9]+)/([0-9a-z.]+)(?::([0-9]+))?")


def _instant(text: str) -> int:
    """A duration ago, or ISO 8601, without a zone by this machine's clock; in milliseconds."""
    try:
        return round((time.time() - seconds(text)) * 1000)
    except ValueError:
        return _time(text)


def _time(text: str) -> int:
    return round(datetime.fromisoformat(text).timestamp() * 1000)


def _rate(text: str) -> Rate:
    match = _RATE.fullmatch(text)
    if match is None:
        raise ValueError(text)
    count, period, burst = match.groups()
    # "10/s" is ten in one second.
    return Rate(
        int(count), seconds(period if period[0].isdigit() else f"1{period}"), int(burst or 1)
    )


def _per_second(text: str) -> int:
    return limits.whole(int(text.removesuffix("/s")), "the rate", 1, limits.INTEGER_MAX)


def pair(text: str) -> tuple[str, str]:
    """Read NAME=VALUE. Raises: ValueError."""
    name, equals, value = text.partition("=")
    if not equals or not name:
        raise ValueError(text)
    return name, value


def _labels(text: str) -> dict[str, str]:
    return dict(map(pair, text.split(",")))


def _message_id(text: str) -> int:
    if text.isascii() and text.isdigit() and len(text) < 20 and 1 <= int(text) <= limits.ID_MAX:
        return int(text)
    raise ValueError(text)


def _or_none(read: Callable[[str], Any]) -> Callable[[str], Any]:
    return lambda text: text if text == NONE else read(text)


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


_DURATIONS = "90, 90s, 1m30s, 250ms, 2h or 7d"
_RATES = "COUNT/PERIOD[:BURST], for example 10/s, 100/1m or 10/1s:5 (at most 5 at once)"
DURATION = Kind("duration", seconds, _DURATIONS)
DURATION_OR_NONE = Kind("duration|none", _or_none(seconds), f"{_DURATIONS}, or none", "duration")
TIME = Kind("time", _time, "2026-05-01T12:00, by this machine's clock unless it names a zone")
INSTANT = Kind("time", _instant, "how long ago (2h, 7d), or 2026-05-01T12:00")
PER_SECOND = Kind("N/s", _per_second, "50 or 50/s", "number of messages per second")
RATE = Kind("rate", _or_none(_rate), f"{_RATES}, or none")
WHOLE_OR_NONE = Kind("number", _or_none(int), "a whole number, or none")
HEADER = Kind("name=value", pair, "NAME=VALUE", "header")
LABELS = Kind("labels", _or_none(_labels), "NAME=TEXT,NAME=TEXT, or none")
MESSAGE_ID = Kind("id", _message_id, "a number such as 4711")
QUEUE = QueueName()
