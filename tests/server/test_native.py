"""Our own door over a real socket: what HTTP has beside the verbs."""

import json
import threading
from collections.abc import Iterator
from typing import Any
from urllib.parse import quote

import pytest

from tests.server.running import Client, Running, running
from tests.support.each import each
from tests.support.until import until
from tests.wire.test_strict import WRONG_BODIES
from turnabout import wire
from turnabout.server import ServerOptions
from turnabout.wire.routes import ROUTE_OF
from turnabout.words import verbs as v
from turnabout.words.entities import Outgoing, Receipt
from turnabout.words.policy import QueueSettings


@pytest.fixture(scope="module")
def server() -> Iterator[Running]:
    with running(
        ServerOptions(auth="none", port=0, max_messages=50, max_payload_bytes=1_000)
    ) as made:
        yield made


@pytest.fixture
def wide() -> Iterator[Running]:
    """A server that takes what the wire takes."""
    with running(ServerOptions(auth="none", port=0, max_messages=10_000)) as made:
        yield made


class Ask:
    """Requests for one queue, in JSON."""

    def __init__(self, server: Running, queue: str) -> None:
        self.server = server
        self.path = f"/v1/queues/{queue}"
        self.queue = queue

    def raw(self, method: str, path: str, body: bytes = b"", *headers: str) -> tuple[int, Any]:
        answer = self.server.ask(request(method, path, body, *headers))
        return answer.status, json.loads(answer.body)

    def post(self, verb: str, said: Any = None, *headers: str) -> Any:
        body = b"" if said is None else json.dumps(said).encode()
        return self.raw("POST", f"{self.path}/{verb}", body, *headers)

    def get(self, rest: str = "") -> Any:
        return self.raw("GET", self.path + rest)

    def create(self, **settings: Any) -> None:
        said = {"queue": self.queue, "settings": settings}
        assert self.raw("POST", "/v1/queues", json.dumps(said).encode())[0] == 200

    def send(self, *texts: str, **fields: Any) -> list[int]:
        messages = [{"payload": {"text": text}, **fields} for text in texts]
        status, said = self.post("messages", {"messages": messages})
        assert status == 200
        return said["ids"]


def request(method: str, path: str, body: bytes = b"", *headers: str) -> bytes:
    head = [f"{method} {path} HTTP/1.1", "Host: localhost", f"Content-Length: {len(body)}"]
    return "\r\n".join([*head, *headers, "", ""]).encode() + body


@pytest.fixture
def ask(server: Running, request: pytest.FixtureRequest) -> Ask:
    return Ask(server, f"q{abs(hash(request.node.nodeid)) % 10**12}")


# --- verbs ---------------------------------------------------------------------------------------


def test_from_send_to_the_end(ask: Ask) -> None:
    (one,) = ask.send("hello", channel="ada")
    status, said = ask.post("receive", {"lease_seconds": 60})
    assert status == 200
    (delivery,) = said["deliveries"]
    assert delivery["payload"] == {"text": "hello"}
    assert delivery["receipt"] == f"{one}.1"
    assert ask.post("ack", {"receipts": [delivery["receipt"]]}) == (
        200,
        {"items": [{"outcome": "acked"}]},
    )
    status, said = ask.post("endings", {"ids": [one]})
    assert said["items"][0]["outcome"] == "done"


@pytest.mark.slow
@each("kind", v.VOCABULARY)
def test_every_verb_has_an_answer(ask: Ask, kind: Any) -> None:
    """At its route, one that can be read as the verb's answer, or an error of ours."""
    ask.send("a")
    verb = SOME[kind](ask.queue) if kind in SOME else kind(ask.queue)
    asked = wire.request_of(verb)
    answer = ask.server.ask(request(asked.method, asked.path, asked.body))
    assert answer.headers["content-type"] == "application/json"
    if answer.status in {200, 409}:
        wire.load_answer(kind, answer.body)
    else:
        assert kind in {v.RedriveStep, v.RedriveCancel}, answer.body
        assert answer.code == "usage"


