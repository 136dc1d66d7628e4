"""A real server for a test of the doors, on each database, with the test's clock."""

import http.client
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

import turnabout
from tests.support.doors import Clock
from tests.support.files import put_file
from tests.support.postgres import migrated
from tests.support.served import Server, served
from turnabout.server.verbs import TokenCreate, new_token, scopes, token_text


@dataclass
class Place:
    """A server, its database and its clock, and a way to ask it."""

    server: Server
    database: str
    clock: Clock

    @property
    def url(self) -> str:
        return self.server.url

    def token(self, *allowed: str, namespace: str) -> str:
        """A token of that namespace."""
        token_id, secret, digest = new_token()
        verb = TokenCreate(token_id, digest, namespace, "test", scopes(allowed))
        with turnabout.connect(self.database, clock=self.clock) as mq:
            mq.store.run(verb)
        return token_text(token_id, secret)

    def restart(self) -> None:
        """Another process, as far as anybody can tell."""
        self.server.stop()
        self.server.start()

    def ask(self, what: str, body: Any = None, **headers: str) -> "Answer":
        """`ask("POST /queue/a/push", {"a": 1})`: what it answers."""
        method, path = what.split(" ")
        place = urlsplit(self.url)
        connection = http.client.HTTPConnection(place.hostname or "", place.port, timeout=20)
        try:
            data = body if isinstance(body, (bytes, str)) or body is None else json.dumps(body)
            connection.request(
                method, path, data, {k.replace("_", "-"): v for k, v in headers.items()}
            )
            got = connection.getresponse()
            text = got.read().decode()
        finally:
            connection.close()
        return Answer(got.status, {k.lower(): v for k, v in got.getheaders()}, text)


@dataclass
class Answer:
    status: int
    headers: dict[str, str]
    text: str

    @property
    def json(self) -> Any:
        return json.loads(self.text)

    @property
    def fence(self) -> str | None:
        return self.headers.get("turnabout-fence")


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=pytest.mark.slow)])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Place]:
    """Each database in turn."""
    clock = Clock()
    if request.param == "sqlite":
        database = put_file(tmp_path / "app.db")
        with served(database, clock=clock) as server:
            yield Place(server, database, clock)
        return
    with migrated() as database, served(database, clock=clock) as server:
        yield Place(server, database, clock)
