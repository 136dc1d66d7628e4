"""`cancel`, `retry`, `history`, `redrive`, `channel`; dedup and settings."""

from __future__ import annotations

from typing import Any

import pytest

import turnabout
from tests.support.command_line import Ran, Runner
from turnabout import Policy, Rate
from turnabout.cli import _kinds


def sent(run: Runner, *payloads: str, queue: str = "q", options: tuple[str, ...] = ()) -> list[int]:
    return [
        run("send", queue, payload, *options, "--json").document()["last_id"]
        for payload in payloads
    ]


def taken(opened: turnabout.Turnabout, queue: str = "q") -> turnabout.Message:
    (message,) = opened.queue(queue).receive()
    return message


# --- send: dedup and time to live ----------------------------------------------------------------


def test_a_dedup_key_sends_once(run: Runner, opened: turnabout.Turnabout) -> None:
    (first,) = sent(run, "one", options=("--dedup-key", "k", "--dedup-window", "1h"))
    again = run("send", "q", "two", "--dedup-key", "k")
    assert again.out == f"Not sent: {first} has the same dedup key and stands for it.\n"
    document = run("send", "q", "two", "--dedup-key", "k", "--json").document()
    assert (document["sent"], document["duplicates"], document["last_id"]) == (0, 1, first)
    newer = run("send", "q", "three", "--dedup-key", "k", "--dedup-mode", "latest")
    assert newer.out == f"Replaced the content of {first}, which was waiting in q.\n"
    assert [message.payload for message in opened.queue("q").peek()] == [b"three"]
    run("send", "q", "4", "--dedup-key", "k", "--dedup-scope", "channel", "--channel", "c")
    assert opened.queue("q").stats().ready == 2


def test_keys_of_lines(run: Runner, opened: turnabout.Turnabout) -> None:
    rows = '{"order":1,"text":"a"}\n{"order":2,"text":"b"}\n{"order":1,"text":"c"}\n'
    words = ("send", "q", "--format", "jsonl", "--dedup-key-from", "order")
    ran = run(*words, stdin=rows)
    assert "Sent 2 messages to q" in ran.out
    assert "1 duplicate not sent" in ran.out
    ran = run(*words, "--dedup-mode", "latest", "--json", stdin=rows)
    assert ran.document() | {"first_id": 0, "last_id": 0} == {
        "queue": "q", "sent": 0, "refused": 0, "duplicates": 0, "replaced": 3, "blank": 0,
        "first_id": 0, "last_id": 0, "next_line": None,
    }  # fmt: skip
    assert [m.payload[-4:] for m in opened.queue("q").peek()] == [b'"c"}', b'"b"}']


def test_a_time_to_live(run: Runner, opened: turnabout.Turnabout) -> None:
    run("send", "q", "x", "--ttl", "1h")
    (message,) = opened.queue("q").peek()
    assert message.expires_at == message.sent_at + 3_600_000
    assert "expires in" in run("peek", "q", "--full").out
    assert run("peek", "q", "--json").document()["expires_at"] == message.expires_at


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("send", "q", "--dedup-key", "k"), "--dedup-key-from"),
        (("send", "q", "x", "--dedup-window", "1h"), "need a --dedup-key"),
        (("send", "q", "{}", "--dedup-key", "k", "--dedup-key-from", "f"), "exclude each other"),
        (("send", "q", "{}", "--dedup-key-from", "f"), "there is no field"),
        (("send", "q", '{"f": true}', "--dedup-key-from", "f"), "a dedup key is text"),
        (("send", "q", "x", "--dedup-key", "k" * 256), "255 bytes"),
        (("send", "q", "x", "--ttl", "0"), "ttl_seconds"),
    ],
)
def test_wrong_sends(run: Runner, words: Any, says: str) -> None:
    assert says in run(*words, code=2, stdin="").err


def test_a_full_queue(run: Runner, opened: turnabout.Turnabout) -> None:
    run("queue", "create", "q", "--max-messages", "2")
    ran = run("send", "q", "--batch-size", "3", stdin="1\n2\n3\n4\n", code=1)
    assert "its max_messages is 2" in ran.err
    assert "the rest begins at line 3" in ran.err
    assert opened.queue("q").stats().ready == 2
    assert run("send", "q", "x", "--json", code=1).error()["code"] == "queue_full"
    ran = run("send", "q", "--when-full", "skip", "--json", stdin="5\n6\n", code=1)
    assert (ran.document()["sent"], ran.document()["refused"]) == (0, 2)
    assert "Not sent: q or" in run("send", "q", "x", "--when-full", "skip", code=1).out


# --- by ids --------------------------------------------------------------------------------------


