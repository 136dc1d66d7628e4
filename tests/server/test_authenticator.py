"""Who comes in, and what a token may do there."""

import asyncio
import base64
import logging
from collections.abc import Callable
from typing import Any

import pytest
from starlette.requests import Request

from tests.server.yard import Yard, there
from turnabout.server.auth.authenticator import (
    CACHED_MAX,
    FOUND_SECONDS,
    UNKNOWN_PER_CLIENT,
    UNKNOWN_PER_SECOND,
    UNKNOWN_SECONDS,
    _keep,
    first_token,
)
from turnabout.server.auth.authorized_store import AuthorizedStore
from turnabout.server.auth.rights import Rights
from turnabout.server.verbs import TokenFind, TokenRevoke, Verb, new_token, token_text
from turnabout.words import verbs as v
from turnabout.words.entities import Outgoing
from turnabout.words.errors import Disconnected
from turnabout.words.policy import QueueSettings

LIST = ("GET", "/v1/queues", b"")


class Counting:
    """A store that notes which verbs it is asked for, and may be out of reach."""

    def __init__(self, store: Any) -> None:
        self.store = store
        self.asked: list[type[Verb[Any]]] = []
        self.is_gone = False

    async def run(self, verb: Any) -> Any:
        self.asked.append(type(verb))
        await asyncio.sleep(0)
        if self.is_gone:
            raise Disconnected("cannot reach it")
        return await self.store.run(verb)


def bearer(text: str) -> tuple[str, str]:
    return ("Authorization", f"Bearer {text}")


def basic(user: str, password: str) -> tuple[str, str]:
    return ("Authorization", "Basic " + base64.b64encode(f"{user}:{password}".encode()).decode())


# --- without tokens ------------------------------------------------------------------------------


@there()
async def test_a_request_shows_a_token_wherever_it_comes_from(one: Yard) -> None:
    for client in (("127.0.0.1", 1), ("192.0.2.7", 1), None):
        answer = await one.ask(*LIST, client=client)
        assert (answer.status, answer.code) == (401, "unauthorized")
        assert answer.headers["www-authenticate"] == "Bearer"


@there()
async def test_the_first_token_may_do_everything_and_there_is_one_of_it(one: Yard) -> None:
    text = await first_token(one.store)
    assert text is not None
    await one.done(text, v.Send("mine", (Outgoing(b""),)))
    assert [entry.name for entry in await one.store.run(v.QueueList())] == ["mine", "mine-dead"]
    assert (await one.ask("GET", "/metrics", b"", bearer(text))).status == 200
    assert await first_token(one.store) is None
    await one.store.run(TokenRevoke(text.split("_")[1]))
    assert await first_token(one.store) is None, "a server that had tokens stays closed"


@there()
async def test_a_database_out_of_reach_opens_no_door(one: Yard) -> None:
    store = one.context.authenticator.store = Counting(one.store)
    store.is_gone = True
    assert (await one.ask(*LIST)).status == 401
    assert (await one.ask(*LIST, bearer(token_text("a" * 12, "x")))).status == 503


def _request(*headers: tuple[str, str]) -> Any:
    told = [(name.lower().encode(), text.encode()) for name, text in headers]
    return Request({"type": "http", "headers": told, "client": ("127.0.0.1", 1)})


@there(auth="none")
async def test_auth_none_serves_this_machine_and_believes_who_shows_a_token(one: Yard) -> None:
    for client in (("127.0.0.1", 1), ("::1", 1), ("::ffff:127.0.0.1", 1), None):
        assert (await one.ask(*LIST, client=client)).status == 200
    for client in (("192.0.2.7", 1), ("2001:db8::1", 1), ("::ffff:192.0.2.7", 1)):
        assert (await one.ask(*LIST, client=client)).status == 401
    token = await one.token("acme")
    assert (await one.ask(*LIST)).status == 200
    await one.done(token, v.Send("mine", (Outgoing(b""),)))
    assert b"mine" not in (await one.ask(*LIST)).body
    assert (await one.ask(*LIST, bearer(token + "x"))).status == 401


# --- with tokens ---------------------------------------------------------------------------------


@there()
async def test_a_token_opens_its_namespace(one: Yard) -> None:
    acme, bob = await one.token("acme"), await one.token("bob")
    await one.done(acme, v.Send("jobs", (Outgoing(b""),)))
    for shown in (bearer(acme), basic("", acme), basic("anybody", acme)):
        assert b'"jobs"' in (await one.ask(*LIST, shown)).body
    lower = ("authorization", f"bearer {acme}")
    assert b'"jobs"' in (await one.ask(*LIST, lower)).body
    assert await one.done(bob, v.QueueList()) == ()


