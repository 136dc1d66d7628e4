"""Settings that two change at once: no ring of dead-letter queues, and no change is undone."""

import itertools
import json
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from typing import Any

import psycopg
import pytest
from psycopg.errors import LockNotAvailable

from tests.support.postgres import one_migrated_url

numbers = itertools.count(1)
Connection = psycopg.Connection[Any]


url = one_migrated_url


@pytest.fixture
def pair(url) -> Iterator[tuple[Connection, Connection]]:
    """Two connections, each with a transaction that ends when the test says so."""
    with ExitStack() as stack:
        one, two = (stack.enter_context(psycopg.connect(url)) for _ in range(2))
        yield one, two


@pytest.fixture
def names(pair) -> list[str]:
    """Two queues that are there, and a name of none."""
    made = [f"grave{next(numbers)}" for _ in range(3)]
    for name in made[:2]:
        pair[0].execute("select turnabout.queue_create(%s)", [name])
    pair[0].commit()
    return made


def update(db: Connection, queue: str, **changes: Any) -> None:
    db.execute("select turnabout.queue_update(%s, %s)", [queue, json.dumps(changes)])


def create(db: Connection, queue: str, grave: str) -> None:
    settings = json.dumps({"dead_letter": grave})
    db.execute("select turnabout.queue_create(%s, %s)", [queue, settings])


def meanwhile(pair: tuple[Connection, Connection], action: Callable[[], None]) -> Exception | None:
    """The second one's action, begun while the first one's transaction is open and waiting for it,
    or at its end before; then that commits. What the action and its commit raised.
    """
    one, two = pair

    def act() -> None:
        action()
        two.commit()

    with ThreadPoolExecutor(1) as threads:
        done: Future[None] = threads.submit(act)
        waits = "select 1 from pg_locks where not granted and pid = %s"
        while not done.done() and not one.execute(waits, [two.info.backend_pid]).fetchone():
            time.sleep(0.01)
        one.commit()
        error = done.exception(30)
    two.rollback()
    assert error is None or isinstance(error, psycopg.Error)
    return error


def graves(db: Connection, *queues: str) -> list[str | None]:
    rows = db.execute(
        "select (select q.dead_letter from turnabout.queue q where q.name = n.name)"
        " from unnest(%s::text[]) with ordinality n (name, nr) order by n.nr",
        [list(queues)],
    ).fetchall()
    db.commit()
    return [row[0] for row in rows]


def test_two_that_name_each_other_at_once_make_no_ring(pair, names):
    (one, two), (a, b, _) = pair, names
    update(one, a, dead_letter=b)
    refused = meanwhile(pair, lambda: update(two, b, dead_letter=a))
    assert refused is not None
    assert refused.sqlstate == "PQ409"
    assert graves(one, a, b) == [b, f"{b}-dead"]


@pytest.mark.parametrize("first", ["update", "create"])
def test_a_queue_that_is_made_at_once_closes_no_ring(pair, names, first):
    (one, two), (a, _, new) = pair, names
    if first == "update":
        update(one, a, dead_letter=new)
        refused = meanwhile(pair, lambda: create(two, new, a))
        assert refused is None, "it was there, and was left as it is"
        assert graves(one, a, new) == [new, None]
    else:
        create(one, new, a)
        refused = meanwhile(pair, lambda: update(two, a, dead_letter=new))
        assert refused is not None
        assert refused.sqlstate == "PQ409"
        assert graves(one, a, new) == [f"{a}-dead", a]


def test_a_dead_letter_queue_that_is_made_by_default_closes_no_ring(pair, names):
    (one, two), (a, _, new) = pair, names
    create(one, f"{new}-dead", a)
    one.commit()
    one.execute("select turnabout.send(%s, '{x}')", [new])
    refused = meanwhile(pair, lambda: update(two, a, dead_letter=new))
    assert refused is not None
    assert refused.sqlstate == "PQ409"


def test_who_holds_other_things_does_not_wait_long(pair, names):
    (one, two), (a, b, _) = pair, names
    update(one, a, dead_letter=b)
    two.execute("select turnabout.send(%s, '{x}')", [b])
    with pytest.raises(LockNotAvailable):
        update(two, b, dead_letter=a)


def test_two_changes_at_once_are_both_made(pair, names):
    (one, two), (a, *_) = pair, names
    update(one, a, max_attempts=7)
    assert meanwhile(pair, lambda: update(two, a, lease_ms=9000)) is None
    row = one.execute("select max_attempts, lease_ms from turnabout.queue_list(%s)", [a]).fetchone()
    assert row == (7, 9000)
