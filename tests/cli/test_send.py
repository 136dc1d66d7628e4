"""`send`: one message, or a stream; what was sent is told exactly, whatever goes wrong."""

from __future__ import annotations

import errno
import json
import os
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

import turnabout
from tests.support.command_line import Runner
from tests.support.each import each
from turnabout.cli import _show


def sent(opened: turnabout.Turnabout, queue: str = "q") -> list[tuple[str, bytes]]:
    return [(m.channel, m.payload) for m in opened.queue(queue).peek(1000)]


def test_one_message(run, opened):
    ran = run(
        "send", "q", '{"to": "ada"}', "--channel", "c", "--priority", "-3",
        "--header", "a=1", "--header", "b=x=y",
    )  # fmt: skip
    (message,) = opened.queue("q").peek()
    assert ran.out == f"Sent {message.id} to q, channel c.\n"
    assert message.payload == b'{"to": "ada"}'
    assert (message.content_type, message.channel, message.priority) == (
        "application/json",
        "c",
        -3,
    )
    assert message.headers == {"a": "1", "b": "x=y"}


def test_its_json(run):
    document = run("send", "q", "hello", "--json").document()
    ident = document["first_id"]
    assert document == {
        "queue": "q",
        "sent": 1,
        "refused": 0,
        "duplicates": 0,
        "replaced": 0,
        "blank": 0,
        "first_id": ident,
        "last_id": ident,
        "next_line": None,
    }


def test_global_options_stand_anywhere(run, tmp_path):
    other = f"sqlite:///{tmp_path}/other.db"
    assert run("--json", "--url", other, "send", "q", "1").document()["sent"] == 1
    assert run("send", "--json", "q", "--url", other, "1").document()["sent"] == 1
    assert run("stats", "q", "--url", other, "--json").document()["queue"]["sent"] == 2


def test_an_instant(run, opened):
    moment = datetime.now(UTC).replace(microsecond=0) + timedelta(hours=1)
    run("send", "q", "later", "--due-at", moment.isoformat())
    assert [m.due_at for m in opened.queue("q").peek()] == [moment.timestamp() * 1000]


def test_a_delay(run, opened):
    run("send", "q", "later", "--delay", "1h")
    assert opened.queue("q").stats().scheduled == 1


@pytest.mark.parametrize("dash", [(), ("-",)])
def test_lines_of_the_input(run, opened, dash):
    ran = run("send", "q", *dash, "--channel", "c", stdin="one\n\ntwo\n")
    assert sent(opened) == [("c", b"one"), ("c", b"two")]
    assert ran.out.startswith("Sent 2 messages to q in ")
    assert "1 blank line skipped" in ran.out


def test_no_spinner_stands_between_lines_that_a_person_types(run, monkeypatch):
    for terminal in ("is_coloured", "is_terminal"):
        monkeypatch.setattr(_show, terminal, lambda *_: True)
    assert run("send", "q", stdin="one\n").err == "Each line is a message; Ctrl-D ends.\n"


def test_an_empty_input(run):
    assert run("send", "q", "--json", stdin="").document()["sent"] == 0


def test_json_lines_with_a_channel_from_a_field(run, opened, tmp_path):
    path = tmp_path / "events.jsonl"
    path.write_text('{"shop": "a", "n": 1}\n{"shop": "b", "n": 2}\n')
    document = run("send", "q", "--file", str(path), "--channel-from", "shop", "--json").document()
    assert document["sent"] == 2
    assert sent(opened) == [("a", b'{"shop": "a", "n": 1}'), ("b", b'{"shop": "b", "n": 2}')]


def test_a_bad_line_stops_after_all_before_it(run, opened):
    lines = '{"n": 1}\n{"n": 2}\n{"n": \n{"n": 4}\n'
    ran = run("send", "q", "--format", "jsonl", "--json", stdin=lines, code=2)
    assert ran.document()["sent"] == 2
    assert ran.document()["next_line"] == 3
    assert ran.error()["code"] == "bad_line"
    assert "line 3" in ran.error()["message"]
    assert "2 messages sent" in ran.error()["message"]
    assert len(sent(opened)) == 2
    rest = "".join(lines.replace('{"n": \n', '{"n": 3}\n').splitlines(keepends=True)[2:])
    run("send", "q", "--format", "jsonl", stdin=rest)
    assert [json.loads(p)["n"] for _, p in sent(opened)] == [1, 2, 3, 4]


def full(opened: turnabout.Turnabout, size: int = 3) -> None:
    opened.queue("q").channel("c").set_policy(turnabout.Policy(max_size=size))


@pytest.fixture
def limited(run: Runner, opened: turnabout.Turnabout) -> None:
    opened.queue("q").create()
    full(opened)


LINES = "".join(f'{{"c": "{"c" if n % 2 else "d"}", "n": {n}}}\n' for n in range(1, 11))
STREAM = ("send", "q", "--format", "jsonl", "--channel-from", "c", "--json")


@pytest.mark.usefixtures("limited")
def test_a_full_channel_refuses_one_message(run, opened):
    full(opened, 1)
    run("send", "q", "a", "--channel", "c")
    ran = run("send", "q", "b", "--channel", "c", "--json", code=1)
    assert ran.error()["code"] == "channel_full"
    assert (ran.document()["sent"], ran.document()["refused"]) == (0, 1)
    assert "allows 1" in run("send", "q", "b", "--channel", "c", code=1).err
    assert "is full" in run("send", "q", "b", "--channel", "c", "--when-full", "skip", code=1).out


