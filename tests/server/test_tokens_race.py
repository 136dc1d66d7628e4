"""A token made while its namespace is deleted: none is left without one (PostgreSQL)."""

import threading

import psycopg
import pytest

from tests.races.stage import transaction
from tests.support.doors import migrate
from tests.support.postgres import Server, fresh_database
from turnabout.postgres._sync.store import PostgresStore
from turnabout.postgres.revision import schema
from turnabout.server import verbs as c

CREATE = f"select {schema('server')}.token_create(%s, %s, 'acme', '', '[\"peek:*\"]')"
DELETE = f"select {schema('server')}.namespace_delete('acme')"
WAITS = """
select pg_backend_pid() = any (pg_blocking_pids(a.pid)) from pg_stat_activity a where a.pid = %s
"""


@pytest.fixture
def store(postgres_server: Server):
    with fresh_database(postgres_server, fill=migrate) as url:
        store = PostgresStore(url)
        yield store
        store.close()


@pytest.mark.parametrize("deletion_first", [True, False])
def test_whoever_comes_second_waits_and_nothing_is_left_over(store, deletion_first):
    url = store._options.url
    store.run(c.NamespaceSet(c.Namespace("acme", max_messages=5)))
    token_id, _, digest = c.new_token()
    create = (CREATE, (token_id, digest))
    first, second = ((DELETE, ()), create) if deletion_first else (create, (DELETE, ()))
    with transaction(url) as one, psycopg.connect(url, autocommit=True) as two:
        one.execute(*first)
        thread = threading.Thread(target=two.execute, args=second)
        thread.start()
        while one.execute(WAITS, [two.info.backend_pid]).fetchone() != (True,):
            assert thread.is_alive(), "it did not wait"
        one.commit()
        thread.join(10)
    found = store.run(c.TokenFind(token_id))
    assert (found is not None) is deletion_first
    names = [n.name for n in store.run(c.NamespaceList())]
    assert names == (["acme"] if deletion_first else [])
