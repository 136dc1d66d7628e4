"""The examples run, on both stores, and print what their last lines say."""

import contextlib
import io
import os
import re
import runpy
import subprocess
import sys
from pathlib import Path

import pytest

from tests.docs.pages import ROOT, agrees
from tests.support.each import each
from tests.support.postgres import migrated

ALL = sorted((ROOT / "examples").glob("*.py"))
EXAMPLES = [path for path in ALL if "turnabout.pipeline" not in path.read_text(encoding="utf-8")]
"""But for those on Spark, which `tests/pipeline/spark` runs."""
LINES_MAX = 60
ANY_ORDER = re.compile(r"^# It prints, the first (two) in any order:$", re.MULTILINE)


def told(example: Path) -> str:
    """What an example says that it prints."""
    text = example.read_text(encoding="utf-8")
    lines = text[text.index("\n# It prints") + 1 :].splitlines()[1:]
    assert all(line.startswith("#   ") for line in lines)
    return "\n".join(line.removeprefix("#   ") for line in lines)


def run(example: Path, *words: str) -> None:
    if "import django" in example.read_text(encoding="utf-8"):  # whose settings are made once
        command = [sys.executable, "-W", "error", str(example), *words]
        source = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
        out = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, env=source)
        assert agrees(out.stdout, told(example)), out.stdout
        return
    printed = io.StringIO()
    with pytest.MonkeyPatch.context() as patch, contextlib.redirect_stdout(printed):
        patch.setattr(sys, "argv", [str(example), *words])
        runpy.run_path(str(example), run_name="__main__")
    out = printed.getvalue()
    if ANY_ORDER.search(example.read_text(encoding="utf-8")):
        out = "\n".join([*sorted(out.splitlines()[:2]), *out.splitlines()[2:]])
    assert agrees(out, told(example)), out


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda p: p.stem)
@pytest.mark.slow
def test_on_sqlite(example: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    run(example)


@pytest.mark.slow
@pytest.mark.parametrize("example", EXAMPLES, ids=lambda p: p.stem)
def test_on_an_sqlite_file(example: Path, tmp_path: Path) -> None:
    run(example, f"sqlite:///{tmp_path}/app.db")


@pytest.mark.slow
@pytest.mark.parametrize("example", EXAMPLES, ids=lambda p: p.stem)
def test_on_postgresql(example: Path) -> None:
    with migrated() as url:
        run(example, url)


@each("example", ALL)
def test_it_fits_on_a_screen(example: Path) -> None:
    assert example.read_text(encoding="utf-8").count("\n") < LINES_MAX
