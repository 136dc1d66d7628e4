"""P14: namespaces never see one another. Verb by verb, over the routes, with all that one tenant
can guess of another: names, ids, receipts, redrives, cursors.
"""

import contextlib
import dataclasses
import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

import pytest

from tests.server.yard import Answer, Yard, texts, yard
from tests.support import postgres
from turnabout import wire
from turnabout.server.auth.authorized_store import AuthorizedStore
from turnabout.server.auth.rights import Rights
from turnabout.words import verbs as v
from turnabout.words.entities import Deferral, Failure, Outgoing, Receipt
from turnabout.words.errors import UsageError
from turnabout.words.namespaces import NO_NAMESPACE
from turnabout.words.outcomes import Dead, Sent
from turnabout.words.policy import QueueSettings
from turnabout.words.records import Result
from turnabout.words.schedules import Schedule
from turnabout.words.value import replace
from turnabout.words.verbs import Verb
from turnabout.words.workers import LeasedMessage, WorkerState

SECRET = "secret-thing"
"""Stands in all that a tenant keeps: whoever else reads it has seen too much."""
MINE = WorkerState("mine", "v", 0, 1, 0, 0, (LeasedMessage(1, 1),))
SETTINGS = QueueSettings(events="all", history_payload=True, backoff_jitter=0.0)
VICTIMS = ("acme2", "Acme", "acme.eu", NO_NAMESPACE)
"""Beside `acme`: they begin alike, differ in case, or have a sign that patterns know."""


url = postgres.either_url


# --- what a tenant has ---------------------------------------------------------------------------


@dataclass(frozen=True)
class Story:
    """What one tenant has, as far as another may guess at it."""

    ids: tuple[int, ...]
    receipts: tuple[Receipt, ...]
    redrives: tuple[int, ...]
    history_cursors: tuple[str, ...]
    event_cursors: tuple[str, ...]
    due_at: int = 0

    def and_also(self, other: "Story") -> "Story":
        """What there is of both."""
        return Story(
            self.ids + other.ids,
            self.receipts + other.receipts,
            self.redrives + other.redrives,
            self.history_cursors + other.history_cursors,
            self.event_cursors + other.event_cursors,
            other.due_at,
        )


def message(**more: Any) -> Outgoing:
    return Outgoing(SECRET.encode(), channel=SECRET, headers={SECRET: SECRET}, **more)


async def live(yard: Yard, namespace: str) -> Story:
    """Something of everything, in that namespace."""
    run = AuthorizedStore(yard.context, Rights(namespace)).run
    await run(v.QueueCreate("jobs", SETTINGS))
    start = await run(v.Events("jobs"))
    many = (*[message() for _ in range(6)], message(dedup_key=SECRET), message(delay_ms=9_000))
    sent = await run(v.Send("jobs", many))
    got = (await run(v.Receive("jobs", 5))).deliveries
    first, second, third, fourth, fifth = (one.receipt for one in got)
    result = Result(SECRET.encode(), "text/plain")
    await run(v.Ack("jobs", (first, second), (result, result)))
    (dead,) = await run(v.Fail("jobs", (Failure(third, SECRET, retry=False),)))
    assert dead == Dead("jobs-dead")
    await run(v.Defer("jobs", (Deferral(fourth, 60_000, SECRET.encode()),)))
    await run(v.PolicySet("jobs", SECRET, {"max_concurrency": 9}))
    await run(v.Send("theirs", (message(),)))
    await run(v.WorkerReport("jobs", SECRET, replace(MINE, host=SECRET)))
    schedule = Schedule("nightly", "jobs", message(), every_ms=3_600_000)
    due_at = yard.clock() + 3_600_000
    await run(v.ScheduleSet(schedule, due_at))
    redrive = await run(v.RedriveStart("jobs-dead", per_second=1))
    page = await run(v.History("jobs", 1))
    assert page.cursor is not None
    receipts = (first, third, fifth, *(Receipt(id_, 1) for id_ in sent.ids))
    events = (start.cursor, (await run(v.Events("jobs"))).cursor)
    return Story(sent.ids, receipts, (redrive.id,), (page.cursor,), events, due_at)


