"""Commands as real programs: pipes, Ctrl-C, completion, worker, migrations."""

from __future__ import annotations

import json
import signal
import sqlite3
import subprocess
from collections.abc import Callable

import pytest

import turnabout
from tests.support.until import until

Start = Callable[..., subprocess.Popen[bytes]]


# --- pipes and Ctrl-C ----------------------------------------------------------------------------


@pytest.mark.slow
def test_a_pipe_from_end_to_end(program):
    sender = program("send", "q", "--json")
    out, _ = sender.communicate(b"one\ntwo\n")
    assert json.loads(out)["sent"] == 2
    receiver = program("receive", "q", "-n", "5", "--json")
    out, err = receiver.communicate()
    assert [json.loads(line)["payload"]["text"] for line in out.splitlines()] == ["one", "two"]
    assert err == b""


@pytest.mark.slow
def test_a_pipe_that_pauses_is_not_kept_waiting(program, opened):
    sender = program("send", "q")
    assert sender.stdin is not None
    sender.stdin.write(b"one\n")
    sender.stdin.flush()
    until(lambda: any(s.sent == 1 for s in opened.stats()))
    sender.stdin.write(b"two\n")
    out, _ = sender.communicate()
    assert out.startswith(b"Sent 2 messages")


@pytest.mark.slow
def test_ctrl_c_while_sending_tells_where_to_go_on(program, opened):
    sender = program("send", "q", "--json")
    assert sender.stdin is not None
    sender.stdin.write(b"one\ntwo\nhalf a li")
    sender.stdin.flush()
    until(lambda: any(s.sent == 2 for s in opened.stats()))
    sender.send_signal(signal.SIGINT)
    assert sender.wait(60) == 130  # its input does not end before
    out, err = sender.communicate()
    assert json.loads(out)["sent"] == 2
    assert json.loads(out)["next_line"] == 3
    assert json.loads(err)["error"]["code"] == "interrupted"
    assert opened.queue("q").stats().sent == 2


@pytest.mark.slow
def test_ctrl_c_in_the_middle_of_a_file_counts_exactly(program, opened, tmp_path):
    path = tmp_path / "many.txt"
    path.write_text("".join(f"{n}\n" for n in range(1, 400_001)))
    sender = program("send", "q", "--file", str(path), "--json", "--batch-size", "50")
    until(lambda: any(s.sent > 0 for s in opened.stats()))
    sender.send_signal(signal.SIGINT)
    out, _ = sender.communicate()
    assert sender.returncode == 130
    report = json.loads(out)
    assert 0 < report["sent"] < 400_000
    assert report["next_line"] == report["sent"] + 1
    assert opened.queue("q").stats().sent == report["sent"]


@pytest.mark.slow
def test_ctrl_c_while_waiting_leases_nothing(program, opened):
    opened.queue("q").send("x", ttl_seconds=0.001)
    receiver = program("receive", "q", "--wait", "10m")
    until(lambda: opened.queue("q").stats().expired == 1)  # it has looked
    receiver.send_signal(signal.SIGINT)
    _, err = receiver.communicate(timeout=60)
    assert receiver.returncode == 130
    assert b"Traceback" not in err
    opened.queue("q").send("x")
    assert opened.queue("q").stats().ready == 1


@pytest.mark.slow
def test_a_reader_that_went_away(program, opened):
    """`turnabout receive --ack | true`: what nobody read is not acked."""
    opened.queue("q").send("x" * 500_000)
    receiver = program("receive", "q", "--ack")
    assert receiver.stdout is not None
    receiver.stdout.close()
    assert receiver.wait(60) != 0
    assert receiver.stderr is not None
    assert b"Traceback" not in receiver.stderr.read()
    stats = opened.queue("q").stats()
    assert (stats.ready, stats.leased, stats.done) == (1, 0, 0)


@pytest.mark.slow
def test_the_terminal_is_not_coloured_in_a_pipe(program, opened):
    opened.queue("q").send("x")
    for words in (("stats",), ("top",), ("doctor",), ("--help",)):
        out, err = program(*words, TERM="xterm-256color").communicate()
        assert b"\x1b" not in out + err


# --- schema --------------------------------------------------------------------------------------


def test_migrate(run, tmp_path):
    url = f"sqlite:///{tmp_path}/new.db"
    applied = run("migrate", "up", "--url", url, "--json").document()["applied"]
    assert applied
    assert run("migrate", "up", "--url", url, "--json").document() == {"applied": []}
    assert "up to date" in run("migrate", "up", "--url", url).out
    status = run("migrate", "status", "--url", url, "--json").document()
    assert status["pending"] == []
    assert status["current"] == status["wanted"]
    assert "Up to date" in run("migrate", "status", "--url", url).out


