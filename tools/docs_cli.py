"""Generate `docs/cli.md`, the page of all commands, from the help of the commands themselves.

python tools/docs_cli.py           write it
python tools/docs_cli.py --check   fail if the written page is stale
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import click

PAGE = Path(__file__).resolve().parent.parent / "docs" / "cli.md"
HEAD = """\
<!-- Generated from the commands' help by tools/docs_cli.py: do not edit. -->

# The command line

The database is named by `--url`, or by `TURNABOUT_URL`, or is `turnabout.db` in this folder.
How to use it in scripts: [use a shell script](how-to/shell.md).
"""
WIDTH = 80


def page() -> str:
    """The whole page."""
    os.environ.pop("TURNABOUT_URL", None)
    from turnabout.cli import main

    return "\n".join([HEAD, *_sections(main, "turnabout", None)])


def _sections(command: click.Command, name: str, parent: click.Context | None) -> Iterator[str]:
    """A command's help under a heading of its own, then its subcommands."""
    context = click.Context(
        command,
        info_name=name,
        parent=parent,
        terminal_width=WIDTH,
        max_content_width=WIDTH,
        **command.context_settings,
    )
    usage = "\n".join(line.rstrip() for line in command.get_help(context).splitlines())
    yield f"## {context.command_path}\n\n```text\n{usage}\n```\n"
    if isinstance(command, click.Group):
        for word in command.list_commands(context):
            subcommand = command.get_command(context, word)
            assert subcommand is not None
            yield from _sections(subcommand, word, context)


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
