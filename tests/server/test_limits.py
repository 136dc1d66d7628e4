"""Each limit refuses what is over it, with a clear answer, and nobody else notices."""

import asyncio
import contextlib
import http.client
import json
import re
from collections.abc import AsyncIterator, Iterator
from dataclasses import fields
from pathlib import Path

import pytest
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response, StreamingResponse
from starlette.routing import Route

import turnabout
from tests.server.running import Running, get, post, request, running
from tests.support.each import each
from tests.support.until import until
from turnabout.server import ServerOptions
from turnabout.server.verbs import TokenCreate, new_token, scopes, token_text

LIST = get("/v1/queues")
SHORT = ServerOptions(
    auth="none",
    port=0,
    max_body_bytes=1_000,
    max_header_bytes=2_000,
    max_headers=20,
    head_seconds=0.2,
    body_idle_seconds=0.2,
    body_seconds=0.4,
    idle_seconds=0.2,
    write_seconds=0.2,
    max_connections=5,
    max_pending=2,
)


async def echo(request: Request) -> Response:
    return Response(await request.body())


async def endless(_: Request) -> Response:
    async def pieces() -> AsyncIterator[bytes]:
        while True:
            await asyncio.sleep(0)
            yield bytes(65_536)

    return StreamingResponse(pieces())


async def broken(_: Request) -> Response:
    raise RuntimeError("a secret of ours")


async def waits(request: Request) -> Response:
    while not await request.is_disconnected():
        await request.app.state.released.wait()
        return PlainTextResponse("released")
    return Response()


ROUTES = (
    Route("/echo", echo, methods=["POST"]),
    Route("/endless", endless),
    Route("/broken", broken),
    Route("/waits", waits),
)


@pytest.fixture(scope="module")
def server() -> Iterator[Running]:
    with running(SHORT, routes=ROUTES) as running_server:
        yield running_server


def refused(server: Running, limit: str) -> float:
    return server.counted("refusals_total", limit=limit)


# --- the head ------------------------------------------------------------------------------------


def test_a_head_that_never_ends_is_too_slow(server: Running) -> None:
    before = refused(server, "head_seconds")
    with server.connect() as client:
        # Each byte comes in good time; the whole does not.
        assert client.trickle(get("/livez", f"X-Slow: {'z' * 90}"), 0.01)
        answer = client.answer()
        assert (answer.status, answer.code) == (408, "too_slow")
        assert client.is_closed()
    assert refused(server, "head_seconds") == before + 1


def test_one_who_says_nothing_is_hung_up_on(server: Running) -> None:
    with server.connect() as client:
        assert client.is_closed()


def test_a_connection_without_a_request_ends(server: Running) -> None:
    with server.connect() as client:
        assert client.ask(get()).status == 200
        assert client.ask(get()).status == 200
        assert client.is_closed()


def test_too_many_headers(server: Running) -> None:
    headers = [f"X-{n}: y" for n in range(SHORT.max_headers - 1)]
    assert server.ask(get("/livez", *headers)).status == 200
    answer = server.ask(get("/livez", *headers, "X-More: y"))
    assert (answer.status, answer.code) == (431, "headers_too_large")


@pytest.mark.parametrize("end", ["\r\n\r\n", "", "\r\n"], ids=["whole", "in a value", "between"])
def test_too_large_a_head(server: Running, end: str) -> None:
    before = refused(server, "max_header_bytes")
    fits, over = "z" * (SHORT.max_header_bytes - 100), "z" * 300_000
    assert server.ask(get("/livez", f"X-Long: {fits}")).status == 200
    answer = server.ask(f"GET /livez HTTP/1.1\r\nHost: localhost\r\nX-Long: {over}{end}".encode())
    assert (answer.status, answer.code) == (431, "headers_too_large")
    answer = server.ask(f"GET /{over} HTTP/1.1{end}".encode())
    assert (answer.status, answer.code) == (431, "headers_too_large")
    assert refused(server, "max_header_bytes") == before + 2


@pytest.mark.parametrize(
    "tail", ["0\r\nTrailer: ", "5;extension="], ids=["trailers", "chunk extensions"]
)
def test_too_much_between_the_chunks(server: Running, tail: str) -> None:
    head = request("POST", "/echo", "Transfer-Encoding: chunked")
    with server.connect() as client:
        client.send(head + b"2\r\nab\r\n" + tail.encode())
        client.send(b"z" * 300_000)
        assert client.answer().status == 431


# --- the body ------------------------------------------------------------------------------------


def test_a_body_that_stops_is_too_slow(server: Running) -> None:
    with server.connect() as client:
        answer = client.ask(request("POST", "/echo", "Content-Length: 10") + b"12345")
        assert (answer.status, answer.code) == (408, "too_slow")
        assert client.is_closed()


