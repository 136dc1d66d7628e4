"""A plugin that writes down which outcomes of which verbs a test run met, on SQLite."""

import os
from pathlib import Path
from typing import Any

import pytest

from turnabout.sqlite.store import SqliteStore

_met: set[str] = set()


def pytest_configure() -> None:
    def noting(run: Any) -> Any:
        def noted(self: Any, verb: Any) -> Any:
            answer = run(self, verb)
            for one in answer if isinstance(answer, tuple) else (answer,):
                _met.add(f"{verb.name} {type(one).__name__}")
            return answer

        return noted

    pytest.MonkeyPatch().setattr(SqliteStore, "run", noting(SqliteStore.run))


def pytest_sessionfinish() -> None:
    Path(os.environ["TURNABOUT_MET"]).write_text("\n".join(sorted(_met)))
