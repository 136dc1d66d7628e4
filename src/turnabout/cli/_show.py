"""Output for people: aligned tables, durations, numbers. For programs: `_json.py`.

Nothing from a queue reaches a terminal raw: a channel's name may hold escape sequences.
"""

from __future__ import annotations

import os
import shutil
import sys
import time
import unicodedata
from collections.abc import Callable, Container, Iterable, Sequence
from datetime import datetime
from operator import attrgetter
from typing import Any

import click

DEFAULT_CHANNEL = "(default)"


def out(text: str) -> None:
    """A line on standard output."""
    _print(text, sys.stdout)


def note(text: str) -> None:
    """A line on standard error: for the person, not for the program behind a pipe."""
    _print(text, sys.stderr)


def _print(text: str, stream: Any) -> None:
    try:
        click.echo(text, file=stream)
    except UnicodeEncodeError:
        encoding = getattr(stream, "encoding", None) or "ascii"
        click.echo(text.encode(encoding, "backslashreplace").decode(encoding), file=stream)


def flush() -> None:
    """Hand what was printed to the reader; raises OSError if nobody reads any more."""
    sys.stdout.flush()


def is_terminal(stream: Any = None) -> bool:
    """Whether a person looks at standard output (or that stream)."""
    return bool((sys.stdout if stream is None else stream).isatty())


def is_coloured(stream: Any = None) -> bool:
    if os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb":
        return False
    return is_terminal(stream)


# --- colours -------------------------------------------------------------------------------------


def _styled(**style: Any) -> Callable[[str], str]:
    return lambda text: click.style(text, **style) if is_coloured() else text


bold, dim = _styled(bold=True), _styled(dim=True)
green, yellow, bad = _styled(fg="green"), _styled(fg="yellow"), _styled(fg="red", bold=True)


def red(text: str) -> str:
    """Red where errors go."""
    return click.style(text, fg="red") if is_coloured(sys.stderr) else text


# --- texts ---------------------------------------------------------------------------------------


def clean(text: str, *, lines: bool = False) -> str:
    """The text with control characters spelled out, so that it cannot drive a terminal."""
    if text.isprintable():
        return text
    kept = "\n\t" if lines else ""
    return "".join(c if c.isprintable() or c in kept else _spelled(c) for c in text)


def _spelled(char: str) -> str:
    return char.encode("unicode_escape", "backslashreplace").decode()


def channel(name: str) -> str:
    return clean(name) if name else DEFAULT_CHANNEL


def payload(data: bytes, limit: int | None = None) -> str:
    """A payload to look at: text if it is text, else its length."""
    try:
        text = data.decode()
    except UnicodeDecodeError:
        return f"({plural(len(data), 'byte')}, not text)"
    if limit is None:
        return clean(text, lines=True)
    text = clean(text.replace("\n", "⏎"))
    return text if len(text) <= limit else f"{text[: limit - 1]}…"


def error(text: str, limit: int) -> str:
    """An error in one line; of a traceback what stands behind the frames."""
    text = text.strip()
    if text.startswith("Traceback "):
        behind = text.rpartition('\n  File "')[2].splitlines()[1:]
        text = "\n".join(line for line in behind if not line.startswith(" ")) or text
    return payload(text.encode(), limit)


def count(number: float) -> str:
    """1234567 as 1,234,567; small fractions keep a digit."""
    if number == int(number) or abs(number) >= 100:
        return f"{number:,.0f}"
    return f"{number:,.1f}"


def plural(number: int, word: str, words: str | None = None) -> str:
    """A count of things. `words`: for more than one, unless it is the word with an s."""
    return f"{count(number)} {word if number == 1 else words or word + 's'}"


def duration(seconds: float) -> str:
    """Two units at most: 250ms, 4.2s, 3m 12s, 5h 04m, 12d 3h."""
    if seconds < 0:
        return f"-{duration(-seconds)}"
    if 0 < seconds < 1:
        return f"{seconds * 1000:.0f}ms"
    if seconds < 10 and round(seconds, 1) != int(seconds):
        return f"{seconds:.1f}s"
    whole = round(seconds)
    for big, unit, small, rest_unit in ((86_400, "d", 3600, "h"), (3600, "h", 60, "m")):
        if whole >= big:
            rest = whole % big // small
            return f"{whole // big:,}{unit}" + (f" {rest}{rest_unit}" if rest else "")
    rest = f" {whole % 60}s" if whole % 60 else ""
    return f"{whole}s" if whole < 60 else f"{whole // 60}m{rest}"