def test_a_body_that_never_ends_is_too_slow(server: Running) -> None:
    with server.connect() as client:
        client.send(request("POST", "/echo", "Content-Length: 200"))
        assert client.trickle(b"z" * 199, 0.01)
        assert client.answer().status == 408


def test_too_large_a_body_is_refused_before_it_is_sent(server: Running) -> None:
    size = SHORT.max_body_bytes
    assert server.ask(request("POST", "/echo", body=b"z" * size)).body == b"z" * size
    with server.connect() as client:
        answer = client.ask(
            request("POST", "/echo", f"Content-Length: {size + 1}", "Expect: 100-continue")
        )
        assert (answer.status, answer.code) == (413, "too_large")
    huge = server.ask(request("POST", "/echo", f"Content-Length: {'9' * 18}"))
    assert (huge.status, huge.code) == (413, "too_large")


def test_too_large_a_body_is_refused_while_it_is_sent(server: Running) -> None:
    piece = b"100\r\n" + b"z" * 256 + b"\r\n"
    head = request("POST", "/echo", "Transfer-Encoding: chunked")
    assert len(server.ask(head + piece * 3 + b"0\r\n\r\n").body) == 768
    busy = request("POST", "/v1/queues/q/send", "Transfer-Encoding: chunked")
    assert server.ask(busy + piece * 4).code == "too_large"
    with server.connect() as client:
        assert client.ask(head + piece * 4).code == "too_large"
        # The rest is read and thrown away; then the connection is as good as any.
        assert client.ask(piece * 100 + b"0\r\n\r\n" + get()).status == 200


@each("connection", ["keep-alive", "close"])
@each("path", ["/echo", "/v1/queues/q/send"])
def test_a_refusal_is_heard_by_one_who_sends_first(connection: str, path: str) -> None:
    """Closing before all was read would reset the connection, and many clients never read then."""
    options = ServerOptions(auth="none", port=0, max_body_bytes=SHORT.max_body_bytes)
    with (
        running(options, routes=ROUTES) as server,
        contextlib.closing(
            http.client.HTTPConnection("127.0.0.1", server.port, timeout=30)
        ) as client,
    ):
        client.request("POST", path, b"z" * 20_000_000, {"Connection": connection})
        assert client.getresponse().status == 413


# --- a client that doesn't read ------------------------------------------------------------------


def test_one_who_takes_nothing_is_cut_off(server: Running) -> None:
    before = refused(server, "write_seconds")
    with server.connect() as client:
        client.send(get("/endless"))
        until(lambda: refused(server, "write_seconds") == before + 1)
        until(lambda: server.context.connections() == 0)


# --- how many ------------------------------------------------------------------------------------


def test_too_many_connections() -> None:
    options = ServerOptions(auth="none", port=0, max_connections=2)
    with running(options, routes=ROUTES) as server:
        released = server.serving.app.state.released = asyncio.Event()
        with server.connect() as one, server.connect() as two:
            one.send(get("/waits"))
            two.send(get("/waits"))
            until(lambda: server.context.admission.requests == 2)
            with server.connect() as three:
                answer = three.answer()
                assert (answer.status, answer.code) == (503, "busy")
                assert answer.headers["retry-after"] == "1"
            server.loop.call_soon_threadsafe(released.set)
            assert one.answer().body == two.answer().body == b"released"
            assert refused(server, "max_connections") == 1
            # Now they want nothing, and the oldest gives its place up.
            assert server.ask(get()).status == 200
            assert one.is_closed()
            assert two.ask(get()).status == 200
        until(lambda: server.context.connections() == 0)


def test_strangers_give_way_the_oldest_first() -> None:
    options = ServerOptions(port=0, max_connections=2)  # with tokens, of which there is none
    with running(options) as server, server.connect() as silent:
        until(lambda: server.context.connections() == 1)
        with server.connect() as half, server.connect() as refused:
            half.send(LIST[:20])
            assert refused.ask(LIST).status == 401
            assert silent.is_closed()
            with server.connect() as new:
                assert new.ask(LIST).status == 401
                assert half.is_closed(), "it came before the one that has been refused"


def test_too_many_who_wait() -> None:
    with running(ServerOptions(auth="none", port=0, max_polls=1)) as server:
        server.ask(post("/v1/queues", {"queue": "q"}))
        poll = post("/v1/queues/q/receive", {"lease_seconds": 5, "wait_seconds": 60})
        with server.connect() as one:
            one.send(poll)
            until(lambda: server.context.admission.waiting == 1)
            answer = server.ask(poll)
            assert (answer.status, answer.code) == (503, "busy")
            assert answer.headers["retry-after"] == "1"
            assert server.ask(post("/v1/queues/q/receive", {"lease_seconds": 5})).status == 200


