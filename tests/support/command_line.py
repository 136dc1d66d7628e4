"""The command line under test: in this process by `run`, as a real program by `program`."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

import turnabout
from tests.support.files import put_file
from turnabout.cli import main

SOURCE = Path(__file__).parents[2] / "src"


@dataclass(frozen=True)
class Ran:
    """How a run ended."""

    code: int
    out: str
    err: str

    def document(self) -> Any:
        return json.loads(self.out)

    def lines(self) -> list[Any]:
        return [json.loads(line) for line in self.out.splitlines()]

    def error(self) -> dict[str, Any]:
        return json.loads(self.err.splitlines()[-1])["error"]


Runner = Callable[..., Ran]


@pytest.fixture
def door_url(tmp_path: Path) -> str:
    """The database of this test."""
    return f"sqlite:///{tmp_path}/queues.db"


@pytest.fixture
def opened(door_url: str, tmp_path: Path) -> Iterator[turnabout.Turnabout]:
    """The same database through the library."""
    put_file(tmp_path / "queues.db")
    with turnabout.connect(door_url) as connection:
        yield connection


@pytest.fixture
def run(door_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Runner:
    """Run a command here; its exit code must be `code`."""
    monkeypatch.chdir(tmp_path)

    def invoke(*words: str, code: int = 0, stdin: str | bytes | None = None, **env: str) -> Ran:
        given = {"TURNABOUT_URL": door_url, "NO_COLOR": "1", **env}
        result = CliRunner().invoke(
            main, list(words), input=stdin, env=given, prog_name="turnabout"
        )
        ran = Ran(result.exit_code, result.stdout, result.stderr)
        if result.exception is not None and not isinstance(result.exception, SystemExit):
            raise result.exception
        assert ran.code == code, f"exit code {ran.code}\n{ran.out}\n{ran.err}"
        assert "Traceback" not in ran.err
        return ran

    return invoke


@pytest.fixture
def program(door_url: str, tmp_path: Path) -> Iterator[Callable[..., subprocess.Popen[bytes]]]:
    """Start a command as a program of its own, in an empty folder; ended with the test."""
    started: list[subprocess.Popen[bytes]] = []

    def start(*words: str, **env: str) -> subprocess.Popen[bytes]:
        paths = os.pathsep.join([str(SOURCE), *sys.path])
        process = subprocess.Popen(
            [sys.executable, "-m", "turnabout", *words],
            cwd=tmp_path,
            env={**os.environ, "TURNABOUT_URL": door_url, "PYTHONPATH": paths, **env},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        started.append(process)
        return process

    yield start
    for process in started:
        process.kill()
        process.wait()
        for stream in (process.stdin, process.stdout, process.stderr):
            if stream is not None:
                with contextlib.suppress(OSError):  # a pipe whose reader is gone
                    stream.close()