@there()
async def test_what_is_no_good_token_is_refused_alike(one: Yard) -> None:
    good = await one.token("acme")
    ended = await one.token("acme", lifetime_ms=1_000)
    revoked = await one.token("acme")
    await one.store.run(TokenRevoke(one.tokens[revoked].id))
    one.clock.advance(1)
    prefix, token_id, secret = good.split("_", 2)
    head = f"{prefix}_{token_id}"
    shown = [
        bearer(ended),
        bearer(revoked),
        bearer(f"{head}_{secret[:-1]}"),
        bearer(f"{head}_{secret}x"),
        bearer(f"{head}_"),
        bearer(head),
        bearer(token_text("a" * 12, secret)),
        bearer(good.upper()),
        bearer("é" * 50),
        bearer(""),
        basic(good, ""),
        basic(good, "x"),
        ("Authorization", "Basic !!!"),
        ("Authorization", good),
        ("Authorization", f"Digest {good}"),
        ("Cookie", f"Authorization=Bearer {good}"),
        ("X-Api-Key", good),
    ]
    answers = [await one.ask(*LIST, header) for header in shown]
    answers.append(await one.ask("GET", f"/v1/queues?token={good}"))
    answers.append(await one.ask("GET", f"/v1/queues?access_token={good}"))
    answers.append(await one.ask(*LIST, bearer(good), bearer(good)))
    assert {a.status for a in answers} == {401}
    assert {a.headers["www-authenticate"] for a in answers} == {"Bearer"}
    assert len({a.body for a in answers}) == 1
    assert (await one.ask(*LIST, bearer(good))).status == 200


@there()
async def test_a_found_token_is_believed_for_a_while(one: Yard) -> None:
    store = one.context.authenticator.store = Counting(one.store)
    text = await one.token("acme")
    await asyncio.gather(*[one.ask(*LIST, bearer(text)) for _ in range(20)])
    await one.ask(*LIST, basic("x", text))
    assert store.asked == [TokenFind]
    await one.store.run(TokenRevoke(one.tokens[text].id))
    one.seconds.now += FOUND_SECONDS - 0.1
    assert (await one.ask(*LIST, bearer(text))).status == 200
    one.seconds.now += 0.1
    assert (await one.ask(*LIST, bearer(text))).status == 401
    assert (await one.ask(*LIST, basic("x", text))).status == 401


@there()
async def test_a_token_ends_at_its_time_though_it_was_found(one: Yard) -> None:
    text = await one.token("acme", lifetime_ms=2_000)
    assert (await one.ask(*LIST, bearer(text))).status == 200
    one.clock.advance(2)
    one.seconds.now += 2
    assert (await one.ask(*LIST, bearer(text))).status == 401


@there()
async def test_an_unknown_id_is_looked_for_once_a_second(one: Yard) -> None:
    store = one.context.authenticator.store = Counting(one.store)
    text = token_text("a" * 12, "x" * 43)
    for _ in range(5):
        await asyncio.gather(*[one.ask(*LIST, bearer(text)) for _ in range(5)])
    assert store.asked == [TokenFind]
    one.seconds.now += UNKNOWN_SECONDS
    await one.ask(*LIST, bearer(text))
    assert store.asked == [TokenFind] * 2


@there()
async def test_strangers_cost_few_looks_and_keep_nobody_out(one: Yard) -> None:
    text = await one.token("acme")
    assert (await one.ask(*LIST, bearer(text))).status == 200
    one.seconds.now += FOUND_SECONDS
    store = one.context.authenticator.store = Counting(one.store)
    made_up = [token_text(*new_token()[:2]) for _ in range(UNKNOWN_PER_SECOND + 20)]
    few = UNKNOWN_PER_CLIENT
    answers = [await one.ask(*LIST, bearer(each)) for each in made_up[: few + 5]]
    assert [each.status for each in answers] == [401] * few + [429] * 5
    elsewhere = ("192.0.2.7", 50_000)
    answers = [await one.ask(*LIST, bearer(each), client=elsewhere) for each in made_up[few:]]
    assert [each.status for each in answers] == [401] * few + [429] * 20
    assert "retry-after" in answers[-1].headers
    assert len(store.asked) == UNKNOWN_PER_SECOND
    assert (await one.ask(*LIST, bearer(text))).status == 200
    newer = await one.token("acme")
    one.seconds.now += 1
    for _ in range(UNKNOWN_PER_SECOND + 20):  # a token that is found is no stranger
        one.context.authenticator._known.clear()
        one.context.authenticator._seen.clear()
        assert (await one.ask(*LIST, bearer(newer))).status == 200


