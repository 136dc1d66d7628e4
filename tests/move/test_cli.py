"""`turnabout move`: what it prints, its exit codes, Ctrl-C."""

import contextlib
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

import turnabout
from tests.move.endpoints import Endpoints, one_version
from tests.support.each import each
from turnabout import message
from turnabout.cli import main
from turnabout.move import _target
from turnabout.move._source import Source

pytestmark = one_version


def run(*words: str, code: int = 0, **env: str) -> tuple[str, str]:
    result = CliRunner().invoke(main, ["move", *words], env={"NO_COLOR": "1", **env})
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    assert result.exit_code == code, (result.stdout, result.stderr)
    return result.stdout, result.stderr


@pytest.fixture
def filled(endpoints: Endpoints) -> Endpoints:
    with turnabout.connect(endpoints.source) as mq:
        mq.queue("jobs").send_many([message(str(n)) for n in range(1_199)])
        mq.queue("jobs").send("last", dedup_key="k")
        mq.queue("jobs").receive()[0].ack()
        mq.queue("jobs").receive()
    return endpoints


@pytest.mark.slow
def test_it_says_what_it_would_move_and_what_it_has_moved(filled: Endpoints) -> None:
    out, _ = run(filled.source, filled.target, "--dry-run")
    assert out.splitlines()[1].split() == ["jobs", "1,199", "1", "1", "0"]
    assert out.splitlines()[-1].startswith("Would move 1,199 messages, 1 dedup entry,")
    out, err = run(filled.source, filled.target)
    assert out.splitlines()[1].split() == ["jobs", "1,199", "1", "1", "0"]
    assert "Moved 1,199 messages, 1 dedup entry, 0 schedules, 0 redrives to postgres" in out
    assert "Contents and counts are the same on both sides." in out
    assert err == ""
    _, err = run(filled.source, filled.target, code=2)
    assert "were moved to" in err


def test_as_json_with_the_target_from_the_environment(filled: Endpoints) -> None:
    out, _ = run(filled.source, "--json", TURNABOUT_URL=filled.target)
    found = json.loads(out)
    assert found["queues"][0] == {
        "queue": "jobs",
        "messages": 1199,
        "leased": 1,
        "history": 1,
        "policies": 0,
    }
    assert found["seconds"] > 0
    assert found["events_cursor"].endswith(".")


def test_wrong_calls_say_what_to_do(filled: Endpoints) -> None:
    for words in ((filled.target, filled.source), (filled.source, filled.source)):
        assert "sqlite:///path to postgresql://" in run(*words, code=2)[1]
    assert "choose one" in run(filled.source, filled.target, "--dry-run", "--abort", code=2)[1]
    assert "no file" in run(f"{filled.source}x", filled.target, code=2)[1]
    secret = "postgresql://app:hunter2@127.0.0.1:1/nowhere"
    _, err = run(filled.source, secret, code=3)
    assert "hunter2" not in err


@pytest.mark.slow
@each("step", ["copying", "comparing", "closed"])
@each("number", [signal.SIGINT, signal.SIGTERM])
def test_it_is_stopped_in_good_order(filled: Endpoints, step: str, number: int) -> None:
    """Both sides are as before; the same command then moves everything."""
    source = str(Path(turnabout.__file__).parent.parent)
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.move.stopped", filled.source, filled.target, step],
        cwd=Path(__file__).resolve().parents[2],
        env={**os.environ, "PYTHONPATH": source},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == f"{step}\n"
    process.send_signal(number)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 130, err
    assert ("nothing has changed" in err) == (step != "closed")
    assert filled.ask("select count(*) from turnabout.queue") == [(0,)]
    assert filled.ask("select to_regclass('turnabout.move')") == [(None,)]
    assert run(filled.source, filled.target, "--abort")[0] == "No move has closed the file.\n"
    with turnabout.connect(filled.source) as mq:
        assert mq.queue("jobs").send("open").id


def test_a_closed_file_is_opened_again(filled: Endpoints) -> None:
    with contextlib.closing(_target.Target(filled.target)) as target:
        place = target.place
    with contextlib.closing(Source(filled.source)) as file, file.locked(place):
        file.shut("token", place)
    out, _ = run(filled.source, filled.target, "--abort", "--json")
    assert json.loads(out) == {"aborted": True}
    with turnabout.connect(filled.source) as mq:
        assert mq.queue("jobs").send("x").id