SOME: dict[Any, Any] = {
    v.Send: lambda queue: v.Send(queue, (Outgoing(b"x"),)),
    v.Receive: lambda queue: v.Receive(queue, 1),
    v.Ack: lambda queue: v.Ack(queue, (Receipt(1, 1),)),
    v.Defer: lambda queue: v.Defer(queue, ()),
    v.Fail: lambda queue: v.Fail(queue, ()),
    v.Extend: lambda queue: v.Extend(queue, (Receipt(1, 1),)),
    v.Release: lambda queue: v.Release(queue, (Receipt(1, 1),)),
    v.Cancel: lambda queue: v.Cancel(queue, (1,)),
    v.Retry: lambda queue: v.Retry(queue, (1,)),
    v.Endings: lambda queue: v.Endings(queue, (1,)),
    v.WorkerReport: lambda queue: v.WorkerReport(queue, "w"),
    v.Clear: lambda queue: v.Clear(queue, "all"),
    v.RedriveStart: lambda queue: v.RedriveStart(f"{queue}-dead"),
    v.RedriveStep: lambda _: v.RedriveStep(10**9),
    v.RedriveCancel: lambda _: v.RedriveCancel(10**9),
    v.QueueCreate: lambda queue: v.QueueCreate(queue, QueueSettings()),
    v.QueueUpdate: lambda queue: v.QueueUpdate(queue, {"max_attempts": None}),
    v.QueueList: lambda _: v.QueueList(),
    v.PolicySet: lambda queue: v.PolicySet(queue, "a/b?ü", {"weight": 2}),
    v.PolicyGet: lambda queue: v.PolicyGet(queue, "a/b?ü"),
    v.ChannelDelete: lambda queue: v.ChannelDelete(queue, ""),
    v.ScheduleSet: lambda queue: v.ScheduleSet(SCHEDULE(queue), 1),
    v.ScheduleDelete: lambda _: v.ScheduleDelete("none"),
    v.ScheduleFire: lambda _: v.ScheduleFire("none", 1, None),
}


def SCHEDULE(queue: str) -> Any:  # noqa: N802 - a value, but for its queue
    from turnabout.words.schedules import Schedule

    return Schedule("later", queue, Outgoing(b"x"), at=2**42)


def test_several_verbs_in_one_transaction(ask: Ask) -> None:
    verbs = [v.Send(ask.queue, (Outgoing(b"x"),)), v.Stats(ask.queue)]
    answer = ask.server.ask(request("POST", "/v1/transaction", wire.dump_transaction(verbs)))
    sent, (stats,) = wire.load_transaction_answer(verbs, answer.body)
    assert len(sent.ids) == stats.sent == 1


def test_an_empty_transaction_is_nothing(ask: Ask) -> None:
    assert ask.raw("POST", "/v1/transaction", b'{"verbs": []}') == (200, {"items": []})


def test_a_schedule_without_a_due_time_gets_one(ask: Ask) -> None:
    said = {"queue": ask.queue, "message": {"payload": {"text": "x"}}, "every_seconds": 3600}
    path = f"/v1/schedules/{ask.queue}"
    status, entry = ask.raw("PUT", path, json.dumps({**said, "paused": True}).encode())
    assert status == 200
    assert entry["next_at"] % 3_600_000 == 0
    _, entry = ask.raw("PUT", path, json.dumps({**said, "every_seconds": 60}).encode())
    assert entry["next_at"] % 60_000 == 0
    assert entry["schedule"]["paused"], "left out, a pause stays"
    status, refused = ask.raw("PUT", path, json.dumps({**said, "zone": "Asia/Kathmandu"}).encode())
    assert (status, refused["error"]["code"]) == (400, "usage")
    assert "zone only applies to cron" in refused["error"]["message"]


# --- a payload as the body -----------------------------------------------------------------------


def test_a_raw_send(ask: Ask) -> None:
    data = bytes(range(256))
    status, said = ask.raw(
        "POST", f"{ask.path}/send?channel={quote('a b')}&priority=-3&delay_seconds=0", data,
        "Content-Type: image/png", "Turnabout-Header-Trace: ä",
    )  # fmt: skip
    assert (status, said["outcome"]) == (200, "sent")
    _, peeked = ask.get("/messages")
    (message,) = peeked["items"]
    assert (message["channel"], message["priority"]) == ("a b", -3)
    assert (message["content_type"], message["headers"]) == ("image/png", {"trace": "ä"})
    verb = wire.request_of(v.Peek(ask.queue))
    body = ask.server.ask(request(verb.method, verb.path)).body
    assert wire.load_answer(v.Peek, body)[0].payload == data


@each(
    ("query", "headers", "told"),
    [
        ("?colour=red", [], "'colour' is not a field"),
        ("?priority=high", [], "priority: expected int"),
        ("?delay_seconds=-1", [], "delay_seconds: expected float"),
        ("?channel=%00", [], "holds a NUL"),
        ("?channel=%ff", [], "not UTF-8"),
        ("", ["Turnabout-Header-A: 1", "Turnabout-Header-A: 2"], "twice"),
        ("", ["Idempotency-Key: " + "k" * 201], "1 to 200 bytes"),
        ("", ["Idempotency-Key:"], "1 to 200 bytes"),
        ("", ["Idempotency-Key: a", "Idempotency-Key: b"], "twice"),
    ],
)
def test_a_raw_send_that_is_wrong(ask: Ask, query: str, headers: list[str], told: str) -> None:
    status, said = ask.raw("POST", f"{ask.path}/send{query}", b"x", *headers)
    assert status == 400
    assert told in said["error"]["message"]


