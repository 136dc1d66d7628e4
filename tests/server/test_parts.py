"""Lists come in parts that are bounded, by number and by bytes, and each says where to go on."""

import gzip
import json
from typing import Any

import pytest

import turnabout
from tests.server.running import running
from tests.server.yard import Yard, ticking
from tests.support import postgres
from tests.support.each import each
from turnabout.server.auth import parts
from turnabout.words import verbs as v
from turnabout.words.entities import Outgoing
from turnabout.words.policy import QueueSettings
from turnabout.words.records import Result
from turnabout.words.schedules import Schedule

ROOM = 1_000
LARGE, SMALL = b"x" * 400, b"x"

url = postgres.either_url


@pytest.fixture(autouse=True)
def narrow(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parts, "ITEMS_MAX", 3)
    monkeypatch.setattr(parts, "ANSWER_BYTES", ROOM)


async def in_parts(one: Yard, token: str, target: str, **body: Any) -> tuple[list[Any], list[int]]:
    """All items of a list, and how many each answer had."""
    items: list[Any] = []
    sizes: list[int] = []
    place = ""
    shown = ("Authorization", f"Bearer {token}")
    while True:
        if body:
            sent = json.dumps({"ids": body["ids"][len(items) :]}).encode()
            answer = await one.ask("POST", target, sent, shown)
        else:
            answer = await one.ask("GET", target + place, b"", shown)
        said = json.loads(answer.body)
        assert answer.status == 200, said
        items += said["items"]
        sizes.append(len(said["items"]))
        if "next" not in said:
            return items, sizes
        name = "after_id" if "messages" in target else "after"
        place = f"{'&' if '?' in target else '?'}{name}={said['next']}"


async def test_lists_by_name_are_given_in_parts(url):
    async with ticking(url) as one:
        token, few = await one.token("acme"), await one.token("acme", "consume:q4")
        await one.token("bob")
        for i in range(5):
            await one.done(token, v.QueueCreate(f"q{i}", QueueSettings(dead_letter="lost")))
            await one.done(token, v.PolicySet("q0", f"c{i}", {"weight": 2}))
        queues, sizes = await in_parts(one, token, "/v1/queues")
        assert [entry["name"] for entry in queues] == ["lost", "q0", "q1", "q2", "q3", "q4"]
        assert sizes == [3, 3, 0]
        stats, sizes = await in_parts(one, token, "/v1/stats?limit=2")
        assert len(stats) == 6
        assert sizes == [2, 2, 2, 0]
        policies, sizes = await in_parts(one, token, "/v1/queues/q0/policies")
        assert [p["channel"] for p in policies] == [f"c{i}" for i in range(5)]
        assert sizes == [3, 2]
        # Who may see one queue only is told of no other, not even as the place to go on.
        stats, sizes = await in_parts(one, few, "/v1/stats")
        assert [entry["queue"] for entry in stats] == ["q4"]
        assert sizes == [1, 0]


async def test_what_is_large_comes_in_small_parts(url):
    async with ticking(url) as one:
        token = await one.token("acme")
        kept = QueueSettings(history_payload=True)
        await one.done(token, v.QueueCreate("q", kept))
        sent = await one.done(token, v.Send("q", tuple([Outgoing(LARGE)] * 7)))
        seen, sizes = await in_parts(one, token, "/v1/queues/q/messages?limit=1000")
        assert [m["id"] for m in seen] == list(sent.ids)
        assert sizes == [3, 3, 1]
        for state, those in (("ready", 7), ("scheduled", 0)):
            some, _ = await in_parts(one, token, f"/v1/queues/q/messages?state={state}&limit=1000")
            assert len(some) == those

        got = (await one.done(token, v.Receive("q", 5))).deliveries
        results = tuple(Result(LARGE, "text/plain") for _ in got)
        await one.done(token, v.Ack("q", tuple(d.receipt for d in got), results))
        endings, sizes = await in_parts(one, token, "/v1/queues/q/endings", ids=list(sent.ids))
        assert [e and e["id"] for e in endings] == [*sent.ids[:5], None, None]
        assert sizes == [3, 4]
        pages: list[list[int]] = []
        cursor = None
        while not pages or cursor is not None:
            page = await one.done(token, v.History("q", 100, cursor=cursor))
            pages.append([entry.id for entry in page.entries])
            cursor = page.cursor
        assert [len(page) for page in pages] == [2, 2, 1]
        assert [id_ for page in pages for id_ in page] == list(sent.ids[4::-1])

        for i, payload in enumerate((LARGE, LARGE, LARGE, SMALL)):
            schedule = Schedule(f"s{i}", "q", Outgoing(payload), every_ms=1_000)
            await one.done(token, v.ScheduleSet(schedule, None))
        schedules, sizes = await in_parts(one, token, "/v1/schedules")
        assert [s["schedule"]["name"] for s in schedules] == ["s0", "s1", "s2", "s3"]
        assert sizes == [3, 1]


async def test_what_is_due_comes_in_turn_by_namespace(url):
    async with ticking(url) as one:
        for name, times in (("acme/a", (1, 4)), ("acme/b", (2, 3)), ("bob/a", (6, 7)), ("c", (5,))):
            for at in times:
                schedule = Schedule(f"{name}{at}", name, Outgoing(SMALL), at=at)
                await one.store.run(v.ScheduleSet(schedule, at))
        found = await one.store.run(v.ScheduleList(due=True))
        names = [entry.schedule.name for entry in found]
        assert names == ["acme/a1", "c5", "bob/a6", "acme/b2", "bob/a7", "acme/b3", "acme/a4"]
        few = await one.store.run(v.ScheduleList(due=True, limit=3))
        assert few == found[:3]


def test_our_own_client_puts_the_parts_together():
    with running() as server, turnabout.connect(server.url) as acme:
        queue = acme.queue("q")
        for i in range(4):
            acme.queue(f"q{i}").create()
        sent = queue.send_many([turnabout.message(LARGE)] * 5)
        assert len(acme.queues()) == len(acme.stats()) == 10
        assert [m.id for m in queue.peek(limit=4)] == list(sent.ids[:4])
        assert [m.id for m in queue.peek(limit=100)] == list(sent.ids)
        got = queue.receive(max_messages=5)
        queue.ack([m.receipt for m in got], results=[LARGE] * 5)
        assert [e.id for e in queue.wait(sent.ids, timeout_seconds=0) if e] == list(sent.ids)


@each(
    ("accepted", "is_pressed"),
    [
        ("gzip, deflate, br", True),
        ("br;q=1.0, GZIP;q=0.5", True),
        ("gzip;q=0, identity", False),
        ("identity", False),
    ],
)
async def test_long_answers_are_pressed_for_those_who_take_it(accepted: str, is_pressed: bool):
    async with ticking() as one:
        token = await one.token("acme")
        asked = (("Authorization", f"Bearer {token}"), ("Accept-Encoding", accepted))
        for i in range(3):
            await one.done(token, v.QueueCreate(f"q{i}", QueueSettings()))
        plain = await one.ask("GET", "/v1/queues", b"", asked[0])
        answer = await one.ask("GET", "/v1/queues", b"", *asked)
        assert ("content-encoding" in answer.headers) == is_pressed
        assert int(answer.headers["content-length"]) == len(answer.body)
        assert (gzip.decompress(answer.body) if is_pressed else answer.body) == plain.body
        assert not is_pressed or len(answer.body) < len(plain.body) / 2
        short = await one.ask("GET", "/v1/queues/q0/messages", b"", *asked)
        assert short.body == b'{"items":[]}'
        assert "content-encoding" not in short.headers
