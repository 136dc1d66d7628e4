"""`receive` and `peek`."""

from __future__ import annotations

import base64
import traceback
from typing import Any

import pytest

import turnabout
from turnabout.cli import receive as receive_module


@pytest.fixture
def queue(opened: turnabout.Turnabout) -> turnabout.Queue:
    queue = opened.queue("q")
    queue.create(backoff_seconds=60, max_attempts=2)
    return queue


def test_messages_are_printed_with_receipts(run, queue):
    queue.send({"to": "ada"}, channel="a", headers={"k": "v"})
    queue.send("two")
    ran = run("receive", "q", "-n", "10")
    assert {'{"to":"ada"}', "two"} <= set(ran.out.splitlines())
    first = queue.peek()[0].id
    assert f"{first}.1  a  sent " in ran.out
    assert "k=v" in ran.out
    assert 'turnabout call ack \'{"queue": "q", "receipts": [' in ran.err
    assert queue.stats().leased == 2


def test_the_json_of_a_delivery(run, queue):
    queue.send({"to": "ada"}, channel="a", headers={"k": "v"}, priority=2)
    (line,) = run("receive", "q", "--json").lines()
    ident = line["id"]
    assert line.pop("lease_until") - line.pop("sent_at") > 0
    assert line == {
        "id": ident,
        "receipt": f"{ident}.1",
        "attempt": 1,
        "channel": "a",
        "priority": 2,
        "payload": {"json": {"to": "ada"}},
        "content_type": "application/json",
        "headers": {"k": "v"},
        "failures": 0,
        "crashes": 0,
        "lease_seconds": 30.0,
    }


def test_payloads_in_json(run, queue):
    """What it is by its content type and its bytes; a line each, whatever is in them."""
    kinds = ("application/json", "application/octet-stream", "text/plain")
    cases: list[tuple[bytes, str, dict[str, Any]]] = [
        (b"\xff\x00", kinds[1], {"base64": base64.b64encode(b"\xff\x00").decode()}),
        (b"plain", kinds[1], {"text": "plain"}),
        (b"{broken", kinds[0], {"text": "{broken"}),
        (b"1e400", kinds[0], {"text": "1e400"}),
        (b'"\\ud800"', kinds[0], {"text": '"\\ud800"'}),
        (b"[1]", kinds[2], {"text": "[1]"}),
        (b"12345678901234567890123", kinds[0], {"json": 12345678901234567890123}),
        (b"[1,\r\n2]", kinds[0], {"json": [1, 2]}),
        (b"two\nlines", kinds[2], {"text": "two\nlines"}),
    ]
    queue.send_many(turnabout.message(data, content_type=kind) for data, kind, _ in cases)
    found = [line["payload"] for line in run("receive", "q", "-n", "99", "--json").lines()]
    assert found == [wanted for _, _, wanted in cases]


def test_nothing_to_receive(run, queue):
    assert "nothing to receive in q" in run("receive", "q", code=1).err
    queue.send("x", delay_seconds=3600)
    ran = run("receive", "q", "--json", code=1)
    assert ran.out == ""
    assert ran.error()["code"] == "empty"
    assert "ask again in" in ran.error()["message"]


def test_ack_after_printing(run, queue):
    queue.send("x")
    assert "x" in run("receive", "q", "--ack").out
    assert (queue.stats().leased, queue.stats().done) == (0, 1)


@pytest.mark.parametrize("words", ["receive q", "receive q --ack", 'call receive {"queue":"q"}'])
@pytest.mark.parametrize("error", [OSError("gone"), KeyboardInterrupt()])
def test_what_could_not_be_printed_is_given_back(run, queue, monkeypatch, words, error):
    queue.send("x")

    def fail() -> None:
        raise error

    monkeypatch.setattr(receive_module._show, "flush", fail)
    if isinstance(error, KeyboardInterrupt):
        run(*words.split(), code=130)
    else:
        with pytest.raises(OSError, match="gone"):
            run(*words.split())
    stats = queue.stats()
    assert (stats.ready, stats.leased, stats.done) == (1, 0, 0)
    (message,) = queue.peek()
    assert (message.failures, message.crashes) == (0, 0)