@there()
async def test_a_wrong_secret_throws_nobody_out(one: Yard) -> None:
    text = await one.token("acme")
    for _ in range(3):
        assert (await one.ask(*LIST, bearer(text[:-2]))).status == 401
        assert (await one.ask(*LIST, bearer(text))).status == 200
        one.seconds.now += UNKNOWN_SECONDS


def test_what_is_kept_in_mind_is_bounded():
    cache: dict[int, int] = {}
    for number in range(CACHED_MAX + 50):
        _keep(cache, number, number)
    assert len(cache) == CACHED_MAX
    assert 49 not in cache
    assert CACHED_MAX + 49 in cache


@there()
async def test_no_secret_is_kept_or_told(one: Yard, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    text = await one.token("acme", "produce:jobs")
    secret = text.split("_", 2)[2]
    wrong = f"{text[:-1]}~"
    answers = [
        await one.ask(*LIST, bearer(text)),
        await one.ask(*LIST, bearer(wrong)),
        await one.ask("GET", f"/v1/queues?token={text}", b"", basic("x", text)),
        await one.ask("POST", "/v1/queues/jobs/receive", b"{", bearer(text)),
    ]
    assert answers[0].status == 403
    caller = await one.context.caller(_request(bearer(text)))
    authenticator = one.context.authenticator
    told = [repr(caller), repr(caller.rights), repr(caller.token), repr(authenticator), caplog.text]
    told += [repr(a.headers) for a in answers] + [repr(a.body) for a in answers]
    told.append(repr({n: getattr(authenticator, n) for n in ("_seen", "_known", "_unknown")}))
    told += [
        repr(vars(authenticator)),
        *map(repr, [(k.digest, k.until) for k in authenticator._known.values()]),
    ]
    for one_text in told:
        assert secret[:20] not in one_text


async def until(true: Callable[[], bool]) -> None:
    """Until something has come so far, for five seconds at most."""
    for _ in range(5_000):
        if true():
            return
        await asyncio.sleep(0.001)
    raise AssertionError("it does not come so far")


@pytest.mark.parametrize(
    ("method", "target", "body"),
    [
        ("POST", "/v1/queues/jobs/receive", b'{"wait_seconds": 20}'),
        ("GET", "/v1/queues/jobs/events?cursor={cursor}&wait_seconds=20", b""),
        ("POST", "/v1/queues/jobs/endings", b'{"ids": [1], "wait_seconds": 20}'),
    ],
)
@there()
async def test_who_waits_is_told_nothing_when_the_token_has_ended(
    one: Yard, method: str, target: str, body: bytes
) -> None:
    text = await one.token("acme")
    await one.done(text, v.QueueCreate("jobs", QueueSettings(events="all")))
    cursor = (await one.done(text, v.Events("jobs"))).cursor
    path = target.replace("{cursor}", cursor)
    waits = asyncio.ensure_future(one.ask(method, path, body, bearer(text)))
    await until(lambda: one.context.admission.waiting == 1)
    await one.store.run(TokenRevoke(one.tokens[text].id))
    one.seconds.now += FOUND_SECONDS
    (sent,) = (await one.store.run(v.Send("acme/jobs", (Outgoing(b""),)))).ids
    if "endings" in target:
        await one.store.run(v.Cancel("acme/jobs", (sent,)))
    assert (await asyncio.wait_for(waits, 5)).status == 401
    if "receive" in target:
        await until(lambda: not one.context.long_poll._tasks)
        assert (await one.store.run(v.Receive("acme/jobs", 1, 1_000))).deliveries


@there()
async def test_the_end_of_the_server_ends_a_wait(one: Yard) -> None:
    caller = AuthorizedStore(one.context, Rights("acme"))
    seen = await caller.signal("jobs")
    waits = [asyncio.ensure_future(caller.wait("jobs", seen, 60)) for _ in range(3)]
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    one.context.lifecycle.close()
    await asyncio.wait_for(asyncio.gather(*waits), 5)
    await asyncio.wait_for(caller.wait("jobs", seen, 60), 5)