async def all_of(yard: Yard, namespace: str, story: Story) -> list[Any]:
    """All that there is in a namespace."""
    run = AuthorizedStore(yard.context, Rights(namespace)).run
    seen: list[Any] = [
        await run(verb) for verb in (v.QueueList(), v.Stats(), v.ScheduleList(), v.RedriveList())
    ]
    for queue in ("jobs", "jobs-dead", "theirs"):
        verbs = (
            v.Peek(queue, 100),
            v.History(queue, 100),
            v.PolicyList(queue),
            v.WorkerList(queue),
        )
        seen += [await run(verb) for verb in verbs]
    seen.append(await run(v.Events("jobs", story.event_cursors[0])))
    seen.append(await run(v.Endings("jobs", story.ids)))
    return seen


async def clean(yard: Yard, namespace: str) -> None:
    """Nothing is left in a namespace."""
    run = AuthorizedStore(yard.context, Rights(namespace)).run
    for entry in await run(v.ScheduleList()):
        await run(v.ScheduleDelete(entry.schedule.name))
    while queues := await run(v.QueueList()):
        for entry in queues:
            with contextlib.suppress(UsageError):  # it is another's dead-letter queue still
                await run(v.QueueDelete(entry.name))


# --- what another may try ------------------------------------------------------------------------

Attack = Callable[[Story, str], Sequence[Verb[Any]]]


def a_schedule(queue: str) -> Schedule:
    return Schedule("nightly", queue, Outgoing(b"mine"), every_ms=1_000)


ATTACKS: Mapping[type[Verb[Any]], Attack] = {
    v.Send: lambda _, q: [
        v.Send(q, (Outgoing(b"mine"),)),
        v.Send(q, (Outgoing(b"mine", dedup_key=SECRET, dedup_mode="latest"),)),
    ],
    v.Receive: lambda _, q: [v.Receive(q, 100), v.Receive(q, 100, 1)],
    v.Ack: lambda s, q: [v.Ack(q, s.receipts)],
    v.Defer: lambda s, q: [v.Defer(q, tuple(Deferral(r, 0, b"mine") for r in s.receipts))],
    v.Fail: lambda s, q: [v.Fail(q, tuple(Failure(r, "mine", retry=False) for r in s.receipts))],
    v.Extend: lambda s, q: [v.Extend(q, s.receipts, 3_600_000)],
    v.Release: lambda s, q: [v.Release(q, s.receipts)],
    v.Cancel: lambda s, q: [v.Cancel(q, s.ids)],
    v.Retry: lambda s, q: [v.Retry(q, s.ids)],
    v.Peek: lambda _, q: [v.Peek(q, 100), v.Peek(q, 100, channel=SECRET)],
    v.Stats: lambda _, q: [v.Stats(q), v.Stats()],
    v.StatsOfChannels: lambda _, q: [v.StatsOfChannels(q, 100)],
    v.Fairness: lambda _, q: [v.Fairness(q), v.Fairness(q, find="e")],
    v.WorkerReport: lambda _, q: [v.WorkerReport(q, "mine", MINE), v.WorkerReport(q, SECRET)],
    v.WorkerList: lambda _, q: [v.WorkerList(q)],
    v.Purge: lambda _, q: [v.Purge(q), v.Purge(q, SECRET), v.Purge(q, state="leased")],
    v.Endings: lambda s, q: [v.Endings(q, s.ids)],
    v.History: lambda s, q: [
        v.History(q, 100),
        *(v.History(q, 100, cursor=cursor) for cursor in s.history_cursors),
    ],
    v.Clear: lambda _, q: [v.Clear(q, "all")],
    v.Events: lambda s, q: [v.Events(q), *(v.Events(q, one) for one in s.event_cursors)],
    v.RedriveStart: lambda _, q: [
        v.RedriveStart(q, dry_run=True),
        v.RedriveStart(q),
        v.RedriveStart("jobs", q),
        v.RedriveStart(q, "jobs-dead"),
    ],
    v.RedriveStep: lambda s, _: [v.RedriveStep(one) for one in s.redrives],
    v.RedriveCancel: lambda s, _: [v.RedriveCancel(one) for one in s.redrives],
    v.RedriveList: lambda _, q: [v.RedriveList(), v.RedriveList(q)],
    v.QueueCreate: lambda _, q: [
        v.QueueCreate(q, QueueSettings()),
        v.QueueCreate("mine", QueueSettings(dead_letter=q)),
    ],
    v.QueueGet: lambda _, q: [v.QueueGet(q)],
    v.QueueUpdate: lambda _, q: [
        v.QueueUpdate(q, {"paused": True}),
        v.QueueUpdate("own", {"dead_letter": q}),
    ],
    v.QueueList: lambda _, __: [v.QueueList()],
    v.QueueDelete: lambda _, q: [v.QueueDelete(q)],
    v.PolicySet: lambda _, q: [v.PolicySet(q, SECRET, {"paused": True})],
    v.PolicyGet: lambda _, q: [v.PolicyGet(q, SECRET)],
    v.PolicyList: lambda _, q: [v.PolicyList(q)],
    v.ChannelDelete: lambda _, q: [v.ChannelDelete(q, SECRET)],
    v.ScheduleSet: lambda s, q: [v.ScheduleSet(a_schedule(q), s.due_at)],
    v.ScheduleDelete: lambda _, q: [v.ScheduleDelete("nightly"), v.ScheduleDelete(q)],
    v.ScheduleList: lambda _, q: [
        v.ScheduleList(),
        v.ScheduleList(q),
        v.ScheduleList(due=True),
        v.ScheduleList(schedule="nightly"),
    ],
    v.ScheduleFire: lambda s, _: [v.ScheduleFire("nightly", s.due_at, s.due_at + 1)],
    v.Maintain: lambda _, q: [v.Maintain(q)],
}
ECHOED = {v.PolicySet, v.PolicyGet, v.PolicyList}
"""An answer may hold the name of the channel that was asked for."""


