"""Whatever comes in, nothing breaks: no 500, nobody waits for ever, and the next one is served.

What is sent is drawn by chance; a failure tells the seed, and `TURNABOUT_FUZZ_SEED` repeats it.
"""

import contextlib
import json
import os
import random
import re
import time
from collections import Counter
from collections.abc import Iterator
from typing import Any
from urllib.parse import quote

import pytest

from tests.server.running import Client, Running, get, post, request, running
from tests.support.until import until
from turnabout.server import ServerOptions

SEED = int(os.environ.get("TURNABOUT_FUZZ_SEED", random.randrange(2**32)))
REQUESTS = 300
CONNECTIONS, WAVES = 80, 4

OPTIONS = ServerOptions(
    auth="none",
    port=0,
    head_seconds=0.2,
    body_idle_seconds=0.2,
    body_seconds=0.2,
    idle_seconds=0.3,
    max_wait_seconds=0.01,
    max_body_bytes=200_000,
)
RECEIPT = "9223372036854775807.2147483647"
STRANGE: list[Any] = [
    *(None, True, 0, -1, 1, 0.5, -0.0, 1e308, 2**31, 2**63, 2**64, 10**400, "1.1", RECEIPT, "0.0"),
    *("", "q", "*", "a/b", "../..", "\x00", "\ud800", "\u202e", "é" * 300, "x" * 70_000, "'; drop"),
    *("1.", "none", "NaN", "00" * 16, "2020-01-01", "application/json", "a\r\nb: c"),
    *([], [[]], {}, [1], ["1.1"] * 3, [None], {"": 0}, {"a": {"b": [1]}}),
]
WORDS = """
    messages payload json text base64 content_type headers channel priority delay_seconds
    ttl_seconds dedup_key dedup_mode dedup_window_seconds receipts receipt deferrals failures error
    retry state ids limit after_id cursor wait_seconds lease_seconds max_messages seen instance
    queue name kind settings changes max_attempts dead_letter policy max_concurrency rate weight
    schedule cron every_seconds zone missed due_at next_at verbs verb target outcome from until
    shard turn visibility_timeout_seconds hashCode expiresIn amount offset filter replace key hash
    confirm
""".split()  # noqa: SIM905 - words are read more easily without their quotes
BODIES = [b"[" * 50_000, b'{"a":' * 30_000, b"\xff\xfe", b"nul", b'{"a":1,"a":2}', b"NaN", b"1e999"]


@pytest.fixture(scope="module")
def server() -> Iterator[Running]:
    with running(OPTIONS) as running_server:
        running_server.ask(post("/v1/queues", {"queue": "q"}))
        yield running_server
        assert bugs(running_server) == [], f"TURNABOUT_FUZZ_SEED={SEED}"


def bugs(server: Running) -> list[Any]:
    """Requests that ended in a 500, as the server counts them, though nobody read the answer."""
    samples = [s for f in server.context.counts.registry.collect() for s in f.samples]
    return [s.labels for s in samples if s.labels.get("status") in ("500", "502")]


# --- requests with strange contents --------------------------------------------------------------