def test_cancel(run: Runner, opened: turnabout.Turnabout) -> None:
    first, second = sent(run, "1", "2")
    message = taken(opened)
    ran = run("cancel", "q", str(second), str(first), "99", code=1)
    assert ran.out.splitlines() == [
        f"{second}  cancelled",
        f"{first}  its worker will learn it; it will not come back",
        "99  not changed: it has ended, or was never in this queue",
    ]
    assert "to be cancelled" in run("peek", "q", "--full").out
    assert "NOTE" not in run("peek", "q").out
    message.extend(note=turnabout.Note("page \x1b[31m12", 0.4))
    for how in ((), ("--full",)):
        assert "████······ 40% page \\x1b[31m12" in run("peek", "q", *how).out
    message.fail()
    ran = run("cancel", "q", "--json", stdin=f"{first}\n\n", code=1)
    assert ran.lines() == [{"id": first, "outcome": "not_waiting", "now": "gone"}]


def test_retry(run: Runner, opened: turnabout.Turnabout) -> None:
    opened.queue("q").create(fifo=True, on_exhausted="block", max_attempts=1)
    (first,) = sent(run, "1")
    taken(opened).fail()
    assert "due on `turnabout retry`" in run("peek", "q", "--full").out
    sent(run, "2")
    assert "`turnabout retry` or `cancel`" in run("stats", "q").out
    assert run("retry", "q", str(first), "--json").lines() == [{"id": first, "outcome": "retried"}]
    taken(opened)
    ran = run("retry", "q", str(first), code=1)
    assert ran.out == f"{first}  not changed: it is leased\n"


@pytest.mark.parametrize("name", ["cancel", "retry"])
def test_wrong_ids(run: Runner, name: str) -> None:
    sent(run, "x")
    for wrong in ("0", "4711.1", "x", "9" * 30):
        says = f"'{wrong}' is not a valid id: write a number such as 4711"
        assert says in run(name, "q", wrong, code=2).err
        assert says in run(name, "q", stdin=wrong, code=2).err
    assert "nothing to do" in run(name, "q", stdin="\n").err


# --- records -------------------------------------------------------------------------------------


def test_history(run: Runner, opened: turnabout.Turnabout) -> None:
    queue = opened.queue("q")
    queue.create(history_payload=True)
    first, second, third = sent(run, "1", "2", "3", options=("--channel", "c"))
    queue.receive()[0].ack(result="fine")
    queue.receive()[0].fail("Traceback\nValueError: broken", retry=False)
    queue.cancel([third])
    rows = run("history", "q").out.splitlines()
    assert [row.split()[:3] for row in rows[1:]] == [
        [str(third), "cancelled", "c"],
        [str(second), "dead", "c"],
        [str(first), "done", "c"],
    ]
    assert rows[2].endswith("ValueError: broken")
    assert rows[3].endswith("fine")
    ran = run("history", "q", "-n", "2")
    cursor = ran.err.split("--cursor ")[1].strip()
    rest = run("history", "q", "--cursor", cursor, "--json").lines()
    assert [line["id"] for line in rest] == [first]
    assert (rest[0]["payload"], rest[0]["headers"]) == ({"text": "1"}, {})
    assert rest[0]["result"] == {"data": {"text": "fine"}}
    assert "cursor" in run("history", "q", "-n", "2", "--json").lines()[-1]
    everything = run("history", "q", "--all", "--json").lines()
    assert [line["id"] for line in everything] == [third, second, first]
    (dead,) = run("history", "q", "--error", "broken", "--since", "1h", "--json").lines()
    assert dead["outcome"] == "dead"
    assert "No such message" in run("history", "q", "--until", "1h").err
    assert "exclude" in run("history", "q", "--all", "--cursor", cursor, code=2).err
    assert "not a valid time" in run("history", "q", "--since", "soon", code=2).err


# --- redrive -------------------------------------------------------------------------------------


def die(opened: turnabout.Turnabout, *payloads: str) -> list[int]:
    queue = opened.queue("q")
    ids = [queue.send(payload).id for payload in payloads]
    for message in queue.receive(len(ids)):
        message.fail(f"cannot {message.text()}", retry=False)
    return ids


def test_redrive(run: Runner, opened: turnabout.Turnabout) -> None:
    ids = die(opened, "read", "write", "run")
    words = ("redrive", "start", "q-dead")
    assert run(*words, "--error", "read", "--dry-run").out == (
        "Would move 1 message out of q-dead. Nothing was changed.\n"
    )
    assert opened.queue("q").stats().ready == 0
    ran = run(*words, "--error", "write", "--since", "1h", "--rate", "1000/s", "--json").document()
    assert (ran["state"], ran["moved"], ran["filter"]["error"]) == ("done", 1, "write")
    assert taken(opened).id == ids[1]
    assert "moved 2 messages out of q-dead" in run(*words).out
    listed = run("redrive", "list", "q-dead").out.splitlines()
    assert [line.split()[0] for line in listed[1:]] == [str(n) for n in range(ran["id"] + 1, 0, -1)]
    assert len(run("redrive", "list", "--json").document()["items"]) == len(listed) - 1
    assert "No redrives yet" in run("redrive", "list", "q").err