def milliseconds(value: int | None) -> str:
    """A duration in milliseconds; a dash for none."""
    return "–" if value is None else duration(value / 1000)


def figure(text: str) -> str:
    """A number that is a text already; aligned to the right."""
    return text


def yes(value: bool) -> str:
    return "yes" if value else "no"


def tick(value: bool) -> str:
    """Show `yes`, or nothing, where most are not."""
    return "yes" if value else ""


def when(at: int, now: float | None = None) -> str:
    """An instant as seen from this machine's clock: 3m 12s ago, or in 5s."""
    seconds = at / 1000 - (time.time() if now is None else now)
    if abs(seconds) < 1:
        return "now"
    return f"in {duration(seconds)}" if seconds > 0 else f"{duration(-seconds)} ago"


def clock_time(at: int) -> str:
    """An instant as the clock on the wall shows it, with the day if it is not today."""
    then = datetime.fromtimestamp(at / 1000).astimezone()
    shown = f"{then:%H:%M:%S}.{at % 1000:03d}"
    today = datetime.now().astimezone().date()
    return shown if then.date() == today else f"{then:%Y-%m-%d} {shown}"


# --- tables --------------------------------------------------------------------------------------

Columns = Sequence[tuple[str, str | Callable[[Any], Any], Callable[[Any], str]]]
"""Columns: title; field (`settings.fifo`) or function that finds the value; format."""

_TO_THE_RIGHT = {count, milliseconds, duration, figure}


def table(columns: Columns, values: Iterable[Any]) -> str:
    """A line for each value under the titles. Numbers are aligned to the right."""
    right = {i for i, (_, _, how) in enumerate(columns) if how in _TO_THE_RIGHT}
    rows = [[cell(value, of, how) for _, of, how in columns] for value in values]
    return grid([title for title, _, _ in columns], rows, right)


def facts(columns: Columns, value: Any) -> str:
    """The same of one value: names and values in two columns."""
    width = max(len(title) for title, _, _ in columns)
    pairs = ((title.ljust(width), cell(value, of, how)) for title, of, how in columns)
    return "\n".join(f"{bold(title)}  {text}" for title, text in pairs)


def cell(value: Any, of: str | Callable[[Any], Any], how: Callable[[Any], str]) -> str:
    """One field as it shows; a dash for None."""
    found = attrgetter(of)(value) if isinstance(of, str) else of(value)
    return "–" if found is None else how(found)


def grid(heads: Sequence[str], rows: Sequence[Sequence[str]], right: Container[int]) -> str:
    """Cells under heads, those of the columns `right` aligned to the right.

    On a terminal, the first column gives way when the line is too long.
    """
    widths = [max(_width(row[i]) for row in (heads, *rows)) for i in range(len(heads))]
    if is_terminal():
        spare = shutil.get_terminal_size().columns - sum(widths) - 2 * (len(widths) - 1)
        widths[0] = max(min(12, widths[0]), widths[0] + min(0, spare))
    lines = [bold(_line(heads, widths, right))]
    lines += [_line(row, widths, right) for row in rows]
    return "\n".join(lines)


def _line(cells: Sequence[str], widths: Sequence[int], right: Container[int]) -> str:
    parts: list[str] = []
    for i, (cell, width) in enumerate(zip(cells, widths, strict=True)):
        shown = _cut(cell, width)
        gap = " " * (width - _width(shown))
        parts.append(gap + shown if i in right else shown + gap)
    return "  ".join(parts).rstrip()


def _cut(text: str, width: int) -> str:
    if _width(text) <= width:
        return text
    while text and _width(text) > width - 1:
        text = text[:-1]
    return f"{text}…"


def _width(text: str) -> int:
    """Columns that a text takes: wide characters two, combining ones none."""
    if text.isascii():
        return len(text)
    return sum(
        0 if unicodedata.combining(c) else 2 if unicodedata.east_asian_width(c) in "WF" else 1
        for c in text
    )


def bar(share: float, width: int = 10) -> str:
    """A small bar, filled to a share of 0 to 1."""
    filled = round(max(0.0, min(1.0, share)) * width)
    if share > 0 and not filled:
        filled = 1
    return "█" * filled + "·" * (width - filled)
