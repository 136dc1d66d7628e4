"""History page by page, clearing in parts, events as an iterator, redrives: at every door."""

import threading
import time
from typing import Any

import pytest

from tests.conformance.steps import do, grave_of, one, one_by_one, sent
from tests.support.each import each
from turnabout import Cleared, Dead, Policy, Retrying, UsageError
from turnabout._async import history as async_history
from turnabout._sync import history as sync_history
from turnabout.words import verbs as v

# --- history -------------------------------------------------------------------------------------


def test_entries_come_page_by_page(queue: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (sync_history, async_history):
        monkeypatch.setattr(module, "PAGE_ROWS", 2)
    ids = sent(queue, *"abcde")
    one_by_one(queue)
    assert sorted(entry.id for entry in queue.history_entries()) == ids
    assert list(queue.history_entries(outcome="dead")) == []
    page = queue.history(3)
    rest = queue.history(3, cursor=page.cursor)
    assert len(page.entries) == 3
    assert [e.id for e in (*page.entries, *rest.entries)] == [e.id for e in queue.history_entries()]


@each(
    "asked",
    [
        {"limit": 0},
        {"limit": 1001},
        {"outcome": "lost"},
        {"channel": 7},
        {"error": "a\x00b"},
        {"finished_from": -1},
        {"finished_until": 1.5},
        {"cursor": 4},
        {"cursor": "nonsense"},
    ],
)
def test_wrong_questions_are_refused(queue: Any, asked: dict[str, Any]) -> None:
    with pytest.raises(UsageError):
        queue.history(**asked)


def test_clearing_goes_in_parts(queue: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (sync_history, async_history):
        monkeypatch.setattr(module, "CLEAR_ROWS", 2)
    sent(queue, *"abcdefg")
    one_by_one(queue)
    assert queue.clear("done", limit=0) == Cleared(0)
    assert queue.clear("done", limit=3) == Cleared(3)
    assert queue.clear("failed") == Cleared(0)
    assert queue.clear("all", limit=100) == Cleared(4)
    assert queue.clear("all") == Cleared(0)
    for wrong in ({"which": "most"}, {"which": "all", "limit": -1}):
        with pytest.raises(UsageError):
            queue.clear(**wrong)


# --- results, reasons, settings ------------------------------------------------------------------


def test_results_of_many(queue: Any) -> None:
    ids = sent(queue, *"abc")
    receipts = [message.receipt for message in queue.receive(3)]
    for wrong in ([1], "abc", b"abc", [float("nan")] * 3, [b"x" * (1024 * 1024 + 1)] * 3):
        with pytest.raises(UsageError):
            queue.ack(receipts, results=wrong)
    queue.ack(receipts, results=[b"\x00", "text", None])
    first, second, third = (ending.result for ending in queue.endings(ids))
    assert (first.data, first.content_type) == (b"\x00", "application/octet-stream")
    assert second.text() == "text"
    assert third is None


def test_a_pause_has_a_reason_until_it_ends(queue: Any) -> None:
    queue.pause(reason="the server moves")
    assert queue.stats().pause_reason == queue.settings().pause_reason == "the server moves"
    queue.resume()
    assert (queue.settings().paused, queue.settings().pause_reason) == (False, None)
    channel = queue.channel("c")
    channel.pause(reason="unpaid")
    assert channel.policy() == Policy(paused=True, pause_reason="unpaid")
    channel.resume()
    assert channel.policy() == Policy()


# --- events --------------------------------------------------------------------------------------


def test_events_one_by_one_and_on_from_each_of_them(queue: Any) -> None:
    queue.update(events="all")
    assert list(queue.events(idle_seconds=0)) == []
    start = do(queue, v.Events).cursor
    (number,) = sent(queue, "x", channel="c")
    one(queue).ack()
    seen = list(queue.events(after=start, idle_seconds=0.3))
    assert [(event.kind, event.id, event.channel) for event in seen] == [
        ("created", number, "c"),
        ("leased", number, "c"),
        ("done", number, "c"),
    ]
    for place, event in enumerate(seen):
        assert list(queue.events(after=event.cursor, idle_seconds=0)) == seen[place + 1 :]


@pytest.mark.real_time
@pytest.mark.needs("sharing")
@pytest.mark.parametrize("level", ["all", "hints"])
def test_events_of_another_connection_come_as_they_happen(door: Any, level: str) -> None:
    name = door.name_of_a_queue()
    with door.open(real_time=True) as mq:
        queue = mq.queue(name)
        queue.create(events=level)

        def send() -> None:
            time.sleep(0.3)
            with door.open(real_time=True) as other:
                sent(other.queue(name), "x")

        sender = threading.Thread(target=send)
        began = time.monotonic()
        sender.start()
        event = next(iter(queue.events(idle_seconds=20)))
        took = time.monotonic() - began
        sender.join()
    assert event.kind == ("created" if level == "all" else "changed")
    assert event.queue == name
    assert (0.3 if level == "all" else 0) <= took < 15  # a hint may also be of the new queue


def test_a_queue_that_tells_nothing_says_so(queue: Any) -> None:
    with pytest.raises(UsageError, match="update\\(events='all'\\)"):
        next(iter(queue.events()))
    for wrong in ({"after": 4}, {"idle_seconds": -1}):
        with pytest.raises(UsageError):
            next(iter(queue.events(**wrong)))


# --- redrives ------------------------------------------------------------------------------------


def died(queue: Any, *payloads: str, **options: Any) -> list[int]:
    ids = sent(queue, *payloads, **options)
    for message in queue.receive(len(ids)):
        assert isinstance(message.fail(f"cannot {message.text()}", retry=False), Dead)
    return ids


def test_a_redrive_to_its_end(door: Any, queue: Any) -> None:
    ids = died(queue, "read", "write", channel="c")
    grave = grave_of(queue)
    counted = grave.redrive(error="read", dry_run=True)
    assert (counted.state, counted.moved) == ("dry_run", 1)
    seen: list[Any] = []
    ended = grave.redrive(error="read", progress=seen.append)
    assert (ended.state, ended.moved, seen[-1], seen[0].moved) == ("done", 1, ended, 0)
    (back,) = queue.receive(5)
    assert (back.id, back.text(), back.failures) == (ids[0], "read", 0)
    assert isinstance(back.fail("again"), Retrying)
    assert door.mq.redrives(queue=grave.name)[0] == ended
    assert door.mq.redrives(1)[0].queue == grave.name


def test_a_redrive_that_is_begun_is_gone_on_with_or_cancelled(door: Any, queue: Any) -> None:
    died(queue, *"abc")
    grave = grave_of(queue)
    begun = grave.redrive_start(queue.name, per_second=1)
    assert (begun.state, begun.moved) == ("running", 0)
    first = door.mq.redrive_step(begun.id)
    assert first.moved < 3
    assert door.mq.redrive_cancel(begun.id).state == "cancelled"
    assert door.mq.redrive_resume(begun.id).moved == first.moved
    again = grave.redrive_start(queue.name)
    assert door.mq.redrive_resume(again.id).moved == 3 - first.moved


@each(
    "wrong",
    [
        {"target": "a/b"},
        {"channel": 7},
        {"per_second": 0},
        {"max_redrives": -1},
        {"died_from": "yesterday"},
        {"error": 5},
        {"dry_run": 1},
    ],
)
def test_wrong_redrives_are_refused(queue: Any, wrong: dict[str, Any]) -> None:
    with pytest.raises(UsageError):
        queue.redrive_start(**wrong)


def test_a_cursor_of_now_misses_nothing_that_happens_next(queue):
    queue.update(events="all")
    queue.send("before")
    now = queue.events_cursor()
    queue.send("after")
    (event,) = queue.events(after=now, idle_seconds=0)
    assert (event.kind, event.id) == ("created", queue.peek()[1].id)


def test_what_was_kept_can_be_read(queue):
    queue.update(history_payload=True)
    queue.send({"a": 1})
    queue.send("text")
    assert (queue.peek()[0].json(), queue.peek()[1].text()) == ({"a": 1}, "text")
    for message in queue.receive(2):
        message.ack()
    assert sorted(str(entry.payload) for entry in queue.history().entries) == [
        "b'text'",
        """b'{"a":1}'""",
    ]
    newest, oldest = sorted(queue.history().entries, key=lambda entry: -entry.id)
    assert (newest.text(), oldest.json()) == ("text", {"a": 1})
    queue.update(history_payload=False)
    queue.send(b"\xff")
    with pytest.raises(UsageError, match="UTF-8"):
        queue.peek()[0].text()
    queue.receive()[0].ack()
    with pytest.raises(UsageError, match="history_payload"):
        max(queue.history().entries, key=lambda entry: entry.id).text()


def test_a_default_policy_cannot_be_paused(queue: Any) -> None:
    with pytest.raises(UsageError, match="pause the queue"):
        queue.update(policy={"paused": True})
