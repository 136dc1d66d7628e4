"""Batches: however a send is cut into statements, and whichever way a receive reads its rows."""

import sqlite3

import pytest

from tests.support.each import each
from turnabout.sqlite._statements import among
from turnabout.sqlite.store import SqliteStore
from turnabout.words.entities import Delivery, Outgoing, Turn
from turnabout.words.outcomes import Sent
from turnabout.words.value import replace
from turnabout.words.verbs import Peek, PolicySet, Receive, Send

COUNTS = (1, 2, 3, 99, 100, 101, 288)


def kept(store: SqliteStore, queue: str) -> list[Outgoing]:
    return [
        Outgoing(p.payload, p.content_type, p.channel, p.priority, headers=dict(p.headers) or None)
        for p in store.run(Peek(queue, limit=1000))
    ]


@pytest.mark.parametrize("channels", [1, 3])
@pytest.mark.parametrize("count", COUNTS)
def test_messages_that_are_alike_keep_their_order(store, count, channels):
    messages = tuple(
        Outgoing(b"%d" % n, channel=f"c{n % channels}", priority=2) for n in range(count)
    )
    sent = store.run(Send("q", messages))
    assert isinstance(sent, Sent)
    assert [p.id for p in store.run(Peek("q", limit=1000))] == list(sent.ids)
    assert kept(store, "q") == list(messages)


@pytest.mark.parametrize("count", COUNTS)
def test_so_do_messages_that_are_not(store, count):
    messages = tuple(
        Outgoing(b"%d" % n, channel="c", priority=n % 2, headers={"n": str(n)} if n % 5 else None)
        for n in range(count)
    )
    store.run(Send("q", messages))
    assert kept(store, "q") == list(messages)


def test_headers_that_all_share_are_kept_by_each(store):
    messages = [Outgoing(b"%d" % n, headers={"a": "b"}) for n in range(120)]
    store.run(Send("q", tuple(messages)))
    assert kept(store, "q") == messages


@pytest.mark.parametrize("odd", [{"headers": {"a": "b"}}, {"priority": 1}, {"content_type": "x"}])
def test_one_odd_message_among_many_stays_as_it_is(store, odd):
    messages = [Outgoing(b"x") for _ in range(60)]
    messages[30] = replace(messages[30], **odd)
    store.run(Send("q", tuple(messages)))
    assert kept(store, "q") == messages


def test_delayed_and_limited_ones_among_others(store):
    store.run(Send("q", (Outgoing(b"x"),)))
    store.run(PolicySet("q", "limited", {"max_concurrency": 1}))
    messages = tuple(
        Outgoing(
            b"%d" % n, channel="limited" if n % 2 else "free", delay_ms=60_000 if n == 7 else None
        )
        for n in range(12)
    )
    store.run(Send("q", messages))
    assert kept(store, "q")[1:] == [replace(m, delay_ms=None) for m in messages]
    assert [p.state for p in store.run(Peek("q", limit=1000))].count("scheduled") == 1
    given = store.run(Receive("q", 100)).deliveries
    assert sorted(d.channel for d in given) == ["", *["free"] * 6, "limited"]


@each(
    "ids",
    [
        *([7], [1, 2, 3], [3, 1, 2], [1, 3], [1, 1, 3], [2, 2], [5, 9, 5, 6]),
        *(range(1, 64), range(1, 1_500), [*range(1, 1_500), 1_999]),
    ],
)
def test_a_statement_meets_the_ids_it_was_given_and_no_others(ids):
    connection = sqlite3.connect(":memory:")
    connection.execute("create table t (id integer primary key, x integer)")
    connection.executemany("insert into t values (?, 0)", ((id_,) for id_ in range(1, 2_001)))
    statement = "update t set x = ? where id in (?) and x = ?"
    connection.execute(*among(statement, (1,), ids, (0,)))
    met = connection.execute("select id from t where x = 1").fetchall()
    connection.close()
    assert met == [(id_,) for id_ in sorted(set(ids))]


def deliveries(store: SqliteStore, queue: str, most: int) -> list[Delivery]:
    found = store.run(Receive(queue, most, lease_ms=9_000)).deliveries
    return sorted(d._replace(id=0, sent_at=0, lease_until=0) for d in found)


@pytest.mark.parametrize("most", [1, 3, 45, 100])
def test_a_limited_channel_elsewhere_changes_no_delivery(store, most):
    """Without one awake, rows are read once, whole; with one, ids first and then the rows."""
    messages = tuple(
        Outgoing(b"%d" % n, channel=f"c{n * n % 7}", headers={"n": "1"} if n == 5 else None)
        for n in range(70)
    )
    for queue in ("free", "mixed"):
        store.run(Send(queue, messages))
    store.run(PolicySet("mixed", "z", {"max_concurrency": 9}))
    for _ in range(3):
        store.run(Send("mixed", (Outgoing(b"z", channel="z", delay_ms=60_000),)))  # it stays awake
        assert deliveries(store, "free", most) == deliveries(store, "mixed", most)


@pytest.mark.parametrize("most", [1, 2, 50])
def test_after_a_channel_that_was_alone_another_one_has_its_turn(store, most):
    store.run(Send("q", tuple(Outgoing(b"x", channel="b") for _ in range(200))))
    assert {d.channel for d in store.run(Receive("q", most)).deliveries} == {"b"}
    alone = Receive("q", most, turn=Turn("b", most))
    assert [d.channel for d in store.run(alone).deliveries] == ["b"] * most
    store.run(Send("q", (Outgoing(b"x", channel="a"), Outgoing(b"x", channel="c"))))
    first, *others = (d.channel for d in store.run(alone).deliveries)
    assert first == "c"
    assert set(others) == {"a", "b"} if most > 2 else set(others) <= {"a"}
