"""`call`: every verb, with the JSON of `/v1`."""

from __future__ import annotations

import json
import threading
import time
from typing import Any

import pytest

import turnabout
from tests.cli.test_help import calls
from tests.support.command_line import Runner
from tests.support.each import each
from turnabout import slices
from turnabout.cli import call
from turnabout.wire import load_object, object_of
from turnabout.words.verbs import VOCABULARY

OWN = [kind for module in slices.modules("verbs") for kind in module.VERBS]
KINDS = [kind for kind in (*VOCABULARY, *OWN) if not kind.bulk]


def told(run: Runner, name: str, code: int = 0, **fields: Any) -> Any:
    """What a verb answers to these fields."""
    return run("call", name, json.dumps(fields), code=code).document()


@pytest.fixture
def queue(opened: turnabout.Turnabout) -> turnabout.Queue:
    queue = opened.queue("q")
    queue.create(backoff_seconds=60, max_attempts=2, events="all", max_messages=8)
    return queue


def lease(queue: turnabout.Queue, **options: Any) -> str:
    queue.send("x", **options)
    (message,) = queue.receive(lease_seconds=60)
    return str(message.receipt)


def test_all_verbs_are_there(run: Runner) -> None:
    assert list(call.kinds()) == [kind.name for kind in KINDS]
    listed = run("call", "--help").out
    assert all(f"\n  {kind.name} " in listed for kind in KINDS)


@each("kind", KINDS)
def test_a_verb_explains_itself(run: Runner, kind: Any) -> None:
    text = run("call", kind.name, "--help").out
    assert all(f"\n  {one} " in text for one in object_of(kind).__struct_encode_fields__)
    assert max(map(len, text.splitlines())) <= 100


def test_examples_are_calls() -> None:
    known = 0
    for kind in KINDS:
        ((_, name, *fields),) = calls(call.example_of(kind))
        assert name == kind.name
        if fields != ["{…}"]:
            load_object(kind, "".join(fields or ["{}"]).encode())
            known += 1
    assert known > 30


# --- answers --------------------------------------------------------------------------------------


def test_the_answers_are_those_of_the_wire(run: Runner) -> None:
    sent = told(
        run, "send", queue="q", messages=[{"payload": {"json": [1]}}, {"payload": {"text": "b"}}]
    )
    assert sent["outcome"] == "sent"
    received = told(run, "receive", queue="q", max_messages=2)
    payloads = [one["payload"] for one in received["deliveries"]]
    assert payloads == [{"json": [1]}, {"text": "b"}]
    receipts = [one["receipt"] for one in received["deliveries"]]
    results = [{"data": {"json": {"pages": 12}}}, None]
    acked = told(run, "ack", queue="q", receipts=receipts, results=results)
    assert acked == {"items": [{"outcome": "acked"}] * 2}
    first, second = told(run, "endings", queue="q", ids=sent["ids"])["items"]
    assert (first["result"], "result" in second) == ({"data": {"json": {"pages": 12}}}, False)
    assert told(run, "clear", queue="q", which="done") == {"messages": 2}


@each(
    ("name", "fields", "outcome"),
    [
        ("ack", {"receipts": ["…"], "results": [{"data": {"text": "fine"}}]}, "acked"),
        ("extend", {"receipts": ["…"], "note": {"text": "page 12", "progress": 0.4}}, "extended"),
        ("defer", {"deferrals": [{"receipt": "…", "state": {"text": "page 7"}}]}, "deferred"),
        ("fail", {"failures": [{"receipt": "…", "error": "550", "retry": False}]}, "dead"),
        ("release", {"receipts": ["…"]}, "released"),
        ("release", {"receipts": ["99.1"]}, "lease_lost"),
        ("receive", {"acks": ["99.1"]}, "lease_lost"),
        ("retry", {"ids": [99]}, "not_waiting"),
        ("queue_create", {}, "already_exists"),
        ("send", {"messages": [{"payload": {"text": "x"}}] * 9}, "queue_full"),
    ],
)
def test_outcomes(
    run: Runner, queue: turnabout.Queue, name: str, fields: Any, outcome: str
) -> None:
    text = json.dumps({"queue": "q", **fields}).replace('"\\u2026"', f'"{lease(queue)}"')
    refuses = outcome in {"lease_lost", "not_waiting", "already_exists", "queue_full"}
    assert f'"outcome":"{outcome}"' in run("call", name, text, code=int(refuses)).out


