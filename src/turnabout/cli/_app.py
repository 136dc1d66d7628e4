"""What all commands share: `--url` and `--json`, help with examples, errors, exit codes.

Exit codes: 0 it went as wished; 1 it did not (a lost lease, a full channel, a failed check);
2 the call was wrong; 3 the database could not be reached or was busy: repeat later; 130 Ctrl-C.
Loads click and the words; whatever is slow to load is imported inside the commands.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, NoReturn, TypeVar

import click

from turnabout.cli import _places, _show
from turnabout.words.errors import Forbidden, TurnaboutError, Unavailable, Uncertain, UsageError

if TYPE_CHECKING:
    from turnabout import Turnabout

OK, NOT_AS_WISHED, USAGE, UNAVAILABLE, INTERRUPTED = 0, 1, 2, 3, 130

C = TypeVar("C", bound=click.Command)


@dataclass
class App:
    """What the global options say; one for each run of the program."""

    given_url: str | None = None
    as_json: bool = False

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

    def need_file(self) -> None:
        """Refuse an SQLite file that is not there."""
        path = _places.sqlite_path(self.url)
        if path is not None and not path.exists():
            raise UsageError(
                f"there is no database at {path.absolute()}: name one with --url or "
                "TURNABOUT_URL, or make it (`turnabout migrate up`, or send the first message)"
            )

    def document(self, value: Any) -> None:
        """Print one JSON value on one line."""
        _show.out(_show.json_line(value))

    def outcome(self, value: Any, text: str) -> None:
        """Print an outcome: the value with `--json`, else the text."""
        if self.as_json:
            self.document(value)
        else:
            _show.out(text)

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


def exit_code(error: TurnaboutError) -> int:
    """The exit code for an exception of ours."""
    if isinstance(error, Unavailable):
        return UNAVAILABLE
    if isinstance(error, Uncertain):
        return NOT_AS_WISHED
    return USAGE


def _take_url(context: click.Context, _: click.Parameter, value: str | None) -> None:
    if value == "":  # a variable of the shell that is not set: another database than was meant
        raise click.UsageError("--url is empty: name a database, or leave it out")
    if value is not None:
        context.find_root().ensure_object(App).given_url = value


def _take_json(context: click.Context, _: click.Parameter, value: bool) -> None:
    if value:
        context.find_root().ensure_object(App).as_json = True


def _global_options() -> list[click.Parameter]:
    """The options that stand before or after any command's name."""
    url = click.Option(
        ["--url"],
        expose_value=False,
        callback=_take_url,
        metavar="URL",
        help=f"The database. [env: TURNABOUT_URL; default: {_places.DEFAULT_URL}]",
    )
    as_json = click.Option(
        ["--json"],
        is_flag=True,
        expose_value=False,
        callback=_take_json,
        help="Print JSON instead of text.",
    )
    return [url, as_json]


class Command(click.Command):
    """A command whose help ends with examples and with the shape of its JSON."""

    def __init__(
        self, *words: Any, examples: Sequence[str] = (), json_form: str = "", **options: Any
    ) -> None:
        super().__init__(*words, **options)
        self.examples = tuple(examples)
        self.json_form = json_form
        self.params += _global_options()

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        _write_block(formatter, "Examples", self.examples)
        _write_block(formatter, "With --json", self.json_form.splitlines())
        super().format_epilog(ctx, formatter)


class Group(click.Group):
    """A group of commands, listed under headings."""

    command_class = Command

    def __init__(self, *words: Any, examples: Sequence[str] = (), **options: Any) -> None:
        super().__init__(*words, **options)
        self.examples = tuple(examples)
        self.sections: list[tuple[str, list[str]]] = []
        self.params += _global_options()

    def add_section(self, title: str, *commands: click.Command) -> None:
        """Add commands; the help lists them in this order under this title."""
        for command in commands:
            self.add_command(command)
        self.sections.append((title, [command.name or "" for command in commands]))

    def list_commands(self, ctx: click.Context) -> list[str]:
        return [name for _, names in self.sections for name in names]

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        width = max((len(name) for name in self.list_commands(ctx)), default=0)
        for title, names in self.sections:
            rows = [
                (name.ljust(width), command.get_short_help_str(70))
                for name in names
                if (command := self.get_command(ctx, name)) is not None
            ]
            with formatter.section(title):
                formatter.write_dl(rows)

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        _write_block(formatter, "Examples", self.examples)
        super().format_epilog(ctx, formatter)


class Root(Group):
    """The program itself: the one place where exceptions become words and exit codes."""

    unfinished: ClassVar[str] = "Stopped."

    def invoke(self, ctx: click.Context) -> Any:
        app = ctx.ensure_object(App)
        try:
            return super().invoke(ctx)
        except TurnaboutError as error:
            app.refuse(error.code, str(error), exit_code(error), retryable=error.retryable)
        except OSError as error:
            if error.filename is None:
                raise  # a reader that went away (click ends quietly then), or a bug
            kind = Forbidden if isinstance(error, PermissionError) else UsageError
            app.refuse(kind.code, f"{error.strerror}: {error.filename}", USAGE)
        except (KeyboardInterrupt, click.Abort):  # Abort: at a question
            _show.note(self.unfinished)
            ctx.exit(INTERRUPTED)


def command(name: str, **options: Any) -> Callable[[Callable[..., Any]], Command]:
    """Make a `Command` of a function; groups take it with `add_section`."""
    return click.command(name, cls=Command, **options)


def group(name: str, **options: Any) -> Callable[[Callable[..., Any]], Group]:
    """Make a `Group` of a function whose text is its help."""
    return click.group(name, cls=Group, **options)


def _write_block(formatter: click.HelpFormatter, title: str, lines: Sequence[str]) -> None:
    """Lines that are not wrapped: they are to be copied."""
    if lines:
        with formatter.section(title):
            for line in lines:
                formatter.write(f"{'':>{formatter.current_indent}}{line}\n")
