"""Types hold in users' programs, under mypy --strict and pyright."""

import json
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

HERE = Path(__file__).parent
SOURCE = HERE.parents[1] / "src"
RIGHT, WRONG = HERE / "right.py", HERE / "wrong.py"
LINES = [
    number
    for number, line in enumerate(WRONG.read_text(encoding="utf-8").splitlines(), 1)
    if "# wrong: " in line
]
pytestmark = pytest.mark.slow


def found_by_mypy(cache: Path) -> list[tuple[str, int]]:
    words = ["--strict", "--output=json", f"--cache-dir={cache}", "--python-executable"]
    done = subprocess.run(
        [sys.executable, "-m", "mypy", *words, sys.executable, str(RIGHT), str(WRONG)],
        capture_output=True,
        text=True,
        check=False,
        cwd=HERE,
        env={"MYPYPATH": str(SOURCE), "PATH": ""},
    )
    assert done.returncode == 1, done.stderr
    return [
        (Path(one["file"]).name, one["line"])
        for one in map(json.loads, done.stdout.splitlines())
        if one["severity"] == "error"
    ]


def found_by_pyright(folder: Path) -> list[tuple[str, int]]:
    for file in (RIGHT, WRONG):  # it looks at files of its project only
        shutil.copy(file, folder)
    settings = {"extraPaths": [str(SOURCE)]}
    (folder / "pyrightconfig.json").write_text(json.dumps(settings))
    words = ["--outputjson", "--pythonpath", sys.executable, "-p", str(folder)]
    done = subprocess.run(
        [Path(sys.executable).with_name("pyright"), *words],
        capture_output=True,
        text=True,
        check=False,
    )
    return [
        (Path(one["file"]).name, one["range"]["start"]["line"] + 1)
        for one in json.loads(done.stdout)["generalDiagnostics"]
        if one["severity"] == "error"
    ]


@pytest.mark.parametrize("checker", [found_by_mypy, found_by_pyright])
def test_a_checker_finds_what_is_wrong_and_nothing_else(
    checker: Callable[[Path], list[tuple[str, int]]], tmp_path: Path
) -> None:
    assert sorted(set(checker(tmp_path))) == [(WRONG.name, line) for line in LINES]