@pytest.mark.usefixtures("limited")
@pytest.mark.parametrize("batch", ["1", "4", "500"])
def test_a_full_channel_stops_at_the_exact_line(run, opened, batch):
    ran = run(*STREAM, "--batch-size", batch, stdin=LINES, code=1)
    # Lines 1, 3, 5 fill the channel; 7 is refused, and nothing after it was sent.
    assert ran.document()["sent"] == 6
    assert ran.document()["next_line"] == 7
    assert [json.loads(p)["n"] for _, p in sent(opened)] == [1, 2, 3, 4, 5, 6]
    assert "line 7" in ran.error()["message"]


@pytest.mark.usefixtures("limited")
@pytest.mark.parametrize("batch", ["1", "4", "500"])
def test_what_does_not_fit_can_be_skipped(run, opened, batch):
    ran = run(*STREAM, "--when-full", "skip", "--batch-size", batch, stdin=LINES, code=1)
    document = ran.document()
    assert (document["sent"], document["refused"], document["next_line"]) == (8, 2, None)
    assert [json.loads(p)["n"] for _, p in sent(opened)] == [1, 2, 3, 4, 5, 6, 8, 10]


@pytest.mark.usefixtures("limited")
def test_it_can_wait_for_room(run, opened, monkeypatch):
    from turnabout.cli import _sender

    waits: list[float] = []

    def make_room(seconds: float) -> None:
        waits.append(seconds)
        for message in opened.queue("q").receive(100):
            message.ack()

    monkeypatch.setattr(_sender.time, "sleep", make_room)
    ran = run(*STREAM, "--when-full", "wait", stdin=LINES)
    assert ran.document()["sent"] == 10
    assert waits
    assert "Waiting for room in channel c" in ran.err


@each(
    ("words", "says"),
    [
        (("send", "q", "x", "--file", __file__), "not both"),
        (("send", "q", "--file", "missing.txt"), "No such file or directory: missing.txt"),
        (("send", "q", "--file", __file__), "add --format"),
        (("send", "q", "x", "--json-payload", "--text"), "exclude"),
        (("send", "q", "x", "--channel", "a", "--channel-from", "b"), "exclude"),
        (("send", "q", "--format", "jsonl", "--text"), "does not go with JSON lines"),
        (("send", "q", "--file", __file__), "tables: docs/how-to/send-many.md"),
        (("send", "q", "{x", "--json-payload"), "not JSON"),
        (("send", "q", "x", "--header", "novalue"), "NAME=VALUE"),
        (("send", "q", "x", "--delay", "soon"), "not a valid duration"),
        (("send", "q", "x", "--due-at", "2h"), "not a valid time"),
        (("send", "q", "x", "--due-at", "2027-01-31", "--delay", "1h"), "not both"),
        (("send", "q", "x", "--delay", "9000d"), "delay_seconds"),
        (("send", "q", "x", "--priority", "99999"), "priority"),
        (("send", "../q", "x"), "queue name"),
        (("send", "q", "x", "--channel", "c" * 300), "255 bytes"),
        (("send",), "Missing argument"),
    ],
)
def test_wrong_calls_say_what_is_wrong(run, words, says):
    assert says in run(*words, code=2).err


def test_a_url_of_no_store(run):
    ran = run("send", "q", "x", "--url", "mysql://u:s3cret@h/db", code=2)
    assert "no store for 'mysql'" in ran.err
    assert "s3cret" not in ran.err
    ran = run("stats", "--url", "postgresql+psycopg://u:s3cret@h/db", code=2)
    assert "postgresql+psycopg://… is SQLAlchemy's form: leave out +psycopg" in ran.err
    assert "s3cret" not in ran.err


def test_a_url_that_is_none(run):
    assert "the URL has no scheme: use sqlite:///path" in run("stats", "--url", "a.db", code=2).err
    assert "--url is empty" in run("send", "q", "x", "--url", "", code=2).err


def test_a_database_that_is_away(run):
    pytest.importorskip("psycopg")
    url = "postgresql://u:s3cret@127.0.0.1:1/db"
    ran = run("stats", "--url", url, "--json", code=3)
    assert ran.error()["retryable"] is True
    assert "s3cret" not in ran.err


LOOKS = [("send", "q", "x", "--url"), ("stats", "--url"), ("migrate", "status", "--url")]


@pytest.mark.parametrize("words", LOOKS)
def test_a_file_that_may_not_be_looked_at(run, tmp_path, monkeypatch, words):
    ran = run(*words, f"sqlite:///{tmp_path}/{'x' * 300}.db", code=2)
    assert "File name too long" in ran.err

    stat = Path.stat

    def refuse(path: Path, **how: bool) -> os.stat_result:
        if path.name == "q.db":
            raise PermissionError(errno.EACCES, "Permission denied", str(path))
        return stat(path, **how)

    monkeypatch.setattr(Path, "stat", refuse)
    ran = run(*words, f"sqlite:///{tmp_path}/q.db", "--json", code=2)
    assert ran.error()["code"] == "forbidden"
    assert f"{tmp_path}/q.db" in ran.error()["message"]


def test_no_file_is_made_by_looking(run, tmp_path):
    url = f"sqlite:///{tmp_path}/typo.db"
    for words in (("stats",), ("peek", "q"), ("receive", "q"), ("migrate", "status")):
        ran = run(*words, "--url", url, code=2)
        assert f"no database at {tmp_path}/typo.db" in ran.err
    assert not (tmp_path / "typo.db").exists()
