"""Who waits says so: what roles say of it is bounded, and is about themselves."""

import psycopg
import pytest

from tests.postgres.asking import ask
from tests.sql.test_hostile import REFUSED, consumer

__all__ = ["consumer"]

pytestmark = pytest.mark.slow  # a database for each

WAITS = (
    "select turnabout.add_waiters(%s, q, array_fill(3::smallint, array[cardinality(q)]), %s)"
    " from (select %s::text[] as q) s"
)
WAITING = "select process, until - turnabout.clock_ms() from turnabout.waiter order by 1"


def wait(url: str, process: str, queues: list[str], valid_ms: int) -> None:
    ask(url, WAITS, process, valid_ms, queues)


def test_who_waits_is_notified_whatever_others_say(owner, consumer):
    """The name of a process becomes that of a channel of PostgreSQL's, which has 63 bytes: one that
    is longer would fail every call that notifies in its queue.
    """
    with pytest.raises(REFUSED):
        wait(consumer, "x" * 54, ["q"], 60_000)
    wait(consumer, "x" * 53, ["q"], 60_000)
    ask(owner, "select turnabout.notify_waiters('q')")


def test_a_waiter_is_for_a_minute_and_of_its_own_role(owner, role, consumer):
    wait(consumer, "p", ["q"], 2**31 - 1)
    other = role("consume")
    ask(other, "select turnabout.remove_waiters('p')")
    wait(other, "p", ["q"], 1)
    ((_, left), (_, one)) = sorted(ask(owner, WAITING), reverse=True)
    assert one <= 1 < left <= 60_000
    with pytest.raises(REFUSED, match="at most 1,000 queues in one call"):
        wait(consumer, "p", ["q"] * 1_001, 1)
    ask(consumer, "select turnabout.remove_waiters('p')")
    assert len(ask(owner, WAITING)) == 1


def test_a_producer_does_not_wait_and_notifies_where_it_sends(owner, role):
    producer = role("produce", queues=["orders*"])
    for refused in (
        lambda: wait(producer, "p", ["orders"], 1),
        lambda: ask(producer, "select turnabout.remove_waiters('p')"),
        lambda: ask(producer, "select turnabout.notify_waiters('victim')"),
    ):
        with pytest.raises((psycopg.errors.InsufficientPrivilege, psycopg.errors.CheckViolation)):
            refused()
    ask(producer, "select turnabout.notify_waiters('orders2')")


def test_made_up_waiters_end_where_they_would_be_too_many(owner, consumer):
    wait(consumer, "p", ["q"], 60_000)
    made_up = "select 0, 1, 'x' || g, 'made up', 0 from generate_series(1, 250000) g"
    ask(owner, f"insert into turnabout.waiter {made_up}")
    ask(owner, "analyze turnabout.waiter")  # its count is seen at once, unless they are one
    wait(consumer, "p2", ["q"], 60_000)
    assert [process for process, _ in ask(owner, WAITING)] == ["p"]
