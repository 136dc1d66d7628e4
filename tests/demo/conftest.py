"""The demo under test."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from demo.__main__ import main


@dataclass(frozen=True)
class Ran:
    out: str
    err: str

    def document(self) -> Any:
        return json.loads(self.out)


Run = Callable[..., Ran]


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """Run it here; its exit code must be `code`."""
    monkeypatch.chdir(tmp_path)

    def invoke(*words: str, code: int = 0) -> Ran:
        ended = main(words)
        told = capsys.readouterr()
        assert ended == code, told
        return Ran(told.out, told.err)

    return invoke
