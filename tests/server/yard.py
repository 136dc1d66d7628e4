"""Tenants of one server, in this process: requests go through the app, but for the sockets."""

import asyncio
import json
from collections.abc import Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import unquote

import turnabout.aio
from tests.support.doors import Clock
from tests.support.loops import inside
from turnabout import wire
from turnabout.server import ServerOptions, create_app
from turnabout.server.context import ServerContext
from turnabout.server.verbs import (
    Namespace,
    NamespaceSet,
    Token,
    TokenCreate,
    new_token,
    scopes,
    token_text,
)
from turnabout.store import AsyncStore
from turnabout.words.verbs import Verb


@dataclass
class Answer:
    """What a request was answered."""

    status: int
    body: bytes
    headers: dict[str, str]

    @property
    def code(self) -> str:
        """Of an error."""
        return json.loads(self.body)["error"]["code"]


class Seconds:
    """A clock that goes when a test says so."""

    def __init__(self) -> None:
        self.now = 1_000.0

    def __call__(self) -> float:
        return self.now


@dataclass
class Yard:
    """A server over a database, and its clock."""

    store: AsyncStore
    context: ServerContext
    app: Any
    clock: Clock
    tokens: dict[str, Token] = field(default_factory=dict[str, Token])
    """By their text."""
    seconds: Seconds = field(default_factory=Seconds)

    async def token(
        self, namespace: str, *wanted: str, lifetime_ms: int | None = None, **quotas: int
    ) -> str:
        """A new token's text."""
        if quotas:
            await self.store.run(NamespaceSet(Namespace(namespace, **quotas)))
        id_, secret, digest = new_token()
        kept = scopes(wanted or ["operate"])
        verb = TokenCreate(id_, digest, namespace, "", kept, lifetime_ms)
        text = token_text(id_, secret)
        self.tokens[text] = await self.store.run(verb)
        return text

    async def ask(
        self,
        method: str,
        target: str,
        body: bytes = b"",
        *headers: tuple[str, str],
        client: tuple[str, int] | None = ("127.0.0.1", 50_000),
    ) -> Answer:
        """A request, as a server would hand it to the app."""
        path, _, query = target.partition("?")
        told = [(b"host", b"127.0.0.1:8080"), (b"content-length", str(len(body)).encode())]
        told += [(name.lower().encode(), value.encode("latin-1")) for name, value in headers]
        scope = {
            "type": "http", "http_version": "1.1", "method": method, "scheme": "http",
            "path": unquote(path), "raw_path": path.encode(), "query_string": query.encode(),
            "root_path": "", "headers": told, "client": client, "server": ("127.0.0.1", 8080),
            "state": {},
        }  # fmt: skip
        parts = [{"type": "http.request", "body": body, "more_body": False}]
        sent: list[Any] = []

        async def receive() -> Any:
            if parts:
                return parts.pop()
            await asyncio.Event().wait()  # the client stays

        async def send(message: Any) -> None:
            sent.append(message)

        await self.app(scope, receive, send)
        start, *rest = sent
        return Answer(
            start["status"],
            b"".join(part.get("body", b"") for part in rest),
            {name.decode(): value.decode() for name, value in start["headers"]},
        )

    async def run(self, token: str, verb: Verb[Any]) -> Answer:
        """A verb, over its route."""
        request = wire.request_of(verb)
        shown = ("Authorization", f"Bearer {token}")
        return await self.ask(request.method, request.path, request.body, shown)

    async def done(self, token: str, verb: Verb[Any]) -> Any:
        """The outcome of a verb. Raises: the error that was answered."""
        answer = await self.run(token, verb)
        if answer.status >= 400 and b'"outcome"' not in answer.body[:20]:
            raise wire.load_error(answer.status, answer.body)
        return wire.load_answer(type(verb), answer.body)


@asynccontextmanager
async def yard(url: str, options: ServerOptions | None = None) -> Any:
    """A server over that database."""
    clock = Clock()
    async with turnabout.aio.connect(url, clock=clock) as mq:
        app = create_app(mq.store, options or ServerOptions())
        yield Yard(mq.store, app.state.context, app, clock)


@asynccontextmanager
async def ticking(url: str = "sqlite://", **options: Any) -> Any:
    """A server whose authenticator has a clock of its own."""
    async with yard(url, ServerOptions(**options)) as one:
        one.context.authenticator._clock = one.seconds
        yield one


def there(**options: Any) -> Any:
    """Run a test at a server in memory with these options."""
    return inside(ticking, **options)


def texts(answers: Sequence[Answer]) -> bytes:
    """All that was said, in one."""
    return b"\n".join(answer.body for answer in answers)
