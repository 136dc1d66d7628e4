"""`schedule`: set, list, show, next, pause, resume, delete, run."""

from __future__ import annotations

import json
import re
import signal

import pytest

import turnabout
from tests.support.each import each
from turnabout.words.schedules import Schedule
from turnabout.words.verbs import ScheduleSet

HOUR = 3_600_000


def test_set_show_list(run, opened):
    words = (
        "set", "nightly", "reports", '{"kind": "daily"}', "--cron", "30 2 * * *", "--zone",
        "Europe/Berlin", "--overlap", "skip", "--missed", "all", "--channel", "c", "--priority",
        "-1", "--header", "a=b", "--ttl", "1h", "--dedup-key", "k",
    )  # fmt: skip
    made = run("schedule", *words, "--json").document()
    assert made["schedule"] == {
        "name": "nightly", "queue": "reports", "cron": "30 2 * * *", "zone": "Europe/Berlin",
        "missed": "all", "overlap": "skip",
        "message": {
            "payload": {"json": {"kind": "daily"}}, "channel": "c", "priority": -1,
            "headers": {"a": "b"}, "ttl_seconds": 3600.0, "dedup_key": "k",
        },
    }  # fmt: skip
    entry = opened.schedules.get("nightly")
    assert entry is not None
    assert entry.next_at == made["next_at"]
    assert run("schedule", "show", "nightly", "--json").document() | {"now": made["now"]} == made
    text = run("schedule", "show", "nightly").out
    assert re.search(r"next +\w{3} \d{4}-\d\d-\d\d 02:30:00 \+0[12]:00 Europe/Berlin \(in ", text)
    assert re.search(r"when +30 2 \* \* \* \(Europe/Berlin\)", text)
    assert "nightly is set: next " in run("schedule", *words).out
    run("schedule", "set", "pulse", "checks", "ping", "--every", "5m")
    listed = run("schedule", "list").out.splitlines()
    assert [line.split()[0] for line in listed] == ["SCHEDULE", "nightly", "pulse"]
    assert "every 5m" in listed[2]
    one = run("schedule", "list", "--queue", "checks", "--json").document()["items"]
    assert [s["schedule"]["every_seconds"] for s in one] == [300.0]
    assert "no schedules" in run("schedule", "list", "--queue", "none").err


def test_a_time_is_meant_by_the_clocks_of_the_zone(run):
    words = ("schedule", "set", "s", "q", "x", "--json", "--zone", "Asia/Kathmandu", "--at")
    assert run(*words, "2035-01-01T05:45").document()["schedule"]["at"] == 2_051_222_400_000
    assert run(*words, "2035-01-01T00:00Z").document()["schedule"]["at"] == 2_051_222_400_000
    assert "05:45:00 +05:45" in run("schedule", "show", "s").out
    words = (*words[:-1], "--every", "1d")
    made = run(*words, "--anchor", "2035-01-01T05:45").document()["schedule"]
    assert (made["anchor"], made.get("zone", "UTC")) == (2_051_222_400_000, "UTC")
    assert "zone only applies to cron" in run(*words, code=2).err
    assert "5 * * *" in run("schedule", "set", "s", "q", "x", "--cron", "5 * * *", code=2).err


def test_next(run):
    run("schedule", "set", "s", "q", "x", "--every", "1h")
    found = run("schedule", "next", "s", "-n", "3", "--json").document()
    assert found["zone"] == "UTC"
    assert [b - a for a, b in zip(found["due_at"], found["due_at"][1:], strict=False)] == [HOUR] * 2
    lines = run("schedule", "next", "--cron", "30 2 29 2 *", "--zone", "Asia/Kathmandu", "-n", "2")
    assert len(lines.out.splitlines()) == 2
    assert all("-02-29 02:30:00 +05:45 Asia/Kathmandu  in " in s for s in lines.out.splitlines())
    run("schedule", "set", "s", "q", "x", "--at", "2020-01-01")
    run("schedule", "run", "--once")
    assert "nothing more" in run("schedule", "next", "s").err


@each(
    ("words", "says"),
    [
        (["set", "s", "q", "x"], "one of cron, every and at"),
        (["set", "s", "q", "x", "--at", "soon"], "not a valid time"),
        (["set", "s", "q", "x", "--at", "2030-01-01", "--zone", "Moon"], "not a time zone"),
        (["set", "s", "q", "x", "--every", "1ms"], "every_seconds"),
        (["set", "s", "q", "{", "--every", "1h", "--json-payload"], "JSON"),
        (["set", "s", "q", "x", "--every", "1h", "--json-payload", "--text"], "exclude"),
        (["next", "--cron", "0 0 31 2 *"], "never due"),
        (["next", "--every", "1h", "--zone", "Asia/Kathmandu"], "zone only applies to cron"),
        (["next"], "one of cron, every and at"),
        (["next", "s", "--cron", "* * * * *"], "not both"),
        (["next", "none"], "no schedule 'none'"),
        (["show", "none"], "no schedule 'none'"),
        (["pause", "none"], "no schedule 'none'"),
    ],
)
def test_what_is_refused(run, opened, words, says):
    opened.queue("q").create()
    assert says in run("schedule", *words, code=2).err


def test_pause_resume_delete(run):
    run("schedule", "set", "s", "q", "x", "--every", "1h")
    assert "s is paused." in run("schedule", "pause", "s").out
    assert " paused " in run("schedule", "list").out
    assert run("schedule", "show", "s", "--json").document()["schedule"]["paused"] is True
    assert "s goes on: next " in run("schedule", "resume", "s").out
    assert "Deleted s." in run("schedule", "delete", "s").out
    ran = run("schedule", "delete", "s", "--json", code=1)
    assert ran.document() == {"value": False}


def test_run_once(run, opened):
    run("schedule", "set", "s", "q", "x", "--at", "2020-01-01")
    (sent,) = run("schedule", "run", "--once", "--json").lines()
    assert (sent["schedule"], sent["queue"]) == ("s", "q")
    (message,) = opened.queue("q").receive()
    assert (message.id, message.headers["due-at"]) == (sent["id"], str(sent["due_at"]))
    assert run("schedule", "run", "--once").out == ""


@pytest.mark.slow
def test_run_until_stopped(program, opened):
    store = opened.store
    bad = Schedule("bad", "q", turnabout.message("x"), cron="no cron")
    now = store.run(ScheduleSet(bad, 5)).now
    opened.schedules.set("s", "q", "x", at=now + 700)
    process = program("schedule", "run")
    assert process.stdout is not None
    assert process.stderr is not None
    assert process.stdout.readline().startswith(b"s: sent ")
    process.send_signal(signal.SIGTERM)
    assert process.wait(60) == 130
    told = process.stderr.read().decode()
    assert told.count("'no cron' has 2 fields") == 1, "what goes on being wrong is told once"


@pytest.mark.slow
def test_run_says_so_when_the_database_is_away(program):
    process = program("schedule", "run", "--json", "--url", "postgresql://localhost:1/none")
    assert process.stderr is not None
    process.stderr.readline()  # what it does
    error = json.loads(process.stderr.readline())["error"]
    assert error["retryable"] is True
    assert process.poll() is None, "it goes on asking"
