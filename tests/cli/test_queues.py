"""`queue`, `purge`, `policy`, `stats`, `top`."""

from __future__ import annotations

import pytest

from turnabout.cli import queue as queue_module
from turnabout.cli import stats as top_module


def test_create_get_update_list(run):
    made = run(
        "queue", "create", "q", "--lease", "1m", "--max-attempts", "none", "--fifo",
        "--max-concurrency", "3", "--json",
    ).document()  # fmt: skip
    assert made["outcome"] == "created"
    assert made["queue"]["settings"]["max_attempts"] is None
    assert made["queue"]["settings"]["fifo"] is True
    got = run("queue", "get", "q", "--json").document()
    assert got == made["queue"]
    assert got["dead_letter"] == "q-dead"
    assert got["settings"]["policy"]["max_concurrency"] == 3
    changed = run(
        "queue", "update", "q", "--backoff", "10s", "--rate", "10/1s:5", "--max-attempts", "7",
        "--json",
    ).document()["settings"]  # fmt: skip
    assert changed["backoff_seconds"] == 10
    assert changed["lease_seconds"] == 60
    assert changed["max_attempts"] == 7
    assert changed["policy"] == {"max_concurrency": 3, "rate": {"count": 10, "burst": 5}}
    text = run("queue", "get", "q").out
    assert "each channel: rate" in text
    assert "10/1s:5" in text
    names = [q["name"] for q in run("queue", "list", "--json").document()["items"]]
    assert names == ["q", "q-dead"]
    assert run("queue", "list").out.splitlines()[1].split()[:3] == ["q", "q-dead", "1m"]


def test_creating_a_queue_twice(run):
    assert "Created q." in run("queue", "create", "q").out
    ran = run("queue", "create", "q", "--lease", "9m", "--json", code=1)
    assert ran.error()["code"] == "already_exists"
    assert ran.document()["outcome"] == "already_exists"
    assert ran.document()["queue"]["settings"]["lease_seconds"] == 30
    assert "exists already" in run("queue", "create", "q", "--if-missing").out


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("queue", "update", "q"), "name a setting"),
        (("queue", "update", "q", "--max-attempts", "many"), "none"),
        (("queue", "update", "q", "--backoff-jitter", "2"), "backoff_jitter"),
        (("queue", "update", "q", "--rate", "fast"), "COUNT/PERIOD"),
        (("queue", "update", "q", "--weight", "0"), "weight"),
        (("queue", "create", "bad/na/me"), "queue name"),
        (("policy", "change", "q", "c"), "name a limit"),
        (("policy", "set", "q", "c", "--max-size", "-1"), "max_size"),
        (("policy", "set", "q", "c" * 300), "255 bytes"),
        (("purge", "q", "--state", "done"), "not one of"),
        (("purge", "q"), "--yes"),
        (("queue", "delete", "q"), "--yes"),
    ],
)
def test_wrong_calls_say_what_is_wrong(run, words, says):
    run("queue", "create", "q")
    assert says in run(*words, code=2).err


def test_pause_and_resume(run, opened):
    run("send", "q", "x")
    paused = run("queue", "pause", "q", "--reason", "the server\nmoves", "--json").document()
    assert paused["settings"]["pause_reason"] == "the server\nmoves"
    run("receive", "q", code=1)
    assert "(paused)" in run("stats").out
    assert "paused: the server\\nmoves" in run("stats", "q").out
    assert "yes: the server\\nmoves" in run("queue", "get", "q").out
    run("queue", "resume", "q")
    assert opened.queue("q").settings().pause_reason is None
    run("receive", "q")


def test_delete(run, opened):
    run("send", "q", stdin="1\n2\n")
    assert run("queue", "delete", "q", "--yes", "--json").document() == {"messages": 2}
    assert [entry.name for entry in opened.queues()] == ["q-dead"]


def test_purge(run, opened):
    run("send", "q", "--channel", "a", stdin="1\n2\n")
    run("send", "q", "--channel", "b", stdin="3\n")
    assert run("purge", "q", "--channel", "a", "--yes").out == (
        "Cancelled 2 messages of q in channel a.\n"
    )
    run("receive", "q")
    assert run("purge", "q", "--yes", "--json").document() == {"messages": 0}
    assert run("purge", "q", "--state", "leased", "--yes", "--json").document()["messages"] == 1
    assert opened.queue("q").stats().cancelled == 3


