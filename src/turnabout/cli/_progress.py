"""A progress bar on standard error, if a person is there to see it. Rich is loaded only then."""

from __future__ import annotations

import sys
from collections.abc import Callable, Generator
from contextlib import contextmanager

from turnabout.cli import _show

Bar = Callable[[int, float], None]
"""Told how many messages are done, and how far that is, in the units of the total."""


@contextmanager
def progress(
    title: str, total: float | None, unit: str = "messages", *, is_typed: bool = False
) -> Generator[Bar]:
    """A bar up to `total`, with count, rate and time left; no total: a spinner with a count.

    Nothing where a person types what is counted: it would stand between the words.
    """
    if is_typed or not _show.is_coloured(sys.stderr):
        yield lambda _done, _position: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeRemainingColumn

    columns = [
        SpinnerColumn(),
        TextColumn("{task.description}", markup=False),
        *([] if total is None else [BarColumn(), TextColumn("{task.percentage:>3.0f}%")]),
        TextColumn("{task.fields[done]} {task.fields[unit]}  {task.fields[rate]}/s"),
        *([] if total is None else [TextColumn("ETA"), TimeRemainingColumn()]),
    ]
    console = Console(stderr=True)
    with Progress(*columns, console=console, transient=True) as bars:
        task = bars.add_task(title, total=total, done="0", rate="–", unit=unit)

        def show(done: int, position: float) -> None:
            elapsed = bars.tasks[0].elapsed or 0.0
            rate = _show.count(round(done / elapsed)) if elapsed > 0.2 else "–"
            bars.update(task, completed=position, done=_show.count(done), rate=rate)

        yield show
