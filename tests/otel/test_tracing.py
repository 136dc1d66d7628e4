"""Spans from the sender to the handler, in every kind of store, seen through the real SDK."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import pytest
from opentelemetry import baggage, context, trace
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind, StatusCode

import turnabout
import turnabout.aio
from tests.server.running import get, request, running
from tests.support.each import each
from tests.support.postgres import migrated
from turnabout.otel import tracing
from turnabout.server import ServerOptions
from turnabout.worker import Defer, Worker

EXPORTER = InMemorySpanExporter()
SECRET = "canary7f3a"


@pytest.fixture(scope="module", autouse=True)
def sdk() -> None:
    """What a user sets up. A second one in a process is not taken, so the first one is used."""
    trace.set_tracer_provider(TracerProvider())
    provider = trace.get_tracer_provider()
    assert isinstance(provider, TracerProvider)
    provider.add_span_processor(SimpleSpanProcessor(EXPORTER))


@pytest.fixture(autouse=True)
def fresh() -> None:
    EXPORTER.clear()


@pytest.fixture
def url(tmp_path: Any) -> str:
    return f"sqlite:///{tmp_path}/app.db"


@contextmanager
def ours() -> Iterator[int]:
    """A span of the user's; the id of its trace."""
    with trace.get_tracer("user").start_as_current_span("request") as span:
        yield span.get_span_context().trace_id


def spans(name: str) -> list[ReadableSpan]:
    return [span for span in EXPORTER.get_finished_spans() if span.name == name]


def span(name: str) -> ReadableSpan:
    found = spans(name)
    assert len(found) == 1, [span.name for span in EXPORTER.get_finished_spans()]
    return found[0]


def links_to(span: ReadableSpan, other: ReadableSpan) -> bool:
    return [link.context.span_id for link in span.links] == [other.context.span_id]


def walk_sync(url: str) -> None:
    with turnabout.connect(url, tracing="link") as mq, ours():
        queue = mq.queue("q")
        queue.send({"to": SECRET})
        (message,) = queue.receive()
        message.ack()


def walk_async(url: str) -> None:
    async def main() -> None:
        async with turnabout.aio.connect(url, tracing="link") as mq:
            with ours():
                queue = mq.queue("q")
                await queue.send({"to": SECRET})
                (message,) = await queue.receive()
                await message.ack()

    asyncio.run(main())


def check_walk(address: str | None = None) -> None:
    """What both colours leave: a span each, linked to the send's."""
    place = {} if address is None else {"server.address": address}
    request, send, receive, ack = (span(n) for n in ("request", "send q", "receive q", "ack q"))
    assert send.parent is not None
    assert send.parent.span_id == request.context.span_id
    assert send.kind is SpanKind.PRODUCER
    assert links_to(receive, send)
    assert links_to(ack, send)
    assert receive.kind is ack.kind is SpanKind.CLIENT
    message_id = send.attributes["messaging.message.id"]
    assert dict(send.attributes) == {
        "messaging.system": "turnabout",
        "messaging.operation.name": "send",
        "messaging.operation.type": "send",
        "messaging.destination.name": "q",
        "messaging.message.body.size": len(f'{{"to":"{SECRET}"}}'),
        "messaging.message.id": message_id,
        **place,
    }
    assert place.items() <= receive.attributes.items() & ack.attributes.items()
    assert receive.attributes["messaging.operation.type"] == "receive"
    assert ack.attributes["messaging.operation.type"] == "settle"
    assert ack.attributes["messaging.message.id"] == message_id
    assert all(SECRET not in span.to_json() for span in EXPORTER.get_finished_spans())


@pytest.mark.parametrize("walk", [walk_sync, walk_async])
def test_a_message_s_way_is_linked(walk: Callable[[str], None], url: str) -> None:
    walk(url)
    check_walk()


@pytest.mark.slow
@pytest.mark.parametrize("walk", [walk_sync, walk_async])
def test_a_message_s_way_is_linked_on_postgresql(walk: Callable[[str], None]) -> None:
    with migrated() as url:
        walk(url)
        check_walk(dict(parse_qsl(urlsplit(url).query))["host"])


@each(
    "url,place",
    [
        ("sqlite:///host/app.db", {}),
        ("postgresql://me:secret@db.example/app", {"server.address": "db.example"}),
        ("postgresql://db:6432/app", {"server.address": "db", "server.port": 6432}),
        ("postgresql://a,b:5433/app?target_session_attrs=read-write", {}),
        ("postgresql:///app", {}),
        ("https://tbt_x@[::1]:8443/queues", {"server.address": "::1", "server.port": 8443}),
    ],
)
def test_a_span_names_the_server(url: str, place: dict[str, Any]) -> None:
    assert tracing.Spans(parent=False, url=url)._place == place


