"""Declaring commands, in the core and in the slices: a command is a function.

    @queue.command("pause", "turnabout queue pause emails --reason 'it moves'", json=QueueEntry)
    @argument("queue", QUEUE)
    @option("--reason", "Why; `turnabout queue get` shows it.", metavar="TEXT")
    def pause(app: App, queue: str, reason: str | None) -> None:
        ...  # (its text goes here)
        with app.queue(queue) as handle:
            handle.pause(reason=reason)

`group.command` for a command of a group, `command` for one of its own, which goes into a section
of the program (`cli/__init__.py`, or a slice's `commands`). The words behind the name are
examples; the first sentence of the text is its line in lists; `json` is what --json prints (see
`_json.py`: a value class, `one(…)`, `lines(…)`, `items(…)`, or words). How to print: `App.say`,
`App.show` in `_app.py`; how to make tables: `table` in `_show.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import reduce
from typing import Any, cast

import click

from turnabout.cli import _json, _places
from turnabout.cli._app import App, answered, pass_app

Function = Callable[..., None]


def option(names: str, text: str, kind: Any = None, default: Any = None, **more: Any) -> Any:
    """An option. `names` as in "-n --limit", with a name for Python last if it is another one;
    `kind`: a type of click, `bool` for a flag, or the words to choose from.
    """
    if kind is bool:
        more["is_flag"] = True
    elif isinstance(kind, tuple):
        more["type"] = click.Choice(cast("tuple[str, ...]", kind))
    elif kind is not None:
        more["type"] = kind
    if default is not None:
        more = {"default": default, "show_default": True, **more}
    return click.option(*names.split(), help=text, **more)


def argument(name: str, kind: Any = None, **more: Any) -> Any:
    return click.argument(name, type=kind, **more)


def options(*declared: Any) -> Any:
    """Several options at once, in this order."""

    def add(function: Any) -> Any:
        return reduce(lambda made, one: one(made), reversed(declared), function)

    return add


def limit(most: int, default: int | None = 20, text: str = "At most this many.") -> Any:
    """`-n --limit`."""
    return option("-n --limit", text, click.IntRange(1, most), default)


YES = option("--yes", "Don't ask.", bool)


class Command(click.Command):
    """A command whose help ends with examples and with the shape of its JSON."""

    def __init__(
        self, *words: Any, examples: Sequence[str] = (), json: Any = "", **more: Any
    ) -> None:
        super().__init__(*words, **more)
        self.examples = tuple(examples)
        self.json = json
        self.params += _global_options()

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        write_block(formatter, "Examples", self.examples)
        write_block(formatter, "With --json", _json.help_lines(self.json))
        super().format_epilog(ctx, formatter)


class Group(Command, click.Group):
    """A group of commands, listed under headings."""

    def __init__(self, *words: Any, **more: Any) -> None:
        super().__init__(*words, **more)
        self.sections: dict[str, list[str]] = {}

    def add_section(self, title: str, *commands: click.Command) -> None:
        """Add commands; the help lists them in this order under this title."""
        for one in commands:
            self.add_command(one)
            self.sections.setdefault(title, []).append(one.name or "")

    def command(  # pyright: ignore[reportIncompatibleMethodOverride]
        self, name: str, *examples: str, json: Any
    ) -> Any:
        """Make a command of a function, and add it; its first example is one of the group's."""

        def add(function: Function) -> Command:
            made = command(name, *examples, json=json)(function)
            self.add_section("Commands", made)
            self.examples += examples[:1]
            return made

        return add

    def list_commands(self, ctx: click.Context) -> list[str]:
        return [name for names in self.sections.values() for name in names]

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        width = max((len(name) for name in self.list_commands(ctx)), default=0)
        for title, names in self.sections.items():
            rows = [
                (name.ljust(width), self.commands[name].get_short_help_str(200)) for name in names
            ]
            with formatter.section(title):
                formatter.write_dl(rows)


class Root(Group):
    """The program itself."""

    def invoke(self, ctx: click.Context) -> Any:
        with answered(ctx):
            return super().invoke(ctx)


def command(name: str, *examples: str, json: Any) -> Callable[[Function], Command]:
    """Make a command of a function, whose first argument is the `App`."""

    def make(function: Function) -> Command:
        return click.command(name, cls=Command, examples=examples, json=json)(pass_app(function))

    return make


def group(name: str, *examples: str, short_help: str | None = None) -> Callable[[Function], Group]:
    """Make a group of a function whose text is its help. Without examples of its own it shows the
    first one of each `group.command`.
    """
    return click.group(name, cls=Group, examples=examples, short_help=short_help)


def _note(context: click.Context, option: click.Parameter, value: Any) -> None:
    if value == "":  # a variable of the shell that is not set: another database than was meant
        raise click.UsageError("--url is empty: name a database, or leave it out")
    if value:
        setattr(context.find_root().ensure_object(App), option.name or "", value)


def _global_options() -> list[click.Parameter]:
    """The options that stand before or after any command's name, as `App` calls them."""
    url = f"The database. [env: TURNABOUT_URL; default: {_places.DEFAULT_URL}]"
    text = "Print JSON instead of text."
    noted: Any = {"expose_value": False, "callback": _note}
    return [
        click.Option(["--url", "given_url"], metavar="URL", help=url, **noted),
        click.Option(["--json", "as_json"], is_flag=True, help=text, **noted),
    ]


def write_block(formatter: click.HelpFormatter, title: str, lines: Sequence[str]) -> None:
    """Lines that are not wrapped: they are to be copied."""
    if lines:
        with formatter.section(title):
            for line in lines:
                formatter.write(f"{'':>{formatter.current_indent}}{line}\n")
