"""The pages of the documentation, taken apart into their blocks of code, and run.

- `python` blocks of a page run in turn, in one namespace and in an empty folder. One whose first
  line names a file (`# app.py`) is written there instead, for a later command to use.
- `sh` blocks run line by line. `turnabout …` runs in this process, unless it would not end or needs
  a server: then its words are only checked, as are those of `python3 dev.py …` and `pip install`.
  A comment `# exit code 1` says how a line ends; 0 unless it does.
- A `text` block right after either is what it prints. `…` in it stands for anything.
"""

from __future__ import annotations

import contextlib
import gc
import importlib.util
import io
import os
import re
import shlex
import sqlite3
import sys
import textwrap
import tomllib
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import click
import psycopg
from click.testing import CliRunner

from turnabout import Turnabout
from turnabout.cli import main

ROOT = Path(__file__).parents[2]
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.joinpath("docs").rglob("*.md")])

BLOCK = re.compile(r"^( *)```(\w+)\n(.*?)^\1```$", re.MULTILINE | re.DOTALL)
FILE = re.compile(r"# ([\w/]+\.\w+)\n")
EXIT_CODE = re.compile(r"# exit code (\d)$")
ENDLESS = ("bench", "demo", "dev", "serve")
PROGRAMS = (
    *("aws", "cd", "cp", "createdb", "crontab", "curl", "docker", "git", "go", "helm", "install"),
    *("journalctl", "jupyter", "kubectl", "npm", "pg_dump", "pg_restore", "psql"),
    *("spark-class", "spark-submit", "sqlite3", "systemctl", "touch", "venv-pack"),
)
"""Of other people: they are taken on trust."""
PROGRAMS_OURS = ("clients/", "examples/")


@dataclass(frozen=True)
class Block:
    """A block of code: where it stands, what it is, and what it prints if the page says."""

    line: int
    language: str
    text: str
    output: str | None = None


def blocks(text: str) -> list[Block]:
    """The blocks of a page, each with the output that stands right after it."""
    found: list[Block] = []
    end = 0
    for match in BLOCK.finditer(text):
        language, body = match[2], textwrap.dedent(match[3])
        if language == "text" and found and not text[end : match.start()].strip():
            found[-1] = Block(found[-1].line, found[-1].language, found[-1].text, body)
        else:
            line = text.count("\n", 0, match.start()) + 1
            found.append(Block(line, language, body))
        end = match.end()
    return found


def name(page: Path) -> str:
    """A page as it is called in the repository."""
    return page.relative_to(ROOT).as_posix()


@dataclass
class Run:
    """One page on its way through."""

    page: str
    change: Callable[[str], str] = str
    """What to put in the place of a text, such as another database's URL."""
    names: dict[str, Any] = field(default_factory=dict)
    env: dict[str, str] = field(default_factory=dict)

    def block(self, block: Block) -> None:
        """Run a block and compare what it prints."""
        text = self.change(block.text)
        if block.language == "python":
            printed = self._python(text, block.line)
        elif block.language == "sh":
            printed = "".join(self._line(line) for line in lines(text))
        else:
            return
        if block.output is not None:
            assert agrees(printed, block.output), (
                f"{self.page}:{block.line} says\n{block.output}\nand it is\n{printed}"
            )

    def _python(self, text: str, line: int) -> str:
        if file := FILE.match(text):
            Path(file[1]).parent.mkdir(parents=True, exist_ok=True)
            Path(file[1]).write_text(text)
            return ""
        # Padded, so that a traceback tells the line of the page.
        code = compile("\n" * line + text, self.page, "exec")
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(code, self.names)
        return printed.getvalue()

    def _line(self, line: str) -> str:
        """One command; what it prints."""
        if line.startswith("curl "):
            return ""  # `test_http.py` runs those of the page that is about it
        code = EXIT_CODE.search(line)
        if not line.startswith("export ") and re.search(r"[|<>&;`]|\$\(", line):
            for part in re.split(r"\|\|?|&&|[<>;`]|\$\(|\bdo\b|\bwhile\b", line):
                words = shlex.split(part.strip(" )"), comments=True)
                if words[:1] == ["turnabout"]:
                    check(words[1:])
            return ""
        words = shlex.split(line, comments=True)
        while words and re.match(r"\w+=", words[0]):
            words.pop(0)
        match words:
            case ["export", setting]:
                key, _, value = setting.partition("=")
                self.env[key] = value
            case ["turnabout", *more]:
                return self._turnabout(more, int(code[1]) if code else 0)
            case ["python3", "dev.py", *more]:
                assert not more or more[0] in dev_commands() | {"--help"}, line
            case ["python3" | "python" | "node" | "sh", path, *_] if path.startswith(PROGRAMS_OURS):
                assert (ROOT / path).exists(), line
            case ["pip", "install", *what]:
                check_install(what)
            case [program, *_]:
                known = program in PROGRAMS or words[:3] == ["python3", "-m", "venv"]
                assert known, f"{self.page}: what is {line!r}?"
            case _:
                pass
        return ""

    def _turnabout(self, words: list[str], code: int) -> str:
        if words[0] in ENDLESS or any(word.startswith("postgresql://") for word in words):
            check(words)
            return ""
        result = CliRunner().invoke(
            main, words, env={"NO_COLOR": "1", **self.env}, prog_name="turnabout"
        )
        if result.exception is not None and not isinstance(result.exception, SystemExit):
            raise result.exception
        assert result.exit_code == code, f"{self.page}: {words}\n{result.output}"
        return result.stdout