def test_a_receive_that_finds_nothing_leaves_no_span(url: str) -> None:
    with turnabout.connect(url, tracing="link") as mq:
        mq.queue("q").create()
        assert not mq.queue("q").receive()
    assert EXPORTER.get_finished_spans() == ()


def test_a_batch_has_one_span_and_says_how_many(url: str) -> None:
    with turnabout.connect(url, tracing="link") as mq:
        mq.queue("q").send_many([turnabout.message(n) for n in range(3)])
        batch = mq.queue("q").receive(10)
    assert span("send q").attributes["messaging.batch.message_count"] == 3
    assert span("receive q").attributes["messaging.batch.message_count"] == 3
    assert len({message.headers["traceparent"] for message in batch}) == 1
    assert links_to(span("receive q"), span("send q"))


@pytest.mark.slow
def test_a_transaction_of_the_user_s_is_traced_too(url: str) -> None:
    import sqlite3

    with turnabout.connect(url, tracing="link") as mq:
        mq.queue("q").create()
        connection = sqlite3.connect(url.removeprefix("sqlite:///"))
        with connection:
            mq.queue("q").within(connection).send("x")
        connection.close()
        (message,) = mq.queue("q").receive()
    assert links_to(span("receive q"), span("send q"))
    assert message.headers["traceparent"]


def test_an_error_has_its_code_and_no_text(url: str) -> None:
    with turnabout.connect(url, tracing="link") as mq:
        queue = mq.queue("q")
        with pytest.raises(turnabout.QueueNotFound):
            queue.ack([turnabout.Receipt(1, 1)])
    found = span("ack q")
    assert found.status.status_code is StatusCode.ERROR
    assert found.attributes["error.type"] == "queue_not_found"
    assert found.events == ()


def test_a_refusal_is_no_error_and_is_shown(url: str) -> None:
    with turnabout.connect(url, tracing="link") as mq:
        mq.queue("q").create(max_messages=1)
        mq.queue("q").send(1)
        assert isinstance(mq.queue("q").send(2), turnabout.QueueFull)
    assert [s.attributes.get("turnabout.refused") for s in spans("send q")] == [None, "QueueFull"]


# --- headers -------------------------------------------------------------------------------------

THEIRS = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


def headers_after(url: str, given: dict[str, str] | None) -> dict[str, str]:
    with turnabout.connect(url, tracing="link") as mq:
        mq.queue("q").send("x", headers=given)
        (message,) = mq.queue("q").receive()
        return dict(message.headers)


@pytest.mark.parametrize("name", ["traceparent", "Traceparent"])
def test_a_context_that_the_user_set_is_left_alone(name: str, url: str) -> None:
    assert headers_after(url, {name: THEIRS}) == {name: THEIRS}
    assert [link.context.span_id for link in span("send q").links] == [0xB7AD6B7169203331]


def test_headers_of_the_user_s_stay(url: str) -> None:
    found = headers_after(url, {"a": "b"})
    assert found.pop("traceparent").split("-")[2] == f"{span('send q').context.span_id:016x}"
    assert found == {"a": "b"}


@pytest.mark.slow
@pytest.mark.parametrize("given", [{f"h{n}": "" for n in range(64)}, {"h": "x" * 16_383}])
def test_headers_at_their_limit_get_no_context(given: dict[str, str], url: str) -> None:
    assert headers_after(url, given) == given


@pytest.mark.slow
def test_baggage_goes_first_where_there_is_no_room(url: str) -> None:
    token = context.attach(baggage.set_baggage("tenant", "x" * 200))
    try:
        assert "baggage" in headers_after(url, None)
        assert set(headers_after(url, {"h": "x" * 16_200})) == {"h", "traceparent"}
    finally:
        context.detach(token)


@pytest.mark.slow
def test_what_is_no_context_is_no_error(url: str) -> None:
    with turnabout.connect(url) as mq:
        mq.queue("q").send("x", headers={"traceparent": "nonsense", "tracestate": "=,="})
    with turnabout.connect(url, tracing="link") as mq:
        assert len(mq.queue("q").receive()) == 1
    assert span("receive q").links == ()


# --- on and off ----------------------------------------------------------------------------------


@pytest.mark.slow
def test_off_loads_nothing() -> None:
    code = (
        "import turnabout, sys\n"
        "mq = turnabout.connect('sqlite://'); mq.queue('q').send(1); mq.close()\n"
        "assert not any(name.startswith('opentelemetry') for name in sys.modules)\n"
        "assert 'turnabout.otel.tracing' not in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


@each("word", ["on", "", True, None])
def test_another_word_is_refused(word: Any) -> None:
    with pytest.raises(turnabout.UsageError, match="link, parent"):
        turnabout.connect("sqlite://", tracing=word)


def test_without_the_package_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tracing, "find_spec", lambda _: None)
    with pytest.raises(turnabout.UsageError, match=r"\[otel\]"):
        turnabout.connect("sqlite://", tracing="link")