def test_a_file_that_is_not_migrated(run, tmp_path):
    sqlite3.connect(tmp_path / "empty.db").close()
    (tmp_path / "empty.db").touch()
    url = f"sqlite:///{tmp_path}/empty.db"
    assert run("migrate", "status", "--url", url, "--json", code=1).document()["pending"]
    assert "turnabout migrate up" in run("migrate", "status", "--url", url, code=1).err


def test_sql_is_all_that_a_database_needs(run, tmp_path):
    script = run("sql", "--dialect", "sqlite").out
    db = sqlite3.connect(tmp_path / "by-hand.db")
    db.executescript(script)
    db.close()
    url = f"sqlite:///{tmp_path}/by-hand.db"
    assert run("migrate", "status", "--url", url, "--json").document()["pending"] == []
    run("send", "q", "x", "--url", url)
    assert run("receive", "q", "--json", "--url", url).lines()[0]["payload"] == {"text": "x"}


# --- completion ----------------------------------------------------------------------------------


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_scripts(run, shell):
    script = run("completion", shell).out
    assert "_TURNABOUT_COMPLETE" in script
    document = run("completion", shell, "--json").document()
    assert document["shell"] == shell
    assert document["script"].strip() == script.strip()


@pytest.mark.slow
def test_completion_of_commands_and_queues(program, opened, door_url):
    opened.queue("emails").create()
    queues = ["emails", "emails-dead"] if door_url.startswith("sqlite") else [""]

    def complete(line: str) -> list[str]:
        env = {
            "_TURNABOUT_COMPLETE": "bash_complete",
            "COMP_WORDS": line,
            "COMP_CWORD": str(len(line.split()) - (0 if line.endswith(" ") else 1)),
        }
        out, err = program(**env).communicate()
        assert err == b""
        return [word.partition(",")[2] for word in out.decode().splitlines()]

    assert complete("turnabout rec") == ["receive"]
    assert complete("turnabout policy ") == ["get", "set", "change", "clear", "list"]
    assert complete("turnabout stats em") == queues
    assert complete("turnabout send --file x em") == queues
    assert complete("turnabout --url sqlite:///nowhere.db stats em") == [""]


# --- worker --------------------------------------------------------------------------

APP = """
from turnabout.worker import Worker

worker = Worker("sqlite:///wrong.db")

@worker.handler("q")
def handle(message):
    with open("seen", "a") as file:
        file.write(message.text() + "\\n")

not_a_worker = 1
"""


@pytest.mark.slow
def test_a_worker(program, opened, tmp_path, door_url):
    (tmp_path / "app.py").write_text(APP)
    opened.queue("q").send_many([turnabout.message(str(n)) for n in range(5)])
    worker = program("worker", "app:worker", "--until-empty", "--url", door_url, "--json", "-q")
    out, err = worker.communicate(timeout=60)
    assert worker.returncode == 0, err
    assert json.loads(out)["handled"] == 5
    assert json.loads(out)["left"] == {}
    assert (tmp_path / "seen").read_text().split() == ["0", "1", "2", "3", "4"]
    assert not (tmp_path / "wrong.db").exists()


@pytest.mark.slow
def test_many_workers(program, opened, tmp_path, door_url):
    (tmp_path / "app.py").write_text(APP)
    opened.queue("q").send_many([turnabout.message(str(n)) for n in range(20)])
    words = ("worker", "app:worker", "--until-empty", "--processes", "2", "--url", door_url, "-q")
    worker = program(*words)
    _, err = worker.communicate(timeout=60)
    assert worker.returncode == 0, err
    assert err == b""
    assert sorted((tmp_path / "seen").read_text().split(), key=int) == [str(n) for n in range(20)]


@pytest.mark.parametrize(
    ("target", "says"),
    [
        ("app", "module:name"),
        ("nowhere:worker", "no module"),
        ("app_of_this_test.py:worker", "write it without .py"),
        ("app_of_this_test:wroker", "the module 'app_of_this_test' has no 'wroker'"),
        ("app_of_this_test:not_a_worker", "not a turnabout.worker.Worker"),
    ],
)
def test_what_is_no_worker(run, tmp_path, monkeypatch, target, says):
    (tmp_path / "app_of_this_test.py").write_text(APP)
    monkeypatch.syspath_prepend(tmp_path)
    assert says in run("worker", target, code=2).err