def test_a_lease_that_was_lost_before_the_ack(run, queue, monkeypatch):
    queue.send("x")

    def steal() -> None:
        queue.purge(state="leased")

    monkeypatch.setattr(receive_module._show, "flush", steal)
    assert run("receive", "q", "--ack", "--json", code=1).error()["code"] == "lease_lost"


def test_a_lease_of_ones_own(run, queue):
    queue.send("x")
    ran = run("receive", "q", "--lease", "10m", "--wait", "1s")
    assert "Leased for 10m" in ran.err


def test_escape_sequences_do_not_reach_the_terminal(run, queue):
    queue.send("\x1b[2Jgone", channel="\x1b[31m", headers={"h": "\x07"})
    for words in (("peek", "q"), ("peek", "q", "--full"), ("stats", "q"), ("top", "--once"),
                  ("receive", "q")):  # fmt: skip
        assert "\x1b" not in run(*words).out


def test_peek(run, queue):
    queue.send("one", channel="a")
    queue.send("two", channel="b", delay_seconds=60)
    table = run("peek", "q").out
    assert "one" in table
    assert "scheduled" in table
    assert [m["payload"]["text"] for m in run("peek", "q", "--channel", "a", "--json").lines()] == [
        "one"
    ]
    assert [m["state"] for m in run("peek", "q", "--state", "scheduled", "--json").lines()] == [
        "scheduled"
    ]
    first = run("peek", "q", "-n", "1", "--json").lines()[0]["id"]
    after = run("peek", "q", "--after-id", str(first), "--json").lines()
    assert [m["payload"] for m in after] == [{"text": "two"}]
    assert "--after-id" in run("peek", "q", "-n", "1").err
    assert queue.stats().leased == 0


def test_the_table_tells_what_the_dead_died_of(run, queue):
    queue.send_many(turnabout.message("x") for _ in range(2))
    one, two = queue.receive(2)
    assert "DIED OF" not in run("peek", "q").out
    one.fail("550 no such user\nat line 7", retry=False)
    two.fail(retry=False)
    heads, first, second = run("peek", "q-dead").out.splitlines()
    assert heads.endswith("DIED OF")
    assert first.rstrip().endswith("550 no such user⏎at line 7")
    assert second.rstrip().endswith("refused")


def test_the_table_tells_what_failed_and_comes_again(run, queue):
    queue.send_many(turnabout.message("x") for _ in range(2))
    one, _two = queue.receive(2)
    try:
        raise ValueError("no such user:\nada")
    except ValueError:
        one.fail(traceback.format_exc())
    heads, first, second = run("peek", "q").out.splitlines()
    assert heads.endswith("LAST ERROR")
    assert first.rstrip().endswith("  ValueError: no such user:⏎ada")
    assert second.rstrip().endswith("x")


def test_peek_tells_the_story_of_a_dead_message(run, queue):
    queue.send("x")
    (message,) = queue.receive()
    message.fail("it broke", retry=False)
    (line,) = run("peek", "q-dead", "--json").lines()
    assert line["origin"]["queue"] == "q"
    assert line["origin"]["last_error"] == "it broke"
    full = run("peek", "q-dead", "--full").out
    assert "in q (refused; 1 failure, 0 crashes)\nattempt 1, now: it broke" in full
    assert "q is empty" in run("peek", "q").err
    assert "No such message" in run("peek", "q", "--channel", "a").err


def test_receive_tells_the_story_of_a_dead_message(run, queue):
    queue.send_many(turnabout.message("x") for _ in range(2))
    for message in queue.receive(2):
        assert message.origin is None
        message.fail("it broke", retry=False)
    (line,) = run("receive", "q-dead", "--json").lines()
    assert line["origin"]["queue"] == "q"
    assert line["origin"]["last_error"] == "it broke"
    said = run("receive", "q-dead").out
    assert "in q (refused; 1 failure, 0 crashes)\nattempt 1, now: it broke" in said


def test_a_queue_that_is_not_there(run, queue):
    for words in (("peek", "nope"), ("receive", "nope"), ("stats", "nope"),
                  ("queue", "get", "nope"),
                  ("purge", "nope", "--yes"), ("queue", "pause", "nope")):  # fmt: skip
        assert "there is no queue 'nope'" in run(*words, code=2).err
