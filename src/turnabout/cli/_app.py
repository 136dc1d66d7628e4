"""The common part of all commands: the database of `--url`, answers, errors, exit codes.

What the exit codes mean: `program.main`. Loads click and the words; whatever is slow to load is
imported inside the commands.
"""

from __future__ import annotations

import json
import os
from collections.abc import Generator, Iterable
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NoReturn

import click

from turnabout.cli import _json, _places, _show
from turnabout.words.errors import Forbidden, TurnaboutError, Unavailable, Uncertain, UsageError

if TYPE_CHECKING:
    from turnabout import Queue, Turnabout

OK, NEGATIVE, USAGE, UNAVAILABLE, INTERRUPTED = 0, 1, 2, 3, 130


@dataclass
class App:
    """The global options; one for each run of the program."""

    given_url: str | None = None
    as_json: bool = False

    # --- the database ---

    @property
    def url(self) -> str:
        """The database: `--url`, else TURNABOUT_URL, else a file in this folder."""
        return self.given_url or os.environ.get("TURNABOUT_URL") or _places.DEFAULT_URL

    @property
    def place(self) -> str:
        """The URL with its password hidden."""
        return _places.without_password(self.url)

    def open(self, *, create: bool = False) -> Turnabout:
        """The store. Unless `create`, an SQLite file that is not there is refused, not made:
        a wrong folder should say so and not show an empty queue.
        """
        if not create:
            self.need_file()
        from turnabout import connect

        return connect(self.url)

    @contextmanager
    def queue(self, name: str, *, create: bool = False) -> Generator[Queue]:
        with self.open(create=create) as turnabout:
            yield turnabout.queue(name)

    def need_file(self) -> None:
        """Refuse an SQLite file that is not there."""
        path = _places.sqlite_path(self.url)
        if path is not None and not _places.is_there(path):
            raise UsageError(
                f"there is no database at {path.absolute()}: name one with --url or "
                "TURNABOUT_URL, or create it (`turnabout migrate up`, or send the first message)"
            )

    # --- answers ---

    def say(self, value: Any, text: str, *, tagged: bool = False, **fields: Any) -> None:
        """Print an answer: with `--json` the value, after these fields; else the text.

        `tagged`: one of several outcomes; its JSON says which.
        """
        _show.out(_json.line(value, tagged=tagged, **fields) if self.as_json else text)

    def show(self, values: Iterable[Any], columns: _show.Columns, none: str) -> None:
        """Print a table, or one document of JSON; if there is nothing, note that."""
        values = list(values)
        if self.as_json:
            _show.out(_json.document(values))
        elif values:
            _show.out(_show.table(columns, values))
        else:
            _show.note(none)

    def refuse(self, code: str, text: str, exit_code: int, *, retryable: bool = False) -> NoReturn:
        """Say on standard error what went wrong, and end with that code."""
        self.complain(code, text, retryable=retryable)
        raise click.exceptions.Exit(exit_code)

    def complain(self, code: str, text: str, *, retryable: bool = False) -> None:
        """Say on standard error what went wrong, as a JSON line with `--json`."""
        text = _places.scrub(text, self.url)
        if self.as_json:
            error = {"code": code, "message": text, "retryable": retryable}
            click.echo(json.dumps({"error": error}), err=True)
        else:
            _show.note(f"{_show.red('Error:')} {_show.clean(text, lines=True)}")


pass_app = click.make_pass_decorator(App, ensure=True)


def negative() -> NoReturn:
    """End with the exit code of a negative result, which has been printed."""
    raise click.exceptions.Exit(NEGATIVE)


def exit_code(error: TurnaboutError) -> int:
    """The exit code for one of our exceptions."""
    if isinstance(error, Unavailable):
        return UNAVAILABLE
    return NEGATIVE if isinstance(error, Uncertain) else USAGE


@contextmanager
def answered(ctx: click.Context) -> Generator[None]:
    """The one place where exceptions become words and exit codes."""
    app = ctx.ensure_object(App)
    try:
        yield
    except TurnaboutError as error:
        app.refuse(error.code, str(error), exit_code(error), retryable=error.retryable)
    except OSError as error:
        if error.filename is None:
            raise  # a reader that went away (click ends quietly then), or a bug
        kind = Forbidden if isinstance(error, PermissionError) else UsageError
        app.refuse(kind.code, f"{error.strerror}: {error.filename}", USAGE)
    except (KeyboardInterrupt, click.Abort):  # Abort: at a question
        _show.note("Stopped.")
        ctx.exit(INTERRUPTED)