class Draw:
    """Requests drawn by chance."""

    def __init__(self, chance: random.Random, routes: list[tuple[str, str]]) -> None:
        self.chance = chance
        self.routes = routes

    def one(self) -> tuple[str, bytes]:
        """What it is, and its bytes."""
        method, path = self.chance.choice(self.routes)
        target = re.sub(r"\{[^}]*\}", self._segment, path)
        if self.chance.random() < 0.5:
            pairs = [f"{self.word()}={self._quoted()}" for _ in range(self.chance.randint(1, 3))]
            target += "?" + "&".join(pairs)
        headers = [] if method == "GET" else ["Content-Type: application/json"]
        if self.chance.random() < 0.1:
            name = self.chance.choice(["Idempotency-Key", "Last-Event-ID", "Authorization"])
            headers.append(
                f"{name}: {self.chance.choice(['x' * 300, '-1', 'Basic !', 'Bearer tbt_'])}"
            )
        body = b"" if method == "GET" else self._body()
        return f"{method} {target[:200]} {body[:200]!r}", request(
            method, target, *headers, body=body
        )

    def word(self) -> str:
        return self.chance.choice(WORDS)

    def value(self, depth: int = 0) -> Any:
        draw = self.chance.random()
        if depth > 3 or draw < 0.5:
            return self.chance.choice(STRANGE)
        if draw < 0.6:
            return [self.value(depth + 1) for _ in range(self.chance.randint(1, 3))]
        return {self.word(): self.value(depth + 1) for _ in range(self.chance.randint(1, 4))}

    def _body(self) -> bytes:
        draw = self.chance.random()
        if draw < 0.05:
            return self.chance.choice(BODIES)
        if draw < 0.5:  # a message at least looks like one
            return json.dumps(
                {"messages": [{"payload": {"json": 1}, self.word(): self.value()}]}
            ).encode()
        return json.dumps(self.value(1 if draw < 0.9 else 4)).encode()

    def _segment(self, _: object) -> str:
        return "q" if self.chance.random() < 0.6 else self._quoted()

    def _quoted(self) -> str:
        value = self.chance.choice(STRANGE)
        text = value if isinstance(value, str) else json.dumps(value)
        return quote(text[:3_000].encode("utf-8", "surrogatepass"), safe="") or "_"


def routes_of(server: Running) -> list[tuple[str, str]]:
    """Every method and path of every API."""
    found: list[tuple[str, str]] = []
    for route in server.routes():
        methods = getattr(route.endpoint, "handlers", None) or getattr(route, "methods", None) or ()
        found += [(method, route.path) for method in sorted(methods) if method != "HEAD"]
    assert {path.split("/")[1] for _, path in found} >= {"v1", "queues", "queue", "metrics"}
    return found


@pytest.mark.slow
def test_strange_requests(server: Running) -> None:
    draw = Draw(random.Random(SEED), routes_of(server))
    seen: set[int] = set()
    with contextlib.ExitStack() as stack:
        client = stack.enter_context(server.connect())
        for _ in range(REQUESTS):
            what, data = draw.one()
            try:
                answer = client.ask(data)
            except ConnectionError:  # it had hung up after the answer before
                client = stack.enter_context(server.connect())
                answer = client.ask(data)
            seen.add(answer.status)
            assert answer.status < 500, (SEED, what, answer)
            if answer.status >= 400 and " /v1/" in what:
                error = json.loads(answer.body)["error"]
                assert error["code"], (SEED, what)
                assert not re.search("Traceback|site-packages|sqlite3", error["message"]), what
    assert {200, 400, 404} <= seen
    assert bugs(server) == []


# --- what the document allows --------------------------------------------------------------------

EXAMPLES = 5


@pytest.fixture
def patient() -> Iterator[Running]:
    """A server that hangs up on nobody while he thinks of his next request."""
    with running(
        ServerOptions(auth="none", port=0, max_wait_seconds=0.01, max_body_bytes=200_000)
    ) as server:
        server.ask(post("/v1/queues", {"queue": "q"}))
        yield server


