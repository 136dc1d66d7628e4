"""Verbs in one transaction, and connections that break on the way: all of it or nothing."""

import asyncio
from collections.abc import Iterator
from typing import Any

import psycopg
import pytest

from tests.support.postgres import migrated_url
from turnabout import Disconnected, Uncertain
from turnabout.postgres._async.libpq import AsyncConnection
from turnabout.postgres._async.store import AsyncPostgresStore
from turnabout.postgres._sync.libpq import LibpqConnection
from turnabout.postgres._sync.store import PostgresStore
from turnabout.words import verbs as v
from turnabout.words.entities import Outgoing
from turnabout.words.outcomes import Sent

pytestmark = pytest.mark.slow  # a database for each

HI = (Outgoing(b"hi"),)
BEGIN, FIRST, SECOND, COMMIT = range(4)


url = migrated_url


class CutStore:
    """A store of either colour, whose connection is cut before a statement of the next call."""

    def __init__(self, url: str, colour: str, patch: pytest.MonkeyPatch) -> None:
        self.url = url
        self.colour = colour
        self.runner = asyncio.Runner()
        self.cut: int | None = None
        self.statements = 0
        kind = LibpqConnection if colour == "sync" else AsyncConnection
        run = kind.run

        def counted(connection: Any, sql: Any, parameters: Any, **more: Any) -> Any:
            if self.cut == self.statements:
                self.cut = None
                kill(self.url, connection.raw.info.backend_pid)
            self.statements += 1
            return run(connection, sql, parameters, **more)

        patch.setattr(kind, "run", counted)
        made = PostgresStore if colour == "sync" else AsyncPostgresStore
        self.store: Any = made(url)

    def call(self, name: str, *args: Any) -> Any:
        self.statements = 0
        answer = getattr(self.store, name)(*args)
        return answer if self.colour == "sync" else self.runner.run(answer)

    def close(self) -> None:
        self.call("close")
        self.runner.close()


def kill(url: str, pid: int) -> None:
    with psycopg.connect(url, autocommit=True) as db:
        db.execute("select pg_terminate_backend(%s, 5000)", [pid])


@pytest.fixture(params=["sync", "async"])
def store(url, request, monkeypatch) -> Iterator[CutStore]:
    made = CutStore(url, request.param, monkeypatch)
    for queue in ("a", "b"):
        made.call("run", v.Send(queue, HI))
    yield made
    made.close()


def ready(url: str) -> int:
    with psycopg.connect(url, autocommit=True) as db:
        ((count,),) = db.execute("select count(*) from turnabout.message where id > 0")
    return count


SENDS = (v.Send("a", HI), v.Send("b", HI))


def test_a_connection_that_was_cut_before_is_replaced(store, url):
    store.cut = BEGIN
    store.call("run_transaction", SENDS)
    assert ready(url) == 4


@pytest.mark.parametrize("cut", [FIRST, SECOND])
def test_cut_before_the_commit_nothing_happened(store, url, cut):
    store.cut = cut
    with pytest.raises(Disconnected):
        store.call("run_transaction", SENDS)
    assert ready(url) == 2
    store.call("run_transaction", SENDS)
    assert ready(url) == 4


def test_cut_at_the_commit_it_may_have_happened(store, url):
    store.cut = COMMIT
    with pytest.raises(Uncertain):
        store.call("run_transaction", SENDS)
    assert ready(url) == 2


def test_a_large_purge_is_one_transaction_here(store, url):
    many = tuple(Outgoing(b"x") for _ in range(6_000))
    for _ in range(2):
        store.call("run", v.Send("a", many))
    purged, sent = store.call("run_transaction", [v.Purge("a"), v.Send("a", HI)])
    assert purged.messages == 12_001
    assert isinstance(sent, Sent)
    assert ready(url) == 2