def test_lines_of_the_input(run: Runner, queue: turnabout.Queue) -> None:
    receipts = [lease(queue), lease(queue), "99.1"]
    lines = [json.dumps({"queue": "q", "receipts": [receipt]}) for receipt in receipts]
    answers = run("call", "ack", "-", stdin="\n\n".join(lines), code=1).lines()
    assert [answer["items"][0]["outcome"] for answer in answers] == ["acked", "acked", "lease_lost"]


def test_a_wrong_line_is_named(run: Runner, queue: turnabout.Queue) -> None:
    good = json.dumps({"queue": "q", "receipts": [lease(queue)]})
    ran = run("call", "ack", "-", "--json", stdin=f"{good}\n{{}}\n{good}\n", code=2)
    assert len(ran.lines()) == 1
    assert ran.error()["message"].startswith("line 2: ")


@each(
    ("words", "says"),
    [
        (("ack", '{"queue": "q", "receipts": ["4711"]}'), "receipt"),
        (("ack", '{"queue": "q", "queue": "q", "receipts": []}'), "twice"),
        (("ack", "[1]"), "object"),
        (("ack", "{"), "ack"),
        (("ack",), "queue"),
        (("queue_get", '{"queue": 7}'), "queue"),
        (("token_find", "{"), "token_find"),
        (("dequeue",), "No such command"),
        (("queue_get", '{"queue": "nowhere"}'), "there is no queue 'nowhere'"),
    ],
)
def test_wrong_calls(run: Runner, queue: turnabout.Queue, words: Any, says: str) -> None:
    assert queue.stats().sent == 0
    assert says in run("call", *words, code=2).err


def test_no_file_is_made_but_by_what_makes_one(run: Runner) -> None:
    assert "there is no database" in run("call", "queue_list", code=2).err
    told(run, "queue_create", queue="q")
    assert [one["name"] for one in told(run, "queue_list")["items"]] == ["q", "q-dead"]


def test_no_server_has_the_verbs_of_slices(run: Runner) -> None:
    words = ("call", "token_list", "--url", "http://127.0.0.1:1")
    assert "no server carries out token_list" in run(*words, code=2).err
    assert run("call", "queue_list", "--url", "http://127.0.0.1:1", code=3).err


def test_verbs_that_wait(run: Runner, queue: turnabout.Queue) -> None:
    began = time.monotonic()
    number = queue.send("x", delay_seconds=0.3).id
    cursor = told(run, "events", queue="q")["cursor"]
    received = told(run, "receive", queue="q", wait_seconds=20)
    assert [one["id"] for one in received["deliveries"]] == [number]
    receipt = received["deliveries"][0]["receipt"]
    later = threading.Timer(0.3, lambda: queue.ack([turnabout.Receipt.parse(receipt)]))
    later.start()
    (ending,) = told(run, "endings", queue="q", ids=[number], wait_seconds=20)["items"]
    assert ending["outcome"] == "done"
    later.join()
    kinds = [one["kind"] for one in told(run, "events", queue="q", cursor=cursor)["events"]]
    assert kinds == ["leased", "done"]
    newest = told(run, "events", queue="q")["cursor"]
    later = threading.Timer(0.3, lambda: queue.send("y"))
    later.start()
    page = told(run, "events", queue="q", cursor=newest, wait_seconds=20)
    assert [one["kind"] for one in page["events"]] == ["created"]
    later.join()
    assert time.monotonic() - began < 15


def test_a_wait_that_ends(run: Runner, queue: turnabout.Queue) -> None:
    cursor = told(run, "events", queue="q")["cursor"]
    fields: Any = {"receive": {}, "endings": {"ids": [99]}, "events": {"cursor": cursor}}
    empty = [told(run, name, queue="q", wait_seconds=0.1, **fields[name]) for name in fields]
    assert [empty[0]["deliveries"], empty[2]["events"]] == [[], []]
    assert queue.stats().sent == 0


def test_a_schedule_gets_its_first_due_time(run: Runner, queue: turnabout.Queue) -> None:
    fields = {"schedule": "s", "queue": "q", "message": {"payload": {"text": "x"}}}
    assert told(run, "schedule_set", **fields, every_seconds=60)["next_at"] > 0
    assert told(run, "schedule_set", **fields, every_seconds=60, next_at=None)["next_at"] is None
    assert told(run, "schedule_delete", schedule="s") == {"value": True}
    assert queue.stats().sent == 0
