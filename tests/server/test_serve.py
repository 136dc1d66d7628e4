"""What `turnabout serve` refuses before it listens, and what it says; `test_drain` runs it."""

import asyncio
import logging
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from tests.server.process import post_once, process
from tests.support import postgres
from turnabout.cli import main
from turnabout.cli._app import App
from turnabout.server import ServerOptions
from turnabout.server.commands.serve import _welcome
from turnabout.server.serve import Serving
from turnabout.server.serve import serve as serve_here

MESSAGES = {"messages": [{"payload": {"text": "hello"}}]}


@pytest.fixture(autouse=True)
def same_log() -> Iterator[None]:
    """The program takes the log of its process, which here is that of the tests."""
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield
    root.handlers[:] = handlers
    root.setLevel(level)


def serve(*words: str) -> Result:
    return CliRunner().invoke(main, ["serve", *words], env={"NO_COLOR": "1", "COLUMNS": "500"})


@pytest.mark.parametrize(
    ("words", "code", "text"),
    [
        (["--host=0.0.0.0", "--auth=none"], 2, "loopback only"),
        (["--host=no.such.host.invalid"], 2, "no.such.host.invalid"),
        (["--max-polls=0"], 2, "max_polls"),
        (["--allow-origin=app"], 2, "scheme, host and port"),
        (["--tls-cert=here.pem"], 2, "PEM"),
        (["--url=http://localhost:1"], 2, "not before another server"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else None,
)
def test_what_it_refuses(
    words: list[str], code: int, text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("here.pem").write_text("nothing")
    result = serve("--url=sqlite:///app.db", "--port=0", *words)
    assert (result.exit_code, text in result.output) == (code, True), result.output


def test_a_port_that_is_taken(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        result = serve(f"--url=sqlite:///{tmp_path}/app.db", f"--port={other.getsockname()[1]}")
    assert result.exit_code == 3
    assert "--port" in result.output


def test_the_first_start_makes_a_token_and_shows_it_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    starts: list[Serving] = []

    async def start(auth: str) -> None:
        until = asyncio.Event()
        until.set()
        options = ServerOptions(auth=auth, port=0)
        url = f"sqlite:///{tmp_path}/app.db"
        await serve_here(url, options, announce=starts.append, until=until)

    for auth in ("none", "tokens", "tokens"):
        asyncio.run(start(auth))
        assert ("auth=none" in caplog.text) is (auth == "none"), "said at each start"
        caplog.clear()
    none, first, second = (serving.first_token for serving in starts)
    assert first is not None
    assert (none, second) == (None, None)
    lines = "\n".join(_welcome(App(), starts[1]))
    assert f"  export TURNABOUT_TOKEN={first}\n" in lines
    assert f"/dashboard#token={first}\n" in lines
    assert "TOKEN" not in "\n".join(_welcome(App(), starts[2]))


@pytest.mark.slow
def test_a_database_that_is_not_migrated() -> None:
    server = postgres._servers.get(0 if postgres.GIVEN else 18)
    with postgres.fresh_database(server) as url:
        result = serve(f"--url={url}", "--port=0")
        assert result.exit_code == 2
        assert "turnabout migrate up" in result.output
        with process(url, "--migrate") as running:
            sent = post_once(running.port, "/v1/queues/q/messages", MESSAGES)
            assert sent["outcome"] == "sent"
            assert running.end() == 0