def lines(text: str) -> Iterator[str]:
    """The commands of a block: lines that end in a backslash go on."""
    for line in text.replace("\\\n", " ").splitlines():
        if line.strip() and not line.startswith("#"):
            yield line


def agrees(printed: str, told: str) -> bool:
    """Whether a page tells what was printed. `…` is anything; many spaces are as good as one."""
    parts = [re.escape(part) for part in _trimmed(told).split("…")]
    return re.fullmatch(".*?".join(parts), _trimmed(printed), re.DOTALL) is not None


def _trimmed(text: str) -> str:
    lines = (re.sub(" +", " ", line).rstrip() for line in text.strip("\n").splitlines())
    return "\n".join(lines)


def check(words: list[str]) -> None:
    """That a `turnabout` command has these words and options, without running it."""
    command: click.Command = main
    words = list(words)
    with main.make_context("turnabout", [], resilient_parsing=True) as context:
        while isinstance(command, click.Group):
            if words[0] in ("-h", "--help", "--version"):
                return
            found = command.get_command(context, words.pop(0))
            assert found is not None, words
            command = found
        command.make_context(command.name, words, parent=context)


def check_install(words: list[str]) -> None:
    """That a `pip install '.[…]'` names the clone (there is no release) and extras that exist."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    for word in words:
        assert not word.startswith("turnabout"), "a bare name on the index is not ours"
        if extras := re.search(r"\[(.+)\]", word):
            assert set(extras[1].split(",")) <= set(project["optional-dependencies"]), word


def dev_commands() -> set[str]:
    """The commands of `dev.py`."""
    specification = importlib.util.spec_from_file_location("turnabout_dev", ROOT / "dev.py")
    assert specification is not None
    assert specification.loader is not None
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    return set(module.COMMANDS)


@contextlib.contextmanager
def opened(page: Path, folder: Path, change: Callable[[str], str] = str) -> Iterator[Run]:
    """A run of a page in an empty folder. What it left open is closed afterwards, and the modules
    that it made are forgotten.
    """
    before, path, here = set(sys.modules), list(sys.path), Path.cwd()
    url = os.environ.pop("TURNABOUT_URL", None)
    os.chdir(folder)
    sys.path.insert(0, str(folder))  # as for a program there
    run = Run(name(page), change)
    try:
        yield run
    finally:
        for value in run.names.values():
            if isinstance(value, (Turnabout, sqlite3.Connection, psycopg.Connection)) or (
                type(value).__module__.startswith("turnabout.tasks.") and hasattr(value, "close")
            ):
                value.close()
        run.names.clear()
        with warnings.catch_warnings(action="ignore", category=ResourceWarning):
            gc.collect()  # pages close less than programs do
        os.chdir(here)
        if url is not None:
            os.environ["TURNABOUT_URL"] = url
        sys.path[:] = path
        for module in set(sys.modules) - before:
            file = getattr(sys.modules[module], "__file__", None)
            if file is not None and Path(file).is_relative_to(folder):
                del sys.modules[module]