def test_a_field_of_the_path_is_not_in_the_query_too(ask: Ask) -> None:
    status, said = ask.post("ack?queue=another", {"receipts": ["1.1"]})
    assert (status, said["error"]["code"]) == (400, "usage")
    assert "queue: appears twice" in said["error"]["message"]


# --- once ----------------------------------------------------------------------------------------


def test_a_send_with_a_key_happens_once(ask: Ask) -> None:
    texts: list[Any] = [{"payload": {"text": text}} for text in "abc"]
    said = {"messages": [*texts, {"payload": {"text": "d"}, "dedup_key": "k"}]}
    _, first = ask.post("messages", said, "Idempotency-Key: once")
    _, second = ask.post("messages", said, "Idempotency-Key: once")
    _, other = ask.post("messages", said, "Idempotency-Key: again")
    assert len(set(first["ids"])) == 4
    assert second == {**first, "duplicates": [0, 1, 2, 3]}
    assert not {*other["ids"][:3]} & {*first["ids"]}
    assert other["ids"][3] == first["ids"][3], "its own key stays"


# --- refusals ------------------------------------------------------------------------------------


def test_a_full_channel_is_409(ask: Ask) -> None:
    ask.create()
    assert ask.raw("PATCH", f"{ask.path}/policy?channel=c", b'{"max_size": 1}')[0] == 200
    ask.send("a", channel="c")
    status, said = ask.post("messages", {"messages": [{"payload": {"text": ""}, "channel": "c"}]})
    assert (status, said["outcome"]) == (409, "channel_full")


def test_a_queue_that_is_there_is_409(ask: Ask) -> None:
    said = json.dumps({"queue": ask.queue}).encode()
    assert ask.raw("POST", "/v1/queues", said)[0] == 200
    status, again = ask.raw("POST", "/v1/queues", said)
    assert (status, again["outcome"]) == (409, "already_exists")


@each(
    ("method", "path", "body", "status", "code"),
    [
        ("GET", "/v1/nothing", b"", 404, "no_such_path"),
        ("GET", "/v1/queues/a%2Fb/stats", b"", 404, "no_such_path"),
        ("PUT", "/v1/queues", b"", 405, "no_such_method"),
        ("GET", "/v1/queues/nope", b"", 404, "queue_not_found"),
        ("GET", "/v1/queues/-/stats", b"", 400, "usage"),
        ("GET", "/v1/queues/q/messages?limit=0", b"", 400, "usage"),
        ("GET", "/v1/queues/q/channels?kind=1&body=2", b"", 400, "usage"),
        ("POST", "/v1/queues/q/messages", b"{", 400, "usage"),
        ("POST", "/v1/queues", b'{"queue": "a/b"}', 400, "usage"),
        ("POST", "/v1/queues/q/send", b"x" * 1_001, 400, "usage"),
        ("POST", "/v1/queues/q/ack", json.dumps({"receipts": ["1.1"] * 51}).encode(), 400, "usage"),
        ("POST", "/v1/queues/q/receive", b'{"max_messages": 51}', 400, "usage"),
        ("GET", "/v1/queues/q/signal?seen=x", b"", 400, "usage"),
        ("GET", "/v1/queues/q/signal?change=news", b"", 400, "usage"),
    ],
)
def test_errors_have_one_body(
    server: Running, *, method: str, path: str, body: bytes, status: int, code: str
) -> None:
    answer = server.ask(request(method, path, body))
    assert (answer.status, answer.code) == (status, code)
    assert answer.headers["content-type"] == "application/json"
    assert set(json.loads(answer.body)["error"]) >= {"code", "message", "retryable"}


def test_wrong_bodies_are_refused_over_http(wide: Running) -> None:
    """And nothing has happened: the queue was not even made."""
    for kind, body, told in WRONG_BODIES:
        route = ROUTE_OF[kind]
        answer = wide.ask(request(route.method, route.path.format(queue="wrong"), body))
        assert (answer.status, answer.code) == (400, "usage"), (kind, body[:80], answer.body)
        said = json.loads(answer.body)["error"]["message"]
        assert told.replace("text holds", "a channel's name holds") in said, (kind, said)
    assert wide.ask(request("GET", "/v1/queues/wrong")).status == 404