def test_every_verb_is_tried():
    assert list(ATTACKS) == list(v.VOCABULARY)


def unlike(story: Story, burnt: Sequence[int]) -> Story:
    """The same guesses, at what was never there or is gone."""
    count = len(story.receipts)
    ids = (tuple(burnt) * count)[: len(story.ids)]
    return dataclasses.replace(
        story,
        ids=ids,
        receipts=tuple(Receipt(burnt[place % len(burnt)], 1) for place in range(count)),
        redrives=tuple(10**6 + number for number in range(len(story.redrives))),
    )


def shape(answers: Sequence[Answer]) -> list[tuple[int, bytes]]:
    """Answers, but for numbers and the names that were asked for."""
    return [
        (a.status, re.sub(rb"\d+", b"#", a.body.replace(b"nobody", b"theirs"))) for a in answers
    ]


@pytest.mark.slow
@pytest.mark.parametrize("attacker", ["acme", NO_NAMESPACE])
async def test_nobody_sees_or_touches_what_is_another_s(url, attacker) -> None:
    async with yard(url) as there:
        victims = ("acme",) if attacker == NO_NAMESPACE else VICTIMS
        stories = {name: await live(there, name) for name in victims}
        before = {name: await all_of(there, name, stories[name]) for name in victims}
        token = await there.token(attacker)
        (burnt,) = [await burn(there)]
        guess, *more = stories.values()
        for one in more:
            guess = guess.and_also(one)
        for kind, attack in ATTACKS.items():
            told = []
            for story, queue in (
                (guess, "jobs"),
                (unlike(guess, burnt), "jobs"),
                (guess, "theirs"),
                (guess, "nobody"),
            ):
                await clean(there, attacker)
                own = AuthorizedStore(there.context, Rights(attacker)).run
                await own(v.Send("jobs", (Outgoing(b"mine"),)))
                await own(v.QueueCreate("own", SETTINGS))
                told.append([await there.run(token, verb) for verb in attack(story, queue)])
            said = texts([answer for answers in told for answer in answers])
            if kind not in ECHOED:
                assert SECRET.encode() not in said, kind
            assert not [n for n in victims if n and f"{n}/".encode() in said], kind
            assert b'"internal"' not in said, kind
            real, fake, theirs, nobody = map(shape, told)
            assert theirs == nobody, f"{kind.__name__} tells which queues others have"
            assert real == fake, f"{kind.__name__} tells which ids others have"
            for name in victims:
                now = await all_of(there, name, stories[name])
                assert now == before[name], f"{kind.__name__} changes what {name!r} has"


async def burn(yard: Yard) -> tuple[int, ...]:
    """Ids that were given out, of messages that are gone with their queue."""
    run = AuthorizedStore(yard.context, Rights("gone")).run
    sent = await run(v.Send("q", tuple(Outgoing(b"") for _ in range(20))))
    assert isinstance(sent, Sent)
    await run(v.QueueDelete("q"))
    return sent.ids


# --- names that reach out of a namespace ---------------------------------------------------------

OUTWARD = ("bob/jobs", "/jobs", "bob%2Fjobs", "../bob/jobs", "bob\\jobs", "bob//jobs", "bob/")