def test_one_letter_back_by_its_id(run: Runner, opened: turnabout.Turnabout) -> None:
    number = str(die(opened, "read", "write")[1])
    assert "redrive start q-dead --id" in run("retry", "q", number, code=1).err
    assert "redrive start q-dead --id" in run("retry", "q-dead", number).err
    ran = run("redrive", "start", "q-dead", "--id", number, "--id", "999")
    assert "moved 1 message out of q-dead; 1 of those named" in ran.out
    assert str(taken(opened).id) == number


def test_a_redrive_later_and_elsewhere(run: Runner, opened: turnabout.Turnabout) -> None:
    die(opened, "a", "b")
    opened.queue("slow").create()
    ran = run("redrive", "start", "q-dead", "--to", "slow", "--no-wait", "--json").document()
    assert (ran["state"], ran["moved"], ran["target"]) == ("running", 0, "slow")
    assert "moved 2 messages out of q-dead to slow" in run("redrive", "resume", str(ran["id"])).out
    die(opened, "c")
    begun = run("redrive", "start", "q-dead", "--no-wait", "--json").document()["id"]
    assert "is cancelled" in run("redrive", "cancel", str(begun)).out
    assert "is cancelled" in run("redrive", "resume", str(begun)).out
    assert run("redrive", "resume", "99", code=2).err
    assert (
        "not a valid number of messages per second"
        in run("redrive", "start", "q-dead", "--rate", "fast", code=2).err
    )


# --- settings ------------------------------------------------------------------------------------


def test_settings_of_a_life(run: Runner, opened: turnabout.Turnabout) -> None:
    run(
        "queue", "create", "q", "--ttl", "1d", "--max-messages", "10", "--on-exhausted", "drop",
        "--dedup-mode", "sliding", "--dedup-window", "1h", "--dedup-scope", "channel",
        "--history", "1h", "--history-failed", "30d", "--history-payload", "--events", "hints",
    )  # fmt: skip
    made = opened.queue("q").settings()
    assert (made.ttl_seconds, made.max_messages, made.on_exhausted) == (86_400, 10, "drop")
    assert (made.dedup_mode, made.dedup_window_seconds) == ("sliding", 3600)
    assert made.dedup_scope == "channel"
    assert (made.history_seconds, made.history_failed_seconds) == (3600, 30 * 86_400)
    assert (made.history_payload, made.events) == (True, "hints")
    text = run("queue", "get", "q").out
    told = dict(line.split(maxsplit=1) for line in text.splitlines())
    assert (told["dedup-mode"], told["dedup-window"], told["dedup-scope"]) == (
        "sliding", "1h", "channel",
    )  # fmt: skip
    assert (told["history"], told["history-failed"], told["history-payload"]) == (
        "1h", "30d", "yes",
    )  # fmt: skip
    run(
        "queue", "update", "q", "--ttl", "none", "--max-messages", "none",
        "--history-failed", "none", "--no-history-payload",
    )  # fmt: skip
    now = opened.queue("q").settings()
    assert (now.ttl_seconds, now.max_messages, now.history_failed_seconds) == (None, None, None)
    assert now.history_payload is False
    assert now.dedup_mode == "sliding"


def test_update_changes_only_what_it_names(
    run: Runner, opened: turnabout.Turnabout, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another's change between our reading and writing would be lost: so nothing is read."""
    queue = opened.queue("q")
    queue.create(policy=Policy(max_concurrency=3))
    monkeypatch.setattr(
        turnabout.Queue, "settings", lambda _: pytest.fail("the settings were read")
    )
    run("queue", "update", "q", "--rate", "5/s")
    monkeypatch.undo()
    assert queue.settings().policy == Policy(max_concurrency=3, rate=Rate(5))


def test_channels(run: Runner, opened: turnabout.Turnabout) -> None:
    ran: Ran = run("channel", "pause", "q", "c", "--reason", "unpaid", "--json", code=2)
    assert ran.error()["code"] == "queue_not_found"
    sent(run, "1", "2", options=("--channel", "c"))
    run("channel", "pause", "q", "c", "--reason", "unpaid")
    assert "yes: unpaid" in run("policy", "get", "q", "c").out
    assert "yes: unpaid" in run("policy", "list", "q").out
    run("receive", "q", code=1)
    assert run("channel", "resume", "q", "c", "--json").document() == {}
    assert "--yes" in run("channel", "delete", "q", "c", code=2).err
    assert run("channel", "delete", "q", "c", "--yes").out == (
        "Removed channel c of q: 2 messages cancelled.\n"
    )
    assert opened.queue("q").stats().cancelled == 2


# --- kinds of values -----------------------------------------------------------------------------


def test_times(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_kinds.time, "time", lambda: 1_000_000.0)
    kind = _kinds.INSTANT
    assert kind.convert("1h30m", None, None) == 994_600_000
    assert kind.convert("1970-01-02T00:00:00Z", None, None) == 86_400_000
    assert kind.convert("1970-01-02T01:00+01:00", None, None) == 86_400_000
    day = kind.convert("2026-05-01", None, None)
    assert abs(day - 1_777_593_600_000) <= 14 * 3_600_000