def test_a_wrong_method_is_told_the_right_ones(server: Running) -> None:
    answer = server.ask(request("PUT", "/v1/queues"))
    assert answer.headers["allow"] == "get, head, post"
    assert "PUT does nothing here: use GET or HEAD or POST" in answer.body.decode()
    answer = server.ask(request("DELETE", "/livez"))
    assert "DELETE does nothing here: use GET" in answer.body.decode()


# --- waiting -------------------------------------------------------------------------------------


def waits(server: Running) -> None:
    until(lambda: server.context.admission.waiting > 0)


def answered(client: Client, data: bytes, *meanwhile: Any) -> Any:
    """What comes when something happens while the request waits."""
    client.send(data)
    for step in meanwhile:
        step()
    return json.loads(client.answer().body)


def test_a_receive_waits_for_a_message(ask: Ask) -> None:
    ask.create()
    data = request("POST", f"{ask.path}/receive", b'{"wait_seconds": 30}')
    with ask.server.connect() as client:
        said = answered(client, data, lambda: waits(ask.server), lambda: ask.send("late"))
    assert said["deliveries"][0]["payload"] == {"text": "late"}


def test_endings_wait_until_all_have_ended(ask: Ask) -> None:
    ids = ask.send("a", "b")
    data = request(
        "POST", f"{ask.path}/endings", json.dumps({"ids": ids, "wait_seconds": 30}).encode()
    )
    with ask.server.connect() as client:
        said = answered(
            client, data, lambda: waits(ask.server), lambda: ask.post("cancel", {"ids": ids})
        )
    assert [one["outcome"] for one in said["items"]] == ["cancelled", "cancelled"]


def test_events_wait_for_one(ask: Ask) -> None:
    ask.create(events="all")
    _, page = ask.get("/events")
    data = request("GET", f"{ask.path}/events?cursor={page['cursor']}&wait_seconds=30")
    with ask.server.connect() as client:
        said = answered(client, data, lambda: waits(ask.server), lambda: ask.send("a"))
    assert [event["kind"] for event in said["events"]] == ["created"]


def test_a_signal_waits_for_news(ask: Ask) -> None:
    ask.send("a")
    _, now = ask.get("/signal")
    path = f"{ask.path}/signal?seen={now['signal']}&instance={now['instance']}&wait_seconds=30"
    with ask.server.connect() as client:
        said = answered(
            client, request("GET", path), lambda: waits(ask.server), lambda: ask.send("b")
        )
    assert said["signal"] != now["signal"]
    assert said["instance"] == now["instance"]
    _, at_once = ask.get(f"/signal?seen={now['signal']}&instance={now['instance']}&wait_seconds=30")
    assert at_once == said


def test_who_leaves_while_waiting_is_forgotten_and_leases_nothing(ask: Ask) -> None:
    ask.send("first")
    ask.post("receive", {"lease_seconds": 600})
    with ask.server.connect() as client:
        client.send(request("POST", f"{ask.path}/receive", b'{"wait_seconds": 30}'))
        waits(ask.server)
    threading.Event().wait(0.15)  # gone is asked of those who have waited for a moment
    ask.send("second")
    _, said = ask.post("receive", {"wait_seconds": 10})
    assert said["deliveries"][0]["payload"] == {"text": "second"}
    assert said["deliveries"][0]["failures"] == said["deliveries"][0]["crashes"] == 0


def test_a_large_answer_comes_whole(ask: Ask) -> None:
    """It is written in parts, so that it is seen whether the client takes it."""
    ask.send(*["\x01" * 1_000] * 50)
    status, said = ask.post("receive", {"max_messages": 50})
    assert status == 200
    assert [one["payload"] for one in said["deliveries"]] == [{"text": "\x01" * 1_000}] * 50


# --- the end --------------------------------------------------------------------------------------


def test_what_waits_ends_when_the_server_closes() -> None:
    with running(ServerOptions(auth="none", port=0)) as server:
        ask = Ask(server, "closing")
        (one,) = ask.send("a")
        ask.raw("PATCH", ask.path, b'{"events": "all"}')
        _, page = ask.get("/events")
        paths = [
            ("GET", f"/events?cursor={page['cursor']}&wait_seconds=30", b""),
            ("POST", "/endings", json.dumps({"ids": [one], "wait_seconds": 30}).encode()),
        ]
        clients = [server.connect() for _ in paths]
        for client, (method, rest, body) in zip(clients, paths, strict=True):
            client.send(request(method, ask.path + rest, body))
        until(lambda: server.context.admission.waiting == len(paths))
        server.loop.call_soon_threadsafe(server.context.lifecycle.close)
        until(lambda: server.context.admission.waiting == 0)
        for client in clients:
            client.close()
