"""Options of `serve` from the command line, the environment and a file: which counts; errors."""

import logging
from collections.abc import Callable, Iterator
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

import turnabout.server.processes
import turnabout.server.serve
from tests.support.each import each
from turnabout.cli import main
from turnabout.server import ServerOptions


@pytest.fixture
def serve(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Callable[..., Any]]:
    """Run `serve` with a file, an environment and words: what would be run, or what was said."""
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    ran: list[tuple[str, ServerOptions]] = []

    def run(url: str, options: ServerOptions, **_: Any) -> bool:
        ran.append((url, options))
        return True

    monkeypatch.setattr(turnabout.server.serve, "run", run)
    monkeypatch.setattr(turnabout.server.processes, "run_processes", run)

    def serve(*words: str, file: str | None = None, **environment: str) -> Any:
        if file is not None:
            (tmp_path / "serve.toml").write_text(file)
            words = (*words, f"--config={tmp_path}/serve.toml")
        result: Result = CliRunner().invoke(main, ["serve", *words], env=environment)
        return ran.pop() if ran else result.output

    yield serve
    root.handlers[:] = handlers
    root.setLevel(level)


def test_the_command_line_counts_before_the_environment_and_that_before_the_file(serve) -> None:
    file = "max-polls = 1\nport = 1\nmax_pending = 1\nurl = 'sqlite:///file.db'"
    there = {"TURNABOUT_SERVE_MAX_POLLS": "2", "PORT": "2", "TURNABOUT_URL": "sqlite:///there.db"}
    url, options = serve("--port=3", file=file, **there)
    assert (options.port, options.max_polls, options.max_pending) == (3, 2, 1)
    assert url == "sqlite:///there.db"
    assert serve(file=file)[0] == "sqlite:///file.db"
    assert serve("--url=sqlite:///said.db", file=file)[0] == "sqlite:///said.db"
    assert serve(PORT="2", TURNABOUT_SERVE_PORT="4")[1].port == 4


def test_every_option_of_a_server_can_be_given_in_each_way(serve) -> None:
    assert serve()[1] == ServerOptions()
    for field in fields(ServerOptions):
        given = OTHERS.get(field.name, _another(field.default))
        more = {"TURNABOUT_SERVE_TLS_CERT": "x"} if field.name == "tls_key" else {}
        name = (field.metadata["spec"].flag or field.name).replace("-", "_")
        wanted = tuple(given) if isinstance(given, list) else given
        file = f"{name} = {str(given).lower() if isinstance(given, bool) else repr(given)}"
        assert getattr(serve(file=file, **more)[1], field.name) == wanted
        text = " ".join(given) if isinstance(given, list) else str(given)
        more[f"TURNABOUT_SERVE_{name.upper()}"] = text
        assert getattr(serve(**more)[1], field.name) == wanted


OTHERS = {
    "auth": "none",
    "log_format": "json",
    "trace_url": "http://traces/{trace_id}",
    "trusted_proxies": ["10.0.0.0/8", "unix"],
    "allowed_hosts": ["one", "two"],
    "allowed_origins": ["http://one", "http://two"],
}


def _another(default: Any) -> Any:
    match default:
        case bool():
            return not default
        case int() | float():
            return default + 1
        case _:
            return "localhost"


@each(
    ("file", "variable", "said"),
    [
        (None, {"TURNABOUT_SERVE_MAX_POLLS": "0"}, "(from the variable TURNABOUT_SERVE_MAX_POLLS)"),
        (None, {"PORT": "http"}, "(from the variable PORT)"),
        (None, {"TURNABOUT_SERVE_MAX_POLS": "1"}, "TURNABOUT_SERVE_MAX_POLS is not an option"),
        ("max_polls = 0", {}, "serve.toml)"),
        ("max_polls = 2.5", {}, "'2.5' is not a valid int"),
        ("drain_seconds = 'long'", {}, "'long' is not a valid float"),
        ("allow_host = 'one'", {}, "serve.toml: allow_host is a list of strings"),
        ("dashboard = 2", {}, "'2' is not a valid boolean"),
        ("auth = 1", {}, "'1' is not one of"),
        ("auth = 'maybe'", {}, "serve.toml)"),
        ("max_pols = 1", {}, "serve.toml: 'max_pols' is not an option"),
        ("max_polls =", {}, "serve.toml: "),
        ("host = '0.0.0.0'\nauth = 'none'", {}, "loopback only"),
    ],
)
def test_an_error_names_where_it_comes_from(serve, file, variable, said) -> None:
    told = serve(file=file, **variable)
    assert said in told.replace("\n", ""), told


def test_a_file_that_is_not_there(serve) -> None:
    assert "No such file" in serve("--config=/nowhere/serve.toml")


def test_on_windows_it_says_what_it_needs(serve, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.platform", "win32")
    assert "the server needs Linux or macOS: on Windows, run it in WSL" in serve()