@pytest.mark.parametrize(
    ("answer", "code", "left"), [("y\n", 0, 0), ("n\n", 1, 1), ("\n", 1, 1), ("", 130, 1)]
)
def test_a_person_is_asked(  # noqa: PLR0917  (three of them are parameters)
    run, opened, monkeypatch, answer, code, left
):
    run("send", "q", "x")
    monkeypatch.setattr(queue_module._show, "is_terminal", lambda *_: True)
    ran = run("purge", "q", stdin=answer, code=code)
    assert "Cancel all ready and scheduled messages of q?" in ran.err
    assert opened.queue("q").stats().ready == left


def test_policies(run):
    run("queue", "create", "q")
    assert run("policy", "get", "q", "c", "--json").document() == {}
    made = run("policy", "set", "q", "c", "--max-concurrency", "2", "--rate", "5/10s", "--json")
    assert made.document() == {"max_concurrency": 2, "rate": {"count": 5, "per_seconds": 10.0}}
    changed = run(
        "policy", "change", "q", "c", "--rate", "none", "--weight", "3", "--pause", "--json"
    )
    assert changed.document() == {"max_concurrency": 2, "weight": 3, "paused": True}
    listed = run("policy", "list", "q", "--json").document()["items"]
    assert listed == [{"channel": "c", "policy": changed.document()}]
    row = run("policy", "list", "q").out.splitlines()[1]
    assert row.split() == ["c", "2", "–", "–", "3", "yes"]
    replaced = run("policy", "set", "q", "c", "--max-size", "9", "--json").document()
    assert replaced == {"max_size": 9}
    assert run("policy", "clear", "q", "c", "--json").document() == {}
    assert "No channel of q" in run("policy", "list", "q").err


def test_the_default_channel_has_a_policy_as_well(run):
    run("queue", "create", "q")
    run("policy", "set", "q", "", "--max-concurrency", "1")
    assert "(default)" in run("policy", "list", "q").out
    run("send", "q", stdin="1\n2\n")
    run("receive", "q", "-n", "2")
    assert "at its max_concurrency" in run("stats", "q").out


def test_stats(run):
    run("queue", "create", "q")
    run("send", "q", "--channel", "a", stdin="1\n2\n3\n")
    run("receive", "q", "--ack")
    (queue,) = [one for one in run("stats", "--json").document()["items"] if one["sent"]]
    assert queue.pop("oldest_ready_seconds") >= 0
    assert queue == {
        "queue": "q",
        "scheduled": 0,
        "ready": 2,
        "leased": 0,
        "sent": 3,
        "done": 1,
        "dead": 0,
        "cancelled": 0,
        "expired": 0,
        "paused": False,
    }
    (channel,) = run("stats", "q", "--json").document()["channels"]
    assert channel.pop("oldest_ready_seconds") >= 0
    assert channel == {"channel": "a", "scheduled": 0, "ready": 2, "leased": 0, "blocked": None}
    lines = run("stats", "q").out.splitlines()
    assert lines[0].split()[0] == "QUEUE"
    assert lines[3].split()[0] == "CHANNEL"


def test_stats_without_queues(run):
    run("migrate", "up")
    assert "No queues yet" in run("stats").err
    assert run("stats", "--json").document() == {"items": []}
    assert "No queues yet" in run("queue", "list").err
    assert "No queues yet" in run("top", "--once").err


def test_top_once(run):
    run("send", "q", "--channel", "busy", stdin="1\n2\n3\n")
    run("policy", "set", "q", "busy", "--pause")
    lines = run("top").out.splitlines()
    assert lines[0].split() == [
        "QUEUE", "/", "CHANNEL", "READY", "LEASED", "SCHEDULED", "OLDEST", "SENT/S", "DONE/S",
        "HELD",
    ]  # fmt: skip
    assert lines[1].split()[0] == "q"
    assert lines[2].split()[0] == "busy"
    assert lines[2].endswith("paused")


def test_top_tells_rates(run, opened, monkeypatch):
    opened.queue("q").send("x")
    monkeypatch.setattr(top_module.time, "sleep", lambda _: opened.queue("q").send("y"))
    first, second = run("top", "q", "--json", "--count", "2").lines()
    assert first["queues"][0]["sent_per_second"] is None
    assert second["queues"][0]["sent_per_second"] > 0
    assert second["queues"][0]["channels"][0]["ready"] == 2


def test_top_live(run, opened, monkeypatch):
    opened.queue("q").send("x", channel="[bold]not markup")
    real = top_module._show.is_terminal
    monkeypatch.setattr(top_module._show, "is_terminal", lambda *a: not a or real(*a))
    monkeypatch.setattr(top_module.time, "sleep", lambda _: None)
    ran = run("top", "--count", "2", TERM="xterm", COLUMNS="140")
    assert "[bold]not markup" in ran.out
