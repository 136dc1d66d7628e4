"""The log: readable by people and machines, with a request's id, and never with a secret."""

from __future__ import annotations

import asyncio
import base64
import io
import json
import logging
from collections.abc import Iterator, Sequence
from typing import Any

import httpx2
import pytest

import turnabout.aio
from tests.server import sights
from tests.server.sights import Sight, looking
from tests.server.yard import Yard, there
from tests.support.each import each
from turnabout.server import ServerOptions, create_app
from turnabout.server.http.access_log import REFUSED_LINES
from turnabout.server.http.logs import configure, scrubbed, stack
from turnabout.words.errors import BrokenInvariant, Busy, TurnaboutError

SECRET = "canary7f3a"  # in whatever is sent; nothing that holds it may be logged


@pytest.fixture(autouse=True)
def logging_as_before() -> Iterator[None]:
    """Take away what `configure` did to this process."""
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    for client in ("httpx2", "httpcore2"):  # they show what they ask for
        logging.getLogger(client).disabled = True
    yield
    for client in ("httpx2", "httpcore2"):
        logging.getLogger(client).disabled = False
    root.handlers[:] = handlers
    root.setLevel(level)


def logged(form: str, level: str = "DEBUG") -> io.StringIO:
    stream = io.StringIO()
    configure(form, level, stream)
    return stream


def documents(stream: io.StringIO) -> list[dict[str, Any]]:
    return [json.loads(line) for line in stream.getvalue().splitlines()]


def leaks(stream: io.StringIO) -> list[str]:
    return [line for line in stream.getvalue().splitlines() if SECRET in line][:3]


# --- secrets -------------------------------------------------------------------------------------


class Talkative:
    """A store whose errors quote all that they know."""

    def __init__(self, error: Exception) -> None:
        self.error = error

    async def run(self, verb: object) -> Any:
        raise self.error from ValueError(f"{SECRET} in {verb!r}")

    run_transaction = signal = wait = run
    maintains_itself = False

    async def close(self) -> None: ...


HEADERS = {
    "x-api-key": SECRET,
    "idempotency-key": SECRET,
    "turnabout-header-secret": SECRET,
    "cookie": f"session={SECRET}",
    "traceparent": SECRET,
}
METHODS = ("DELETE", "GET", "PATCH", "POST", "PUT")
BODIES = (
    b"",
    b'{"messages": [{"payload": {"text": "%s"}, "dedup_key": "%s"}]}' % ((SECRET.encode(),) * 2),
    b'{"%s": NaN}' % SECRET.encode(),
    b"%s \xff\xfe" % SECRET.encode(),
    b'{"receipts": ["%s"], "ids": ["%s"]}' % ((SECRET.encode(),) * 2),
)


def targets(app: Any) -> list[tuple[str, str]]:
    """A request for each method of each route, a secret in the query and none in the path."""
    found: list[tuple[str, str]] = []
    for route in app.router.routes:
        path = route.path
        while "{" in path:
            path = path[: path.index("{")] + "q" + path[path.index("}") + 1 :]
        for method in sorted(getattr(route, "methods", None) or METHODS):
            query = f"?channel={SECRET}&dedup_key={SECRET}&cursor={SECRET}&limit=1&wait_seconds=0"
            if "stream" not in path:
                found.append((method, path + query))
    return found


async def knock(app: Any, bodies: Sequence[bytes] = BODIES) -> None:
    """Every route with every body, one after the other; and with tokens that open nothing."""
    transport = httpx2.ASGITransport(app=app, raise_app_exceptions=False)
    async with httpx2.AsyncClient(transport=transport, base_url="http://localhost") as client:
        basic = "Basic " + base64.b64encode(f"user:{SECRET}".encode()).decode()
        for method, target in targets(app):
            for body in bodies if method != "GET" else (b"",):
                await client.request(method, target, content=body, headers=HEADERS)
        for authorization in (basic, f"Bearer tbt_aaaaaaaaaaaa_{SECRET}", f"Bearer {SECRET}"):
            for path in ("/metrics", "/v1/queues"):
                await client.get(path, headers={"authorization": authorization})