def test_one_tenant_takes_no_other_s_places(tmp_path: Path) -> None:
    """It may have all, connections and polls, until somebody else comes."""
    url = f"sqlite:///{tmp_path / 'q.db'}"
    options = ServerOptions(port=0, max_polls=2, max_connections=3)
    with running(options, url=url) as server, turnabout.connect(url) as owner:
        for name in ("acme/q", "bob/q"):
            owner.queue(name).create(events="all")
        shown: dict[str, str] = {}
        for name in ("acme", "bob"):
            id_, secret, digest = new_token()
            owner.store.run(TokenCreate(id_, digest, name, "", scopes(["operate"])))
            shown[name] = f"Authorization: Bearer {token_text(id_, secret)}"
        body = b'{"wait_seconds": 60}'

        def poll(name: str) -> bytes:
            return request("POST", "/v1/queues/q/receive", shown[name], body=body)

        polls = server.context.admission.polls
        with server.connect() as one, server.connect() as two, server.connect() as three:
            one.send(poll("acme"))
            until(lambda: polls.held("acme") == 1)
            two.send(poll("acme"))
            until(lambda: polls.held("acme") == 2)
            assert three.ask(get("/v1/queues", shown["acme"])).status == 200
            with server.connect() as four:
                four.send(poll("bob"))
                assert three.is_closed()  # it wanted nothing
                assert one.answer().code == "busy"  # the oldest that waits
                one.close()
                until(lambda: polls.held("bob") == 1)
                assert polls.held("acme") == 1
                with server.connect() as five:
                    refused_now = five.ask(poll("acme"))
                    assert (refused_now.status, refused_now.code) == (503, "busy")


def test_who_waits_too_long() -> None:
    with running(ServerOptions(auth="none", port=0, max_wait_seconds=0.05)) as server:
        server.ask(post("/v1/queues", {"queue": "q"}))
        poll = post("/v1/queues/q/receive", {"lease_seconds": 5, "wait_seconds": 600})
        assert json.loads(server.ask(poll).body)["deliveries"] == []


# --- what is no request --------------------------------------------------------------------------


def test_requests_ahead_are_answered_in_order(server: Running) -> None:
    with server.connect() as client:
        client.send(b"".join(request("POST", "/echo", body=b"%d" % n) for n in range(20)))
        assert [int(client.answer().body) for _ in range(20)] == list(range(20))
        # What is wrong takes nobody else's answer.
        client.send(get() + get() + b"\x00\r\n")
        assert [client.answer().status, client.answer().status] == [200, 200]
        assert client.is_closed()


def test_a_flood_of_requests_ahead_ends(server: Running) -> None:
    with server.connect() as client:
        client.send(get() * 3_000)
        answers = 0
        with contextlib.suppress(ConnectionError):
            while client.answer().status == 200:
                answers += 1
    assert 100 <= answers < 3_000


def test_a_wish_for_http_2_is_overheard(server: Running) -> None:
    """Java's client has it in each first request, and a body behind."""
    wish = ("Connection: Upgrade, HTTP2-Settings", "Upgrade: h2c", "HTTP2-Settings: AAA")
    with server.connect() as client:
        assert client.ask(request("POST", "/echo", *wish, body=b"whole")).body == b"whole"
        pieces = b"5\r\nwhole\r\n0\r\n\r\n"
        head = request("POST", "/echo", *wish, "Transfer-Encoding: chunked")
        assert client.ask(head + pieces).body == b"whole"
        assert client.ask(get("/livez", "Connection: Upgrade", "Upgrade: websocket")).status == 200


# --- whose request it is -------------------------------------------------------------------------


@pytest.mark.parametrize(
    "host", ["localhost", "LOCALHOST:80", "localhost.", "127.0.0.1:99", "[::1]:80", "127.9.9.9"]
)
def test_its_own_names(server: Running, host: str) -> None:
    assert server.ask(get("/nothing", f"Host: {host}")).status == 404


@pytest.mark.parametrize(
    "host",
    [
        "evil.example",
        "localhost.evil.example",
        "192.0.2.1",
        "127.0.0.1.evil.example",
        "",
        "[::1]evil.example",
        "[::1]:evil.example",
        "localhost:evil.example",
        "[localhost]",
    ],
)
def test_a_host_that_is_not_ours(server: Running, host: str) -> None:
    answer = server.ask(get("/nothing", f"Host: {host}"))
    assert (answer.status, answer.code) == (400, "usage")
    assert b"--allow-host" in answer.body
    assert server.ask(get("/livez", f"Host: {host}")).status == 200  # machines ask by address


