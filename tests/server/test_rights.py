"""What a token may do: scopes by verb and queue."""

import asyncio
from typing import Any, cast

import pytest

from tests.server.yard import Yard, there
from tests.support.each import each
from turnabout import wire
from turnabout.server import ServerOptions
from turnabout.server.auth.authenticator import Authenticator
from turnabout.server.auth.authorized_store import AuthorizedStore
from turnabout.server.auth.rights import Rights
from turnabout.server.tenants.admission import Admission
from turnabout.server.verbs import Scope, Token, scopes
from turnabout.store import AsyncStore
from turnabout.words import verbs as v
from turnabout.words.entities import Outgoing
from turnabout.words.errors import Forbidden, UsageError
from turnabout.words.outcomes import NotDue, Received
from turnabout.words.policy import QueueSettings
from turnabout.words.schedules import Schedule, ScheduleEntry
from turnabout.words.verbs import KINDS, Verb


def token(*texts: str, namespace: str = "acme") -> Token:
    return Token("a" * 12, namespace, "", scopes(texts), 0)


SCHEDULE = Schedule("nightly", "jobs", Outgoing(b""), every_ms=1_000)


def at(kind: type[Verb[Any]], queue: str) -> Verb[Any]:
    """A verb at a queue; or the one that there is."""
    given: dict[str, Any] = {
        "messages": (), "max_messages": 1, "receipts": (), "deferrals": (), "failures": (),
        "ids": (), "which": "all", "id": 1, "settings": QueueSettings(), "changes": {},
        "channel": "", "worker": "w", "next_at": None, "due_at": 1,
        "schedule": Schedule("nightly", queue, Outgoing(b""), every_ms=1_000)
        if kind is v.ScheduleSet else "nightly",
    }  # fmt: skip
    if kind is v.ScheduleList:
        return v.ScheduleList(queue)
    names = [f for f in kind.__struct_fields__ if f in given]
    if "queue" in kind.__struct_fields__:
        given["queue"] = queue
        names.insert(0, "queue")
    if kind in (v.Peek, v.Purge, v.StatsOfChannels):
        names = ["queue"]
    return kind(**{name: given[name] for name in names})


class Said:
    """Services whose store says what it was asked."""

    def __init__(self) -> None:
        self.batched = self.store = self.long_poll = self
        self.admission = Admission(ServerOptions())
        self.authenticator = Authenticator(cast("AsyncStore", self), ServerOptions())
        self.asked: list[Verb[Any]] = []

    async def run(self, verb: Verb[Any]) -> Any:
        self.asked.append(verb)
        if isinstance(verb, v.ScheduleList):
            kept = Schedule("acme/nightly", "acme/jobs", Outgoing(b""), every_ms=1_000)
            return (ScheduleEntry(kept, 1, None, None, 0, 1),)
        return ()

    async def run_transaction(self, verbs: Any, *, all_or_none: bool = False) -> list[Any]:
        return [await self.run(verb) for verb in verbs]

    async def receive(self, verb: Any, *_: Any) -> Any:
        self.asked.append(verb)
        return Received(())

    async def signal(self, queue: str, _: Any) -> int:
        self.asked.append(v.Maintain(queue))
        return 1


def may(kind: type[Verb[Any]], verb: Verb[Any], *texts: str) -> bool:
    """Whether a token with these scopes gets the verb through to the store."""
    context = Said()
    caller = AuthorizedStore(context, Rights("acme", token(*texts)))  # pyright: ignore[reportArgumentType]
    try:
        answer = asyncio.run(caller.run(verb))
    except Forbidden:
        return False
    if answer in (NotDue(), None) or (kind is v.ScheduleList and not context.asked):
        return any(type(one) is kind for one in context.asked)
    return True


@pytest.mark.slow
@each("words", [*KINDS, "peek", "schedule_fire"])
@each("kind", v.VOCABULARY)
def test_a_scope_allows_its_verbs_at_its_queues_and_nothing_else(words, kind):
    allowed = kind in KINDS.get(words, ()) or kind.name == words
    if kind is v.Maintain:
        allowed = words in ("consume", "operate")
    if kind is v.QueueList:
        assert may(kind, at(kind, ""), f"{words}:*") == allowed
        return
    by_id = kind in (v.RedriveStep, v.RedriveCancel)
    assert may(kind, at(kind, "jobs"), f"{words}:*") == allowed
    assert may(kind, at(kind, "jobs"), f"{words}:jo*") == (allowed and not by_id)
    assert may(kind, at(kind, "jobs"), f"{words}:jobs") == (allowed and not by_id)
    others = (f"{words}:job", f"{words}:JOBS", f"{words}:jobs-dead", f"{words}:acme.jobs")
    assert not may(kind, at(kind, "jobs"), *others)


@each(
    "verb",
    [
        v.RedriveStart("jobs", "vault"),
        v.QueueCreate("jobs", QueueSettings(dead_letter="vault")),
        v.QueueUpdate("jobs", {"dead_letter": "vault"}),
    ],
)
def test_who_sends_on_to_another_queue_must_be_allowed_to_send_there(verb):
    kind = type(verb)
    assert not may(kind, verb, "operate:jobs")
    assert not may(kind, verb, "operate:jobs", "consume:vault")
    assert may(kind, verb, "operate:jobs", "produce:vault")
    assert not may(kind, verb, "produce:vault")


