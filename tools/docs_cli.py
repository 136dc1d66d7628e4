"""Generate `docs/cli.md`, the page of all commands, from the help of the commands themselves.

python tools/docs_cli.py           write it
python tools/docs_cli.py --check   fail if the written page is stale
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import click

PAGE = Path(__file__).resolve().parent.parent / "docs" / "cli.md"
HEAD = """\
<!-- Generated from the commands' help by tools/docs_cli.py: do not edit. -->

# The command line

Every command with its options, as `--help` prints them. The database is named by `--url`, or by
`TURNABOUT_URL`, or is `turnabout.db` in this folder. Each command also takes `--url`, `--json` and
`--help`. How to use it in scripts: [use a shell script](how-to/shell.md).
"""
SHARED = {"--url", "--json", "-h"}  # options that are told once, at the top


class Markdown(click.HelpFormatter):
    """Writes help as Markdown: lists, which fit on a phone, in the place of columns."""

    def write_usage(self, prog: str, args: str = "", prefix: str | None = None) -> None:
        """How the command is called."""
        self.path = prog
        self.write(f"```text\n{prog} {args}\n```\n")

    def write_heading(self, heading: str) -> None:
        """What the next lines are."""
        self.write(f"**{heading}**\n\n")

    def write_text(self, text: str) -> None:
        """Paragraphs; one that click leaves as it is, marked by \\b, is code."""
        for part in text.split("\n\n"):
            if part.startswith("\b\n"):
                self.write(f"```text\n{part[2:]}\n```\n\n")
            else:
                self.write(_prose(" ".join(part.split())) + "\n\n")

    def write_dl(
        self, rows: Sequence[tuple[str, str]], col_max: int = 30, col_spacing: int = 2
    ) -> None:
        """Options, or commands."""
        for first, second in rows:
            word = first.strip()
            if self.is_whole or word.replace(",", " ").split()[0] not in SHARED:
                shown = f"`{word}`"
                if not word.startswith("-"):  # a command
                    shown = f"[{shown}](#{self.path.replace(' ', '-')}-{word})"
                self.write(f"- {shown}: {_prose(' '.join(second.split()))}\n")
        self.write("\n")

    def write(self, string: str) -> None:
        """Lines that a command writes by itself, set in, are what one types or sees."""
        is_line = string.startswith("  ")
        if is_line != self.is_code:
            super().write("```text\n" if is_line else "```\n\n")
            self.is_code = is_line
        super().write(string[2:] if is_line else string)

    is_code = False
    is_whole = False
    path = ""


class Context(click.Context):
    """The context of a command whose help is to be Markdown."""

    formatter_class = Markdown


def page() -> str:
    """The whole page."""
    os.environ.pop("TURNABOUT_URL", None)
    from turnabout.cli import main

    return "\n".join([HEAD, *_sections(main, "turnabout", None)])


def _sections(command: click.Command, name: str, parent: click.Context | None) -> Iterator[str]:
    """A command's help under a heading of its own, then its subcommands."""
    context = Context(command, info_name=name, parent=parent, **command.context_settings)
    formatter = Markdown()
    formatter.is_whole = parent is None
    command.format_help(context, formatter)
    formatter.write("")  # ends the code
    text = re.sub(r"\*\*Options\*\*\n\n\n", "", formatter.getvalue())
    text = re.sub(r"\n{3,}", "\n\n", text).strip()
    yield f"## {context.command_path}\n\n{text}\n"
    if isinstance(command, click.Group):
        for (
            word,
            subcommand,
        ) in command.commands.items():  # not the verbs of `call`: http.md has them
            yield from _sections(subcommand, word, context)


def _prose(text: str) -> str:
    """Text in which Markdown reads nothing but words; names and options are code."""
    text = re.sub(r"(?<![\w`-])(--?[a-z][\w-]*|[A-Za-z]+_\w+)", r"`\1`", text)
    text = re.sub(r"<(?=[a-z])", "&lt;", text)
    return re.sub(r"([*\[])", r"\\\1", text)


def main() -> int:
    """Write the page, or check it."""
    wanted = page()
    if sys.argv[1:] == ["--check"]:
        fresh = PAGE.exists() and PAGE.read_text(encoding="utf-8") == wanted
        if not fresh:
            print("docs/cli.md is stale: run `python tools/docs_cli.py`", file=sys.stderr)
        return 0 if fresh else 1
    PAGE.write_text(wanted, encoding="utf-8")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