@pytest.mark.slow
def test_no_secret_is_logged_by_any_door() -> None:
    stream = logged("text")

    async def main() -> None:
        async with turnabout.aio.connect("sqlite://") as mq:
            app = create_app(
                mq.store, ServerOptions(auth="none", access_log=True, max_wait_seconds=0.01)
            )
            assert len(app.router.routes) > 30
            await knock(app)
            app.state.context.lifecycle.close()

    asyncio.run(main())
    assert stream.getvalue().count("status") > 200
    assert leaks(stream) == []


@pytest.mark.slow
@pytest.mark.parametrize(
    "error",
    [RuntimeError(SECRET), BrokenInvariant(SECRET), Busy(SECRET)],
    ids=lambda error: type(error).__name__,
)
def test_no_secret_of_an_error_is_logged(error: Exception) -> None:
    stream = logged("json")

    async def main() -> None:
        app = create_app(Talkative(error), ServerOptions(auth="none"))
        await knock(app, BODIES[1:2])
        app.state.context.lifecycle.close()

    asyncio.run(main())
    assert documents(stream)
    assert leaks(stream) == []


@pytest.mark.slow
def test_no_password_of_the_database_is_logged() -> None:
    stream = logged("text")

    async def main() -> None:
        url = f"postgresql://ada:{SECRET}@127.0.0.1:1/nowhere?connect_timeout=1"
        mq = turnabout.aio.connect(url)
        app = create_app(mq.store, ServerOptions(auth="tokens"))
        transport = httpx2.ASGITransport(app=app)
        async with httpx2.AsyncClient(transport=transport, base_url="http://localhost") as client:
            for path in ("/readyz", "/healthz", "/metrics", "/v1/queues"):
                answer = await client.get(path, headers=HEADERS)
                assert answer.status_code >= 400
                assert SECRET not in answer.text
        await mq.close()

    asyncio.run(main())
    assert "/readyz" in stream.getvalue()
    assert leaks(stream) == []


def test_an_exception_is_told_without_its_text() -> None:
    stream = logged("json")

    def fail() -> None:
        try:
            raise ValueError(SECRET)
        except ValueError as error:
            raise TurnaboutError(f"about {SECRET}") from error

    with pytest.raises(TurnaboutError) as caught:
        fail()
    logging.getLogger("somebody").error("it failed", exc_info=caught.value)
    assert SECRET not in stack(caught.value)
    assert "builtins.ValueError" in stack(caught.value)
    (document,) = documents(stream)
    assert SECRET not in json.dumps(document)
    assert document["exception"][0] == "turnabout.words.errors.TurnaboutError (error)"
    assert any("test_logs.py" in line for line in document["exception"])


@each(
    ("text", "shown"),
    [
        ("token tbt_abcdefghijkl_c2VjcmV0 used", "token tbt_abcdefghijkl*** used"),
        ("to postgresql://ada:pa:ss@host/db", "to postgresql://ada:***@host/db"),
        ("host=h password=geheim dbname=d", "host=h password=*** dbname=d"),
        ("nothing at http://localhost:8080/", "nothing at http://localhost:8080/"),
    ],
)
def test_the_second_net(text: str, shown: str) -> None:
    assert scrubbed(text) == shown


# --- form ----------------------------------------------------------------------------------------


@there()
async def test_a_flood_of_refused_requests_does_not_flood_the_log(one: Yard) -> None:
    stream = logged("json", "INFO")
    one.app._outermost._clock = one.seconds
    for _ in range(REFUSED_LINES + 30):
        assert (await one.ask("GET", "/nothing")).status == 404
    one.seconds.now += 1
    await one.ask("GET", "/nothing")
    told = [document["message"] for document in documents(stream)]
    left_out = "30 lines about refused requests were left out"
    assert told == [*["GET /nothing"] * REFUSED_LINES, left_out, "GET /nothing"]


