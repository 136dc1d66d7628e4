"""The examples in Go and shell, where their programs are found on the machine."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.docs.pages import ROOT, agrees
from tests.support.programs import run
from tests.support.served import Server, served
from turnabout import connect

pytestmark = pytest.mark.slow

GO = ROOT / "clients/go/main.go"
SHELL = ROOT / "clients/shell/example.sh"


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    with served(f"sqlite:///{tmp_path}/app.db") as server:
        yield server


def test_go(server: Server, tmp_path: Path) -> None:
    if shutil.which("go") is None:
        pytest.skip("there is no Go on this machine")
    program = str(tmp_path / "example")
    env = {"GOCACHE": str(tmp_path / "cache"), "GOTOOLCHAIN": "local", "GO111MODULE": "off"}
    run("go", "build", "-o", program, str(GO), env=env)
    printed = run(program, server.url)
    assert printed == "sent\nada Dear Ada\nacked\n"
    assert run(program, server.url) == "sent\n", "its dedup key has been seen"
    with connect(server.url) as mq:
        assert mq.queue("letters").stats().done == 1


def test_shell(server: Server) -> None:
    if shutil.which("curl") is None:
        pytest.skip("there is no curl on this machine")
    printed = run("sh", str(SHELL), server.url)
    assert agrees(printed, '{"outcome":"sent","ids":[…,…]}\ndid one\ndid two'), printed
    with connect(server.url) as mq:
        assert mq.queue("jobs").stats().done == 2