# --- workers -------------------------------------------------------------------------------------


def work(url: str, how: Any, *, coro: bool = False) -> list[Any]:
    """Handle what there is; what each handler saw of its span and its baggage."""
    worker = Worker(url, tracing=how)
    seen: list[Any] = []

    def look(message: Any) -> None:
        current = trace.get_current_span()
        seen.append((current.get_span_context().span_id, baggage.get_baggage("tenant")))
        if message.text() == "bad":
            raise ValueError(SECRET)
        if message.text() == "later":
            raise Defer(delay_seconds=3600)

    async def handle(message: Any) -> None:
        look(message)

    chosen: Any = handle if coro else look
    worker.handler("q")(chosen)
    worker.run(until_empty=True)
    return seen


def send(url: str, payload: object = "x") -> int:
    token = context.attach(baggage.set_baggage("tenant", "acme"))
    try:
        with turnabout.connect(url, tracing="link") as mq, ours() as trace_id:
            mq.queue("q").create(max_attempts=1)
            mq.queue("q").send(payload)
            return trace_id
    finally:
        context.detach(token)


@pytest.mark.slow
@pytest.mark.parametrize("coro", [False, True], ids=["thread", "coroutine"])
@pytest.mark.parametrize("how", ["link", "parent"])
def test_a_handler_has_a_span(how: str, coro: bool, url: str) -> None:
    trace_id = send(url)
    seen = work(url, how, coro=coro)
    process = span("process q")
    assert process.kind is SpanKind.CONSUMER
    assert links_to(process, span("send q"))
    assert seen == [(process.context.span_id, "acme")]
    assert (process.context.trace_id == trace_id) is (how == "parent")
    assert (process.parent is None) is (how == "link")
    assert process.status.status_code is StatusCode.UNSET
    assert links_to(span("ack q"), span("send q"))


@pytest.mark.slow
def test_without_tracing_a_handler_has_none(url: str) -> None:
    send(url)
    assert work(url, "off") == [(0, None)]
    assert spans("process q") == []


@pytest.mark.slow
@pytest.mark.parametrize(("payload", "kind"), [("bad", "ValueError"), ("later", None)])
def test_a_handler_s_end_is_shown(payload: str, kind: str | None, url: str) -> None:
    send(url, payload)
    work(url, "link")
    process = span("process q")
    assert process.attributes.get("error.type") == kind
    assert (process.status.status_code is StatusCode.ERROR) is (kind is not None)
    assert SECRET not in process.to_json()


# --- over HTTP -----------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("store", ["sqlite", "postgresql"])
def test_from_a_request_over_http_to_a_handler_is_one_trace(store: str, url: str) -> None:
    with (
        nullcontext(url) if store == "sqlite" else migrated() as place,
        running(ServerOptions(auth="none", port=0, tracing=True), url=place) as server,
    ):
        address = f"http://127.0.0.1:{server.port}"
        trace_id = send(address)
        work(address, "parent")
    names = {"send q", "process q", "POST /v1/queues/{queue}/messages"}
    found = [s for s in EXPORTER.get_finished_spans() if s.context.trace_id == trace_id]
    assert names <= {span.name for span in found}
    served = span("POST /v1/queues/{queue}/messages")
    sent = next(s for s in spans("send q") if s.context.span_id == served.parent.span_id)
    assert served.kind is SpanKind.SERVER
    told = {"http.response.status_code": 200, "url.path": "/v1/queues/q/messages",
            "url.scheme": "http", "network.protocol.version": "1.1", "server.port": server.port,
            "server.address": "127.0.0.1", "client.address": "127.0.0.1"}  # fmt: skip
    assert told.items() <= served.attributes.items()
    assert links_to(span("receive q"), sent)
    assert links_to(span("process q"), sent)


@pytest.mark.slow
def test_a_client_without_tracing_gets_its_request_s_trace(url: str) -> None:
    with running(ServerOptions(auth="none", port=0, tracing=True), url=url) as server:
        body = b'{"messages":[{"payload":{"text":"x"}}]}'
        send = request("POST", "/v1/queues/q/messages", f"traceparent: {THEIRS}", body=body)
        assert server.ask(send).status == 200
        server.ask(get())
    with turnabout.connect(url) as mq:
        (message,) = mq.queue("q").receive()
    assert message.headers["traceparent"].split("-")[1] == THEIRS.split("-")[1]
    assert not [s for s in EXPORTER.get_finished_spans() if "livez" in s.name]