def outward(kind: type[Verb[Any]], story: Story) -> Iterator[tuple[str, str, bytes]]:
    """Each request of a verb in which a name stands, with others in its place."""
    for verb in ATTACKS[kind](story, "PROBE"):
        request = wire.request_of(verb)
        for name in OUTWARD:
            path = request.path.replace("PROBE", quote(name, safe=""))
            body = request.body.replace(b"PROBE", json.dumps(name).strip('"').encode())
            if (path, body) != (request.path, request.body):
                yield request.method, path, body


@pytest.mark.slow
async def test_no_name_reaches_out_of_a_namespace(url) -> None:
    async with yard(url) as there:
        story = await live(there, "bob")
        await live(there, "acme")
        before = await all_of(there, "bob", story)
        shown = ("Authorization", f"Bearer {await there.token('acme')}")
        tried = set()
        for kind in v.VOCABULARY:
            for method, path, body in outward(kind, story):
                answer = await there.ask(method, path, body, shown)
                assert answer.status in (400, 404), (method, path, body, answer)
                assert SECRET.encode() not in answer.body
                tried.add(kind)
        nameless = {v.RedriveStep, v.RedriveCancel, v.QueueList, v.ScheduleFire}
        assert tried == set(v.VOCABULARY) - nameless
        assert await all_of(there, "bob", story) == before


# --- what stays in a namespace -------------------------------------------------------------------


async def test_the_dead_and_the_scheduled_stay_in_their_namespace(url) -> None:
    async with yard(url) as there:
        token = await there.token("acme")
        schedule = Schedule("nightly", "jobs", Outgoing(b"x"), every_ms=60_000)
        due_at = there.clock() + 60_000
        await there.done(token, v.ScheduleSet(schedule, due_at))
        await there.done(await there.token("bob"), v.ScheduleSet(schedule, due_at))
        there.clock.advance(61)
        (due,) = await there.done(token, v.ScheduleList(due=True))
        assert due.schedule == schedule
        fired = await there.done(token, v.ScheduleFire("nightly", due_at, due_at + 60_000))
        (delivery,) = (await there.done(token, v.Receive("jobs", 10))).deliveries
        assert delivery.id == fired.id
        assert delivery.headers == {"schedule": "nightly", "due-at": str(due_at)}
        failure = Failure(delivery.receipt, retry=False)
        assert await there.done(token, v.Fail("jobs", (failure,))) == (Dead("jobs-dead"),)
        (dead,) = await there.done(token, v.Peek("jobs-dead"))
        (letter,) = (await there.done(token, v.Receive("jobs-dead", 1))).deliveries
        assert dead.origin.queue == letter.origin.queue == "jobs"
        await there.done(token, v.Release("jobs-dead", (letter.receipt,)))
        redrive = await there.done(token, v.RedriveStart("jobs-dead", started_by="a lie"))
        assert (redrive.queue, redrive.target) == ("jobs-dead", None)
        assert redrive.started_by.startswith("token ")
        moved = await there.done(token, v.RedriveStep(redrive.id))
        assert moved.moved == 1
        stored = await there.store.run(v.Stats(namespace="acme"))
        assert [one.queue for one in stored] == ["acme/jobs", "acme/jobs-dead"]
        assert [one.ready for one in stored] == [1, 0]


async def test_queues_that_the_owner_tied_together_are_not_told(url) -> None:
    """Who has the database may send the dead of one tenant to another; neither hears of whom."""
    async with yard(url) as there:
        await there.store.run(v.QueueCreate("bob/lost", QueueSettings(max_attempts=None)))
        tied = QueueSettings(dead_letter="bob/lost")
        await there.store.run(v.QueueCreate("acme/jobs", tied))
        acme, bob = await there.token("acme"), await there.token("bob")
        await there.done(acme, v.Send("jobs", (Outgoing(b"x"), Outgoing(b"y"))))
        taken = (await there.done(acme, v.Receive("jobs", 2))).deliveries
        failures = tuple(Failure(one.receipt, retry=False) for one in taken)
        failed = await there.run(acme, v.Fail("jobs", failures))
        answers = [
            failed,
            await there.run(acme, v.QueueGet("jobs")),
            await there.run(acme, v.QueueList()),
            await there.run(bob, v.Peek("lost")),
            await there.run(bob, v.Receive("lost", 1)),
            await there.ask(
                "POST", "/v1/queues/lost/receive", b"", ("Authorization", f"Bearer {bob}")
            ),
            await there.run(bob, v.QueueDelete("lost")),
            await there.run(bob, v.RedriveStart("lost")),
            await there.run(bob, v.RedriveList()),
        ]
        assert answers[6].code == "usage"
        assert all(b'"origin":{' in answer.body for answer in answers[4:6])
        assert b"/" not in texts(answers).replace(b"application/octet-stream", b"")
        assert b"acme" not in texts(answers)
        redrive = wire.load_answer(v.RedriveStart, answers[7].body)
        stepped = await there.done(bob, v.RedriveStep(redrive.id))
        assert (stepped.moved, stepped.skipped) == (0, 0), "both are leased"