def test_a_schedule_is_not_taken_from_a_queue_without_a_right_there():
    """It is at `jobs` now."""
    moved = v.ScheduleSet(Schedule("nightly", "mine", Outgoing(b""), every_ms=1_000), None)
    assert not may(v.ScheduleSet, moved, "operate:mine")
    assert may(v.ScheduleSet, moved, "operate:mine", "operate:jobs")


@there()
async def test_lists_show_what_the_scopes_name(one: Yard) -> None:
    all_ = await one.token("acme")
    for queue in ("jobs", "reports", "mail"):
        await one.done(all_, v.Send(queue, (Outgoing(b""),)))
        schedule = Schedule(queue, queue, Outgoing(b""), every_ms=1_000)
        await one.done(all_, v.ScheduleSet(schedule, one.clock()))
        for _ in range(3):
            await one.done(all_, v.RedriveStart(f"{queue}-dead", dry_run=True))
    some = await one.token("acme", "operate:jobs*", "stats:mail", "queue_list:rep*")
    queues = await one.done(some, v.QueueList())
    assert [q.name for q in queues] == ["jobs", "jobs-dead", "reports", "reports-dead"]
    stats = await one.done(some, v.Stats())
    assert [s.queue for s in stats] == ["jobs", "jobs-dead", "mail"]
    for verb in (v.ScheduleList(), v.ScheduleList(due=True)):
        assert [e.schedule.name for e in await one.done(some, verb)] == ["jobs"]
    assert await one.done(some, v.ScheduleList(schedule="mail")) == ()
    redrives = await one.done(some, v.RedriveList(limit=2))
    assert [r.queue for r in redrives] == ["jobs-dead", "jobs-dead"]
    none = await one.token("acme", "produce")
    assert (await one.run(none, v.QueueList())).status == 403
    assert await one.done(none, v.ScheduleList(due=True)) == ()


@there()
async def test_a_producer_makes_a_queue_by_its_first_send(one: Yard) -> None:
    producer = await one.token("acme", "produce:jobs")
    await one.done(producer, v.Send("jobs", (Outgoing(b""),)))
    for verb in (
        v.Send("mail", (Outgoing(b""),)),
        v.Receive("jobs", 1),
        v.QueueCreate("jobs", QueueSettings()),
    ):
        answer = await one.run(producer, verb)
        assert (answer.status, answer.code) == (403, "forbidden")
        assert verb.name in wire.load_error(answer.status, answer.body).args[0]


def test_a_batch_is_allowed_verb_by_verb():
    context = Said()
    caller = AuthorizedStore(context, Rights("acme", token("send:jobs", "receive:jobs")))  # pyright: ignore[reportArgumentType]
    send = v.Send("jobs", (Outgoing(b""),))
    with pytest.raises(Forbidden, match="send:mail"):
        asyncio.run(caller.run_transaction([send, v.Send("mail", ())]))
    assert context.asked == []
    fire = v.ScheduleFire("nightly", 1, 2)
    answers = asyncio.run(caller.run_transaction([fire, send, v.Maintain("mail")]))
    assert answers == [NotDue(), (), None]
    assert context.asked == [v.Send("acme/jobs", send.messages)]


def test_to_receive_and_to_hear_of_news_there_has_to_be_a_right():
    context = Said()
    caller = AuthorizedStore(context, Rights("acme", token("receive:jobs", "peek:mail")))  # pyright: ignore[reportArgumentType]

    async def still_here() -> bool:
        return False

    async def main() -> None:
        await caller.receive(v.Receive("jobs", 1), 1.0, still_here)
        await caller.signal("jobs")
        await caller.signal("mail")
        for refused in (
            caller.receive(v.Receive("mail", 1), 1.0, still_here),
            caller.signal("other"),
            caller.wait("other", 1, 1.0),
        ):
            with pytest.raises(Forbidden):
                await refused
        for wrong in (caller.signal("bob/jobs"), caller.wait("bob/jobs", 1, 1.0)):
            with pytest.raises(UsageError):
                await wrong

    asyncio.run(main())
    assert context.asked == [
        v.Receive("acme/jobs", 1),
        v.Maintain("acme/jobs"),
        v.Maintain("acme/mail"),
    ]


def test_what_rights_keep_in_mind_is_bounded():
    rights = Rights("acme", token("send:jobs"))
    for number in range(5_000):
        assert not rights.allows(v.Send, f"q{number}")
    assert len(rights._known) <= 1_024
    assert not rights.allows(v.Send, "x" * 5_000_000)
    assert all(len(queue or "") < 200 for _, queue in rights._known)
    assert rights.allows(v.Send, "jobs")


def test_whoever_needs_no_token_may_do_everything():
    assert all(Rights().allows(kind, "any") for kind in v.VOCABULARY)
    assert not any(Rights("acme", token()).allows(kind, "any") for kind in v.VOCABULARY)
    assert Scope.parse("operate").allows(v.Send, None)