@looking()
async def test_a_line_of_json_has_all_that_is_known(sight: Sight) -> None:
    stream = logged("json", "INFO")
    await sight.get("/nothing/here?key=1", **{"x-request-id": "abc-1"})
    document = next(d for d in documents(stream) if d["logger"] == "turnabout.server.access")
    assert document["message"] == "GET /nothing/here"
    assert document["request_id"] == "abc-1"
    assert document["status"] == 404
    assert document["route"] == "none"
    assert document["level"] == "info"
    assert document["seconds"] >= 0
    assert document["time"].endswith("Z")


@looking(auth="tokens")
async def test_the_log_names_the_token_and_its_namespace(sight: Sight) -> None:
    stream = logged("json", "INFO")
    token = await sight.token("send:*", namespace="acme")
    await sight.get("/metrics", authorization=token)
    secret = token.split("_", 2)[2]
    assert secret not in stream.getvalue()
    (document,) = documents(stream)
    assert document["namespace"] == "acme"
    assert document["token"] == token.removeprefix("Bearer tbt_")[:12]
    assert document["status"] == 403


@each("wanted", [False, True])
async def test_only_what_failed_is_logged_unless_all_is_wanted(wanted: bool) -> None:
    stream = logged("text", "INFO")
    async with sights.sight(access_log=wanted) as one:
        await one.get("/v1")
        await one.get("/livez")
    assert ("GET /v1 " in stream.getvalue()) == wanted
    assert "/livez" not in stream.getvalue()


@looking()
async def test_a_path_cannot_forge_a_line(sight: Sight) -> None:
    stream = logged("text", "INFO")
    await sight.get("/a%0A2026-01-01T00:00:00.000Z%20ERROR%20forged")
    await sight.get("/a%20status=200%20token=owner")
    await sight.get("/" + "a" * 1_000)
    await sight.get(f"/v1/queues/tbt_abcdefghijkl_{SECRET}/stats")
    lines = stream.getvalue().splitlines()
    assert len(lines) == 4
    assert leaks(stream) == []
    assert all(line.count(" status=") == 1 for line in lines)
    assert "token=" not in lines[1].split()
    assert " token=" not in lines[1]
    assert all(len(line) < 500 for line in lines)


@each("given", ["abc-1", "0123456789abcdef.x_y"])
@looking()
async def test_a_sane_request_id_is_taken_over(sight: Sight, given: str) -> None:
    answer = await sight.get("/livez", **{"x-request-id": given})
    assert answer.headers["x-request-id"] == given


@pytest.mark.slow
@pytest.mark.parametrize("given", ["", "a b", "x" * 200, "<script>", "-"])
@looking()
async def test_any_other_request_id_is_replaced(sight: Sight, given: str) -> None:
    first = (await sight.get("/livez", **{"x-request-id": given})).headers["x-request-id"]
    second = (await sight.get("/livez")).headers["x-request-id"]
    assert len(first) == 16
    assert first not in (given, second)


async def test_a_bug_is_an_answer_and_a_line() -> None:
    stream = logged("json")
    app = create_app(Talkative(RuntimeError(SECRET)), ServerOptions(auth="none"))
    transport = httpx2.ASGITransport(app=app)
    async with httpx2.AsyncClient(transport=transport, base_url="http://localhost") as client:
        answer = await client.get("/v1/queues")
        assert answer.status_code == 500
        assert answer.json()["error"]["code"] == "internal"
        found = [d for d in documents(stream) if d["level"] == "error"]
        assert [d["request_id"] for d in found] == [answer.headers["x-request-id"]]
        assert "RuntimeError" in found[0]["message"]
    app.state.context.lifecycle.close()
