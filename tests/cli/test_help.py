"""Every command explains itself, in the same way."""

from __future__ import annotations

import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import click
from click.testing import CliRunner

import turnabout
from tests.support.each import each
from turnabout.cli import _json, main
from turnabout.cli._declare import Command

SOURCE = Path(__file__).parents[2] / "src"


def walk(command: click.Command, path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    yield path
    if isinstance(command, click.Group):
        for name, child in command.commands.items():
            yield from walk(child, (*path, name))


PATHS = list(walk(main))


def calls(example: str) -> Iterator[list[str]]:
    """The words of each call of turnabout in a line of shell."""
    lexer = shlex.shlex(example, posix=True, punctuation_chars="|;>")
    lexer.whitespace_split = True
    words: list[str] = []
    for word in [*lexer, ";"]:
        if word[0] in "|;>":
            if "turnabout" in words and not words[0].startswith(("jq", "echo", "zcat")):
                yield words[words.index("turnabout") + 1 :]
            words = []
        else:
            words.append(word)


LEAVES = [path for path in PATHS if path not in {p[:-1] for p in PATHS if p} | {("call",)}]
"""The verbs of `call` are made when they are asked for; `test_call.py` asks for each."""


def command_at(path: tuple[str, ...]) -> click.Command:
    command: click.Command = main
    for name in path:
        assert isinstance(command, click.Group)
        command = command.commands[name]
    return command


@each("path", PATHS)
def test_help_has_examples_that_name_the_command(path: tuple[str, ...]) -> None:
    result = CliRunner().invoke(main, [*path, "--help"], prog_name="turnabout")
    assert result.exit_code == 0
    assert "Examples:" in result.stdout
    examples = result.stdout.split("Examples:")[1]
    assert " ".join(("turnabout", *path)) in examples
    assert max(map(len, result.stdout.splitlines())) <= 100


@each("path", LEAVES)
def test_every_command_takes_json_and_url_and_documents_its_json(path: tuple[str, ...]) -> None:
    command = command_at(path)
    assert isinstance(command, Command)
    told = " ".join(_json.help_lines(command.json))
    assert told
    assert "[]" not in told, "a list of what?"
    assert {"--json", "--url"} <= {word for param in command.params for word in param.opts}
    assert command.help
    assert command.get_short_help_str(200)


@each("path", LEAVES)
def test_every_option_is_explained(path: tuple[str, ...]) -> None:
    for param in command_at(path).params:
        if isinstance(param, click.Option):
            assert param.help, param.opts


@each("path", [*LEAVES, ("call",)])
def test_examples_are_calls_that_parse(path: tuple[str, ...]) -> None:
    for words in (w for e in getattr(command_at(path), "examples", ()) for w in calls(e)):
        command: click.Command = main
        while isinstance(command, click.Group):
            found = command.get_command(click.Context(command), words.pop(0))
            assert found is not None, words
            command = found
        command.make_context("x", words)


def test_all_commands_stand_in_a_section_of_the_help() -> None:
    listed = main.list_commands(click.Context(main))
    assert sorted(listed) == sorted(main.commands)


def test_version() -> None:
    result = CliRunner().invoke(main, ["--version"])
    assert result.stdout == f"turnabout {turnabout.__version__}\n"


def test_a_wrong_word_is_a_wrong_call() -> None:
    result = CliRunner().invoke(main, ["dequeue", "emails"])
    assert result.exit_code == 2
    assert "No such command" in result.stderr


def test_nothing_slow_is_loaded_for_help() -> None:
    code = (
        "import sys; from turnabout.cli import main; main(['--help'], standalone_mode=False);"
        "print(sorted({'rich','psycopg','asyncio','turnabout.worker'} &set(sys.modules)))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={"PYTHONPATH": ":".join([str(SOURCE), *sys.path])},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.splitlines()[-1] == "[]"
