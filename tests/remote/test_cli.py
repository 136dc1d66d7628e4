"""Commands with `--url http://…`: those that speak verbs work, the others say what to do."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from tests.support.served import served
from turnabout.cli import main

TOKEN = "tbt_abcdefghijkl_c2VjcmV0"


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with served(f"sqlite:///{tmp_path_factory.mktemp('served')}/app.db") as server:
        yield server.url


@pytest.fixture
def run(url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Any]:
    """Run a command against the server; its output. Its exit code must be `code`."""
    monkeypatch.chdir(tmp_path)

    def invoke(line: str, code: int = 0, url: str = url, **env: str) -> str:
        words = [*line.split(), "--url", url]
        given = {"NO_COLOR": "1", **env}
        result = CliRunner().invoke(main, words, env=given, prog_name="turnabout")
        if result.exception is not None and not isinstance(result.exception, SystemExit):
            raise result.exception
        assert result.exit_code == code, result.output
        assert list(tmp_path.iterdir()) == []  # no file was made by mistake
        return result.output

    return invoke


@pytest.mark.slow
def test_commands_that_speak_verbs(run: Callable[..., str]) -> None:
    run("queue create emails --max-attempts 1")
    assert "Sent 1" in run("send emails Hello --channel customer-1")
    assert "Hello" in run("peek emails")
    assert "Hello" in run("receive emails --lease 1m --wait 10s")
    acked = 'call ack {"queue":"emails","receipts":["1.1"]}'
    assert "acked" in run(acked)
    assert "lease_lost" in run(acked, code=1)
    assert "done" in run('call endings {"queue":"emails","ids":[1],"wait_seconds":5}')
    assert "done" in run("history emails")
    run("receive emails", code=1)
    assert "emails" in run("stats")
    assert "emails" in run("top --once")
    run("policy set emails customer-1 --max-concurrency 2")
    assert '"max_concurrency":2' in run("policy get emails customer-1 --json")
    run("channel pause emails customer-1")
    run("send emails again")
    run("receive emails")
    failure = '{"receipt":"2.1","error":"broken"}'
    assert "dead" in run(f'call fail {{"queue":"emails","failures":[{failure}]}}')
    assert "1" in run("redrive start emails-dead --dry-run")
    assert "1" in run("redrive start emails-dead")
    run("schedule set hourly emails tick --every 1h")
    assert "hourly" in run("schedule list")
    assert "1 message" in run("purge emails --yes")
    run("queue pause emails")
    run("queue delete emails --yes")
    assert "no queue" in run("queue get emails", code=2)


def test_what_needs_the_database_says_so(run: Callable[..., str], url: str) -> None:
    for command in ("migrate up", "migrate status", "migrate allow produce web"):
        assert "name the database behind it" in run(command, code=2)
    assert "move goes from sqlite:///path to postgresql://" in run("move sqlite:///app.db", code=2)
    told = run("doctor")
    assert f"{url} answers" in told
    assert "turnabout doctor --url sqlite:///path" in told


def test_nobody_there_and_no_token_shown(run: Callable[..., str]) -> None:
    nobody = f"http://{TOKEN}@127.0.0.1:9"
    told = run("stats", code=3, url=nobody)
    assert "no server can be reached at http://127.0.0.1:9" in told
    told += run("doctor", code=1, url=nobody) + run("doctor --json", code=1, url=nobody)
    told += run("stats --json", code=3, url="http://127.0.0.1:9", TURNABOUT_TOKEN=TOKEN)
    told += run("stats", code=2, url=f"http://me:{TOKEN}")
    assert TOKEN not in told