async def test_news_of_a_queue_is_for_its_namespace(url) -> None:
    async with yard(url) as there:
        acme, bob = (
            AuthorizedStore(there.context, Rights("acme")),
            AuthorizedStore(there.context, Rights("bob")),
        )
        await acme.run(v.Send("jobs", (Outgoing(b""),)))
        await bob.run(v.Send("jobs", (Outgoing(b""),)))
        seen = await acme.signal("jobs"), await bob.signal("jobs")
        await bob.run(v.Send("jobs", (Outgoing(b""),)))
        await bob.wait("jobs", seen[1], 10)
        assert await bob.signal("jobs") != seen[1]
        assert await acme.signal("jobs") == seen[0]


async def test_the_other_doors_keep_them_apart(url) -> None:
    """Their verbs name a message by its id alone, and the queues have the same name."""
    async with yard(url) as there:
        shown = {
            name: ("Authorization", f"Bearer {await there.token(name)}") for name in ("acme", "bob")
        }

        async def ask(who: str, line: str, body: bytes = b"") -> Answer:
            return await there.ask(*line.split(), body, shown[who])

        for who in shown:
            made = "POST /queues?name=jobs&max_attempts=3&visibility_timeout_seconds=30"
            assert (await ask(who, made)).status == 200
        secret = json.dumps(SECRET).encode()
        for _ in range(2):
            await ask("bob", "POST /queues/jobs/enqueue", secret)
        theirs = json.loads((await ask("bob", "GET /queues/jobs/receive")).body)["id"]
        hexed = json.loads((await ask("bob", "POST /queue/jobs/pop")).body)["_id"]
        before = await there.store.run(v.Peek("bob/jobs", 10))
        assert [one.state for one in before] == ["leased", "leased"]
        there.clock.advance(1)
        ids = json.dumps([hexed]).encode()
        answers = [
            await ask("acme", f"PUT /messages/{theirs}/complete"),
            await ask("acme", f"PUT /messages/{theirs}/fail"),
            await ask("acme", "POST /queue/jobs/ack", ids),
            await ask("acme", "POST /queue/jobs/ping", ids),
            await ask("acme", "GET /queues/jobs/receive"),
            await ask("acme", "POST /queue/jobs/pop"),
            await ask("acme", "GET /queue/jobs/peek"),
            await ask("acme", "GET /queue/jobs/size"),
            await ask("acme", "GET /queues"),
        ]
        assert SECRET.encode() not in texts(answers)
        assert b"bob" not in texts(answers)
        assert all(answer.status < 500 for answer in answers), answers
        assert await there.store.run(v.Peek("bob/jobs", 10)) == before
        for who in ("bob", "acme"):  # and it is no accident that nothing happened
            await ask(who, f"PUT /messages/{theirs}/complete")
            await ask(who, "POST /queue/jobs/ack", ids)
            left = await there.store.run(v.Peek("bob/jobs", 10))
            assert left == (), who


async def test_what_stands_beside_the_verbs_keeps_them_apart(url) -> None:
    async with yard(url) as there:
        story = await live(there, "bob")
        shown = ("Authorization", f"Bearer {await there.token('acme')}")
        before = await all_of(there, "bob", story)
        batch = {"verbs": [{"verb": "purge", "queue": "theirs"}, {"verb": "stats"}]}
        inward = {"verbs": [{"verb": "purge", "queue": "bob/jobs"}]}
        answers = [
            await there.ask("POST", "/v1/queues/theirs/send", b"mine", shown),
            await there.ask("POST", "/v1/transaction", json.dumps(batch).encode(), shown),
            await there.ask("POST", "/v1/transaction", json.dumps(inward).encode(), shown),
            await there.ask("GET", "/v1/queues/theirs/signal", b"", shown),
        ]
        assert [a.status for a in answers] == [200, 200, 400, 200], answers
        assert SECRET.encode() not in texts(answers)
        assert await all_of(there, "bob", story) == before