def test_hosts_and_origins_that_were_allowed() -> None:
    options = ServerOptions(
        auth="none",
        port=0,
        allowed_hosts=("q.example.com",),
        allowed_origins=("https://app.example.com",),
    )
    with running(options, routes=ROUTES) as server:
        assert server.ask(get("/nothing", "Host: Q.example.com:8080")).status == 404
        page = "Origin: https://app.example.com"
        answer = server.ask(request("POST", "/echo", page, body=b"hi"))
        assert answer.body == b"hi"
        assert answer.headers["access-control-allow-origin"] == "https://app.example.com"
        asked = server.ask(
            request("OPTIONS", "/echo", page, "Access-Control-Request-Headers: authorization")
        )
        assert asked.status == 204
        assert asked.headers["access-control-allow-headers"] == "authorization"
        for wrong in ("https://app.example.com.evil", "http://app.example.com", "null"):
            assert server.ask(get("/nothing", f"Origin: {wrong}")).status == 403


@pytest.mark.parametrize(
    "header",
    [
        "Origin: https://evil.example",
        "Origin: null",
        "Origin: http://localhost:3000",
        "Sec-Fetch-Site: cross-site",
        "Sec-Fetch-Site: same-site",
        "Sec-Fetch-Site: cross-site\r\nSec-Fetch-Mode: navigate",
    ],
)
def test_a_page_of_somebody_else(server: Running, header: str) -> None:
    for method in ("GET", "POST", "OPTIONS"):
        answer = server.ask(request(method, "/queues/q/receive", "Host: localhost:80", header))
        assert (answer.status, answer.code) == (403, "forbidden")
        assert "access-control-allow-origin" not in answer.headers


def test_our_own_pages(server: Running) -> None:
    mine = ("Host: localhost:80", "Origin: http://localhost:80", "Sec-Fetch-Site: same-origin")
    assert server.ask(request("POST", "/echo", *mine, body=b"hi")).body == b"hi"
    typed = ("Host: localhost:80", "Sec-Fetch-Site: none", "Sec-Fetch-Mode: navigate")
    assert server.ask(get("/nothing", *typed)).status == 404


# --- what is answered ----------------------------------------------------------------------------


def test_a_bug_of_ours_tells_nothing(server: Running, capfd: pytest.CaptureFixture[str]) -> None:
    answer = server.ask(get("/broken"))
    assert (answer.status, answer.code) == (500, "internal")
    assert b"secret" not in answer.body


def test_every_answer_is_for_programs_only(server: Running) -> None:
    for answer in (server.ask(get()), server.ask(get("/nothing"))):
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert answer.headers["cache-control"] == "no-store"
        assert answer.headers["content-security-policy"].startswith("default-src 'none'")


# --- options -------------------------------------------------------------------------------------


@each(
    ("wrong", "text"),
    [
        ({"port": 70_000}, "port"),
        ({"host": "a b"}, "not an address"),
        ({"host": "0.0.0.0", "auth": "none"}, "loopback only"),
        ({"auth": "maybe"}, "auth"),
        ({"log_format": "xml"}, "log_format"),
        ({"max_polls": 0}, "max_polls"),
        ({"max_connections": True}, "max_connections"),
        ({"head_seconds": 0}, "head_seconds"),
        ({"body_seconds": float("nan")}, "body_seconds"),
        ({"idle_seconds": "5"}, "idle_seconds"),
        ({"allowed_hosts": ("http://a",)}, "without a scheme"),
        ({"allowed_origins": ("app.example.com",)}, "scheme, host and port"),
        ({"allowed_origins": ("https://app.example.com/",)}, "scheme, host and port"),
        ({"tls_key": "key.pem"}, "certificate"),
    ],
)
def test_an_option_that_is_wrong(wrong: dict[str, object], text: str) -> None:
    with pytest.raises(turnabout.UsageError, match=text):
        ServerOptions(**wrong)  # type: ignore[arg-type]


def test_the_page_has_every_limit() -> None:
    page = (Path(__file__).parents[2] / "docs" / "how-to" / "serve.md").read_text()
    rows = dict(re.findall(r"^\| `--([a-z-]+)` \| ([\d.,]+) \|", page, re.MULTILINE))
    limits = {
        field.name: field.default
        for field in fields(ServerOptions)
        if re.match(r"max_|.*_seconds$", field.name)
    }
    assert {name.replace("-", "_"): float(n.replace(",", "")) for name, n in rows.items()} == limits