@pytest.mark.slow
def test_what_the_document_allows(patient: Running) -> None:
    """Every operation, with requests that its schema allows: what is answered, it allows, too."""
    # Not above: they take a second, and the quick tests do without.
    import requests
    import schemathesis
    from hypothesis import HealthCheck, Phase, given, seed, settings
    from hypothesis.strategies import booleans
    from schemathesis.checks import not_a_server_error
    from schemathesis.specs.openapi import checks

    conforms = [
        not_a_server_error,
        checks.status_code_conformance,
        checks.content_type_conformance,
        checks.response_schema_conformance,
    ]
    few = settings(
        max_examples=EXAMPLES,
        database=None,
        deadline=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    schema = schemathesis.openapi.from_dict(json.loads(patient.ask(get("/v1/openapi.json")).body))
    schema.config.update(base_url=f"http://127.0.0.1:{patient.port}")
    answered: Counter[int] = Counter()
    with requests.Session() as session:
        for found in schema.get_all_operations():
            operation = found.ok()

            @seed(SEED)
            @few
            @given(case=operation.as_strategy(), ours=booleans())
            def check(case: schemathesis.Case, ours: bool) -> None:
                if ours and "queue" in case.path_parameters:
                    case.path_parameters["queue"] = "q"  # one that there is
                response = case.call(session=session)
                answered[response.status_code] += 1
                case.validate_response(response, checks=conforms)

            check()
    assert answered[200] > 50
    assert bugs(patient) == []


# --- bytes that are hardly requests --------------------------------------------------------------

SEEDS = [
    get("/v1"),
    get("/v1/queues/q/messages?limit=3"),
    post("/v1/queues/q/messages", {"messages": [{"payload": {"text": "hello"}}]}),
    request("POST", "/queue/q/push", "Transfer-Encoding: chunked")
    + b"2\r\n{}\r\n0\r\nA: b\r\n\r\n",
    request("PUT", "/queues/q?max_attempts=3", "Expect: 100-continue", body=b"{}"),
    get("/queues/q/receive", "Connection: Upgrade", "Upgrade: h2c"),
]


def mutated(chance: random.Random) -> bytes:
    """One or more requests with something wrong with them."""
    data = bytearray(b"".join(chance.choices(SEEDS, k=chance.choice([1, 1, 2, 5]))))
    for _ in range(chance.randint(0, 4)):
        at = chance.randrange(len(data))
        match chance.randrange(5):
            case 0:
                data[at] = chance.randrange(256)
            case 1:
                del data[at : at + chance.randint(1, 20)]
            case 2:
                data[at:at] = chance.choice([b"\r\n", b"\x00", b":", b" ", b"\r", b"9" * 30, b"%"])
            case 3:
                data[at:at] = data[at : at + 50]
            case _:
                data[at:at] = chance.randbytes(chance.randint(1, 40))
        if not data:
            return b"\n"
    return bytes(data)


@pytest.mark.slow
def test_strange_bytes(server: Running) -> None:
    chance = random.Random(SEED)
    for _ in range(WAVES):
        with contextlib.ExitStack() as stack:
            clients = [stack.enter_context(server.connect()) for _ in range(CONNECTIONS)]
            for client in clients:
                client.send(mutated(chance))
            assert server.ask(get()).status == 200
            for client in clients:
                client.finish()
        until(lambda: server.context.connections() == 0)
        assert bugs(server) == [], SEED
    assert server.context.admission.requests == server.context.admission.waiting == 0


# --- two hundred who are slow --------------------------------------------------------------------


@pytest.mark.slow
def test_the_slow_keep_nobody_waiting() -> None:
    """Clients that send a byte now and then, or take none, while others are served as before."""
    options = ServerOptions(
        auth="none", port=0, head_seconds=1, body_idle_seconds=1, write_seconds=1
    )
    with running(options) as server, contextlib.ExitStack() as stack, server.connect() as normal:
        sends = post("/v1/queues/q/messages", {"messages": [{"payload": {"text": "hello"}}]})
        alone = worst_of(normal, sends)
        slow = [stack.enter_context(server.connect()) for _ in range(200)]
        for n, client in enumerate(slow):
            client.send([b"G", b"GET /livez HTTP/1.1\r\nX: ", sends[:-1]][n % 3])
        until(lambda: server.context.connections() == 201)
        beside = worst_of(normal, sends)
        assert beside < max(10 * alone, 0.4), (alone, beside)
        until(lambda: server.context.connections() == 1)
        assert normal.ask(get()).status == 200


def worst_of(client: Client, sends: bytes) -> float:
    """What nine of ten requests take at most, in seconds: a busy machine may stop a few."""
    took: list[float] = []
    for _ in range(100):
        began = time.perf_counter()
        assert client.ask(sends).status == 200
        took.append(time.perf_counter() - began)
    return sorted(took)[-10]
