"""Everyday statements give the answers of the functions that stand behind them."""

import dataclasses
import re
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import psycopg
import pytest
from hypothesis import HealthCheck, given, settings

import turnabout
from tests.postgres.everyday_lives import (
    FAST,
    FIRST,
    KEPT,
    NUMBERS,
    ONE_SLOT,
    SLOW,
    STEPS,
    Always,
    Beside,
    Hurried,
    Lined,
    Looking,
    Received,
    SmallLife,
    Two,
    compare,
    compare_lives,
    two_stores,
)
from tests.support.planted import Bug, planted
from tests.support.postgres import migrated_url, one_migrated_url
from turnabout.postgres import everyday
from turnabout.postgres._sync.libpq import LibpqConnection
from turnabout.postgres._sync.store import PostgresStore
from turnabout.postgres.calls import CALLS, call_of
from turnabout.postgres.notices import NOTIFY_WAITERS
from turnabout.postgres.revision import schema
from turnabout.postgres.source import ROOMS, functions_of, sql_files, text_of
from turnabout.words import verbs as v

url = one_migrated_url
__all__ = ["migrated_url"]
EVERYDAY = {
    "send": CALLS[v.Send].everyday[0],
    "receive": CALLS[v.Receive].everyday[0],
    "receive_many": CALLS[v.Receive].everyday[2],
    "receive_beside": CALLS[v.Receive].everyday[3],
    "next": CALLS[v.Receive].everyday[4],
    "next_kept": CALLS[v.Receive].everyday[5],
    "next_many": CALLS[v.Receive].everyday[8],
    "next_of_line": CALLS[v.Receive].everyday[10],
    "next_of_each": CALLS[v.Receive].everyday[12],
    "ack": CALLS[v.Ack].everyday[0],
    "ack_kept": CALLS[v.Ack].everyday[1],
    "ack_many": CALLS[v.Ack].everyday[2],
}


@pytest.fixture(scope="module")
def two(url) -> Iterator[Two]:
    """Stores for lives that are compared: to connect takes longer than to live."""
    with two_stores(url) as both:
        yield both


@pytest.mark.slow
@settings(
    max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(first=FIRST, steps=STEPS)
def test_a_life_is_the_same_with_and_without_them(two, first, steps):
    compare(two, first, steps)
    compare(two, first, steps, Beside)


def statements_of(monkeypatch: pytest.MonkeyPatch) -> list[bytes]:
    """What blocking connections are asked to run, from now on."""
    asked: list[bytes] = []
    run = LibpqConnection.run

    def noted(self: LibpqConnection, sql: bytes, parameters: Any, **options: Any) -> Any:
        asked.append(sql)
        return run(self, sql, parameters, **options)

    monkeypatch.setattr(LibpqConnection, "run", noted)
    return asked


ORDINARY = [("send", "a", 0, None), ("receive", None), ("ack", 0)]


@pytest.mark.slow
def test_a_plain_queue_needs_nothing_else(url, monkeypatch):
    monkeypatch.setattr(everyday, "PAUSE_SECONDS", 60.0)  # a success is not taken for a miss
    life = SmallLife(PostgresStore(url), everyday.Shortcuts(), {})
    with life.mq:
        life.step(("send", "b", 0, None))
        life.receive(None)  # the first looks for what time has brought
        life.step(("send", "a", 0, None))
        asked = statements_of(monkeypatch)
        for _ in range(3):
            life.step(("send", "a", 0, None))
            life.receive(None)
            life.step(("ack", 0))
    verbs = [sql for sql in asked if sql not in (NOTIFY_WAITERS, everyday.WAITERS)]
    assert verbs == [EVERYDAY[name].sql for name in ("send", "receive", "ack")] * 3


def everyday_statements() -> dict[bytes, str]:
    """All of them, in each form, and their looks."""
    forms = [one for call in CALLS.values() for one in call.everyday]
    forms += {one.look.sql: one.look for one in forms if one.look is not None}.values()
    return {everyday.WAITERS: "waiters"} | {one.sql: one.sql.decode() for one in forms}


def lived_with_each(url: str, monkeypatch: pytest.MonkeyPatch) -> Counter[bytes]:
    """How often each statement answered rows, in a life that has a case for each."""
    answered: Counter[bytes] = Counter()
    run = LibpqConnection.run

    def counted(self: LibpqConnection, sql: bytes, parameters: Any, **options: Any) -> Any:
        rows = run(self, sql, parameters, **options)
        answered[sql] += bool(rows)
        return rows

    monkeypatch.setattr(LibpqConnection, "run", counted)
    with turnabout.connect(url) as mq:
        queue = mq.queue(f"each-{next(NUMBERS)}")
        queue.create(history_seconds=0)
        with psycopg.connect(url) as db:
            waiter = "insert into turnabout.waiter values (%s, 3, %s, 'somebody')"
            db.execute(waiter, (9_000_000_000_000, queue.name))
        for _ in range(6):
            queue.send(b"x", channel="a")
        queue.receive()[0].ack()
        queue.ack([message.receipt for message in queue.receive(2)])
        queue.channel("b").set_policy(ONE_SLOT)
        monkeypatch.setattr(everyday, "PAUSE_SECONDS", 1_000)
        for _ in range(5):  # each of the other forms is tried twice, in vain
            queue.receive()[0].release()
        for kept in (0, 60):
            next_in_each_form(mq, url, kept)
    return answered


def next_in_each_form(mq: turnabout.Turnabout, url: str, kept: int) -> None:
    """Acks with the next receive: one by one, of one channel, of each, and of two."""
    queue = mq.queue(f"next-{next(NUMBERS)}")
    queue.create(history_seconds=kept)
    for channels in ("a", "abcdefgh", "ab"):
        queue.send_many([turnabout.message(b"x", channel=c) for c in channels * 12])
        batch = queue.receive(4)
        for _ in range(4):
            batch = queue.receive(4, acks=batch)
        queue.ack(batch)
        queue.purge()
    queue.send_many([turnabout.message(b"x") for _ in range(5)])
    batch = queue.receive(1)
    for _ in range(3):
        batch = queue.receive(1, acks=batch)
    queue.send_many([turnabout.message(b"x") for _ in range(8)])
    for most in (2, 2, 1, 1):
        queue.ack(queue.receive(most))
    queue.send_many([turnabout.message(b"x") for _ in range(12)])
    with psycopg.connect(url) as db:  # the quick ones find nothing behind a head mark, twice
        mark = f"select {schema()}.insert_head_mark(q.id, '', 0::smallint, 1)"
        mark += " from turnabout.queue q where q.name = %s"
        db.execute(mark.encode(), (queue.name,))
    for _ in range(3):
        queue.ack(queue.receive(1))
    batch = queue.receive(1)
    for _ in range(6):
        batch = queue.receive(1, acks=batch)


def test_each_answers_in_each_of_its_forms(url, monkeypatch):
    """Or its function would do the work, and nobody would notice."""
    answered = lived_with_each(url, monkeypatch)
    assert not [text for sql, text in everyday_statements().items() if not answered[sql]]


@pytest.mark.parametrize(
    ("fault", "told"),
    [
        ("selec {rest}", turnabout.BrokenInvariant),
        ("select {rest} where 'x'::text", turnabout.BrokenInvariant),
        ("select {rest} cross join turnabout.gone", turnabout.WrongVersion),
    ],
)
def test_a_fault_in_a_statement_is_told(url, monkeypatch, fault, told):
    """The function would give the right answer, each time a little later."""
    good, run = EVERYDAY["send"].sql.decode(), LibpqConnection.run
    start, _, rest = good.rpartition("select ")
    bad = (start + fault.format(rest=rest)).encode()

    def spoiled(self: LibpqConnection, sql: bytes, parameters: Any, **options: Any) -> Any:
        return run(self, bad if sql == good.encode() else sql, parameters, **options)

    with turnabout.connect(url) as mq:
        mq.queue("spoiled").create()
        monkeypatch.setattr(LibpqConnection, "run", spoiled)
        with pytest.raises(told):
            mq.queue("spoiled").send(b"x")


@pytest.mark.slow
@pytest.mark.parametrize("channel", ["", "a"])
def test_a_look_finds_that_a_head_mark_is_worth_its_price(migrated_url, channel, monkeypatch):
    with psycopg.connect(migrated_url) as old, closing(PostgresStore(migrated_url)) as store:
        old.execute("set transaction isolation level repeatable read")
        old.execute("select 1")
        store._shortcuts = Looking()
        queue = turnabout.Turnabout(store).queue("dead")
        queue.create(history_seconds=0)
        queue.send_many([turnabout.message(b"x", channel=channel) for _ in range(250)])
        for _ in range(200):
            queue.receive()[0].ack()
        marks = "select count(*) from turnabout.ready where expires_at = 0"
        assert old.execute(marks).fetchone() == (0,)  # as it was
        with psycopg.connect(migrated_url) as db:
            assert db.execute(marks).fetchone() == (1,)
        batch, asked = queue.receive(10), statements_of(monkeypatch)
        for _ in range(4):  # the first finds out that there is one channel, the others begin there
            batch = queue.receive(10, acks=batch)
        assert (len(batch), asked.count(EVERYDAY["next_of_line"].sql)) == (10, 3)


@pytest.mark.slow
def test_a_special_queue_is_left_to_the_function_for_a_while(url, monkeypatch):
    monkeypatch.setattr(everyday, "PAUSE_SECONDS", 60.0)  # however slow the machine is
    life = SmallLife(PostgresStore(url), everyday.Shortcuts(), {"delay_seconds": 1})
    with life.mq:
        asked = statements_of(monkeypatch)
        for _ in range(4):
            life.step(("send", "a", 0, None))
    sends = CALLS[v.Send]
    assert asked.count(sends.sql) == 4
    assert asked.count(EVERYDAY["send"].sql) == 2


@pytest.mark.slow
@pytest.mark.parametrize("why", ["a pooler", "prepare=off"])
def test_functions_alone_are_used_where(why, url, monkeypatch):
    if why == "a pooler":  # it names another process than the server itself does
        settings = everyday.SETTINGS.replace(b"pg_backend_pid()", b"pg_backend_pid() + 1")
        monkeypatch.setattr("turnabout.postgres._sync.libpq.SETTINGS", settings)
    if why == "prepare=off":
        url += "&prepare=off"
    asked = statements_of(monkeypatch)
    with turnabout.connect(url) as mq:
        mq.queue("plain").send(b"x")
        assert mq.queue("plain").receive()[0].ack() == turnabout.Acked()
    assert not {one.sql for one in EVERYDAY.values()} & set(asked)
    with psycopg.connect(url.partition("&prepare")[0]) as db:
        assert db.execute("show enable_seqscan").fetchone() == ("on",)


@pytest.mark.slow
def test_behind_a_pooler_that_forgets_a_statement_is_prepared_again(url):
    with turnabout.connect(url) as mq:
        queue = mq.queue("forgetful")
        queue.send(b"1")
        pool: Any = mq.store._pool  # type: ignore[attr-defined]
        (connection,) = pool._idle
        connection.raw.execute("deallocate all")
        queue.send(b"2")
        # And one that has it already, from somebody else.
        connection._names.clear()
        queue.send(b"3")
        assert [m.payload for m in queue.receive(3)] == [b"1", b"2", b"3"]


@pytest.mark.slow
def test_a_library_that_was_left_behind_does_nothing_more(migrated_url):
    with turnabout.connect(migrated_url) as mq:
        queue = mq.queue("left")
        queue.create(history_seconds=0)
        queue.send_many([turnabout.message(b"1"), turnabout.message(b"2")])
        first, _ = queue.receive(1)[0], queue.send(b"3")
        with psycopg.connect(migrated_url, autocommit=True) as db:
            db.execute(f"drop schema {schema()} cascade".encode())
            for verb in (first.ack, queue.receive, lambda: queue.send(b"4")):
                with pytest.raises(turnabout.WrongVersion):
                    verb()
            assert db.execute("select count(*) from turnabout.message").fetchone() == (3,)
            assert db.execute("select count(*) from turnabout.ready").fetchone() == (2,)


def test_what_a_client_calls_says_how_it_is_planned():
    """Or the settings for everyday statements would plan it. Its own settings come last."""
    called = set(re.findall(r"turnabout_r\d+\.(\w+)\(", "".join(c.text for c in CALLS.values())))
    files = sql_files("turnabout.postgres.sql", *ROOMS)
    plain = {file.name[:-4] for file in files if "-- plans: " not in text_of(file)}
    assert called & plain == {"clock_ms"}  # reads no table
    stats = functions_of(next(file for file in files if file.name == "stats.sql"))
    assert re.findall(r"set plan_cache_mode = (\w+)", stats)[-1] == "force_custom_plan"


SENDS = [("send", channel, priority, None) for channel in ("a", "b") for priority in (5, 0, 0)]
TAKE, BRIEF = ("receive", None), ("send", "a", 0, 2_000)
BARE = {"history_seconds": 0}
LIMITED = [*SENDS, TAKE, ("limit", "a", ONE_SLOT), TAKE]
LIVES = [
    ({}, [*SENDS, TAKE, ("update", KEPT), ("ack", 0), ("update", BARE), ("ack", 1)]),
    ({}, [*SENDS, TAKE, ("update", {"events": "all"}), ("ack", 0)]),
    ({}, [*LIMITED, ("ack", 2), ("ack", 4), TAKE]),
    ({}, [*SENDS, TAKE, ("update", {"paused": True}), TAKE]),
    ({}, [*SENDS, ("receive", 1_000), TAKE, ("later", 1_000), TAKE]),
    ({}, [*SENDS, ("limit", "a", ONE_SLOT), *[TAKE, ("ack", 0)] * 3]),
    ({}, [("limit", "a", ONE_SLOT), TAKE, *SENDS, *[TAKE, ("ack", 0)] * 3]),
    ({"ttl_seconds": 2}, [*SENDS, ("later", 2_000), TAKE]),
    ({"events": "all"}, [*SENDS, TAKE, ("ack", 0)]),
    ({}, [*SENDS, TAKE, ("ack", 0), ("ack", 1), ("ack", 0)]),
    ({"history_seconds": 60}, [*ORDINARY, ("ack", 0)]),
    ({}, [*ORDINARY[:2], ("fail", 0), ("later", 1_000), TAKE, ("ack", 1)]),
    ({"delay_seconds": 1}, [*ORDINARY, ("later", 1_000), TAKE]),
    ({"max_messages": 3}, SENDS),
]
"""Each with what some bug would spoil."""
LIVES += [
    (first, [("batch", 3, step[1]) if step[0] == "receive" else step for step in steps])
    for first, steps in LIVES
] + [
    ({}, [*SENDS, TAKE, ("batch", 3, None)]),
    ({}, [*SENDS, ("batch", 4, None), ("ack", 0), ("ack_batch", 0), ("batch", 2, None)]),
    ({}, [*SENDS, ("batch", 4, None), ("ack_batch", 1), ("ack", 0), ("ack_batch", 0)]),
    ({}, [*SENDS[:5], ("batch", 5, None), ("ack_batch", 0)]),
    ({}, [*SENDS[:4], *SENDS[:3], ("send", "", 0, None), ("batch", 8, None), ("ack_batch", 0)]),
]
"""And the same in batches."""
MANY = [*SENDS, *SENDS]
NEXT = [("next", 0, 1)] * 4
LIVES += [
    (first, [*SENDS, *SENDS, take, *then])
    for first in ({}, KEPT, {**KEPT, "history_payload": True})
    for take in (TAKE, ("batch", 3, None))
    for then in (
        NEXT,
        [("next", 0, 3)] * 3,
        [("next", 1, 3), ("next", 0, 3)],
        [("update", KEPT), *NEXT],
        [("update", BARE), *NEXT],
        [("update", {"paused": True}), *NEXT],
        [("update", {"events": "all"}), *NEXT],
        [("limit", "a", ONE_SLOT), *NEXT],
        [("ack", 0), *NEXT],
        [("ack", 1), ("next", 0, 3)],
        [("fail", 1), ("next", 0, 3)],
        [*[("next", 0, 3)] * 5, ("send", "a", 0, None), *NEXT],
    )
]
"""Acks with the next receive."""
PAYLOAD = {**KEPT, "history_payload": True}
LIVES += [
    (KEPT, [*SENDS, TAKE, ("ack", 0), ("ack", 1), ("ack", 2)]),
    (PAYLOAD, [*SENDS, *[("batch", 3, None), ("ack_batch", 0)] * 2]),
    ({}, [*SENDS, ("batch", 4, None), ("ack_batch", 1), ("ack_batch", 0)]),
]
"""Each form of an ack is taken, once a first one has told that it is the right one."""
LOOKED = [
    ({}, [*SENDS, *SENDS, TAKE, ("later", 60_000), *NEXT]),
    ({}, [*MANY, ("receive", 1_000), ("later", 1_000), TAKE]),
    ({}, [*MANY, TAKE, ("fail", 0), ("later", 1_000), TAKE]),
    ({}, [*SENDS, BRIEF, ("later", 2_000), TAKE]),
    ({"history_seconds": 60}, [BRIEF, *SENDS, ("later", 2_000), TAKE, ("ack", 0)]),
    ({"delay_seconds": 3}, [*MANY, ("later", 2_000), BRIEF, *[("later", 1_000), TAKE] * 2]),
]
"""The same, of lives that differ if nobody looks for what time has brought."""

ASLEEP = [
    ({}, [("limit", "a", ONE_SLOT), *SENDS, TAKE, TAKE, ("ack", 4), TAKE]),
    ({}, [("limit", "a", SLOW), *SENDS, TAKE, ("later", 1_000), TAKE]),
    ({}, [("limit", "a", SLOW), *SENDS, ("batch", 2, None), ("batch", 2, None), ("ack_batch", 0)]),
    ({}, [("limit", "a", FAST), *SENDS, TAKE, TAKE]),
    ({"history_seconds": 60}, [("limit", "a", ONE_SLOT), *SENDS, TAKE, TAKE, ("ack", 0)]),
    (PAYLOAD, [("limit", "a", ONE_SLOT), *SENDS, TAKE, ("ack", 0), ("ack", 1)]),
    ({}, [("limit", "a", ONE_SLOT), *SENDS, TAKE, ("early", "a"), TAKE]),
]
"""Some channel has a policy, and none that has one has a say."""

WAYS = [
    (LOOKED + LIVES, Always),
    (LIVES, Hurried),
    (LIVES, Lined),
    (LIVES, Received),
    (LIVES + ASLEEP, Beside),
]
"""Which lives are lived, by which statements."""
PLAIN = "case when q.history_ms = 0 or not q.history_payload then q.name end"
BUGS = [
    ("receive_beside", "c.awake_name is not null", "false"),
    ("receive_beside", "c.wake_at <= coalesce", "0 > coalesce"),
    ("receive_beside", "from turnabout.wake w where", "from turnabout.wake w where false and"),
    ("receive_beside", "c.name = place.channel", "false"),
    ("receive_beside", PLAIN, "q.name"),
    ("receive", "not q.paused and ", ""),
    ("receive", "r.channel, r.priority, r.id", "r.channel, r.id"),
    ("receive", "(r.expires_at is null or r.expires_at > (select f.now from facts f))", "true"),
    ("receive", "m.attempt + 1 as attempt", "m.attempt + 2 as attempt"),
    ("receive", "f.now + f.lease_ms as at", "f.now + 1 as at"),
    ("receive", "r.channel > coalesce", "r.channel >= coalesce"),
    ("receive", "(select 1 from turnabout.channel c where c.queue_id = q.id limit 1)", "null"),
    ("receive", "q.events <> 'all'", "true"),
    ("receive", "or not q.history_payload then", "or true then"),
    ("receive_many", "not q.paused and ", ""),
    ("receive_many", "order by e.priority, e.id", "order by e.id"),
    ("receive_many", "e.expires_at > (select f.now from facts f)", "true"),
    ("receive_many", "m.attempt + 1 as attempt", "m.attempt + 2 as attempt"),
    ("receive_many", "f.now + f.lease_ms as at", "f.now + 1 as at"),
    ("receive_many", "r.channel > hop.channel", "r.channel >= hop.channel"),
    ("receive_many", "next.channel <= (select f.start from facts f)", "true"),
    ("receive_many", "(select 1 from turnabout.channel c where c.queue_id = q.id limit 1)", "null"),
    ("receive_many", "q.events <> 'all'", "true"),
    ("receive_many", PLAIN, "q.name"),
    ("receive_many", "* place.again", "* place.again * 100"),
    ("receive_many", "/ s.seen\n", "/ $1\n"),
    ("receive_many", "array_agg(a.attempt)", "array_agg(a.attempt + 1)"),
    ("ack_many", "then count(*)\n", "then 2 * count(*)\n"),
    ("ack_many", "count(*) = cardinality($1::bigint[])", "true"),
    ("ack_many", "where h.is_whole", ""),
    ("ack", "select e.queue_id, 1 from", "select e.queue_id, 2 from"),
    ("ack", "where m.id = $3::bigint", "where m.id = -$3::bigint"),
    ("ack", "l.keeps = false", "true"),
    ("ack_kept", "$4::int, e.failures", "$4::int + 1, e.failures"),
    ("ack_kept", "e.crashes, 1,", "e.crashes, 2,"),
    ("next", "m.attempt = $4::int - 1", "m.attempt = $4::int"),
    ("next", "l.keeps = false", "true"),
    ("next", "not q.paused and ", ""),
    ("next", "r.channel > coalesce", "r.channel >= coalesce"),
    ("next", "left join taken t", "join taken t"),
    ("next_kept", "l.keeps = true", "true"),
    ("next_kept", "e.crashes, 1,", "e.crashes, 2,"),
    ("next_many", "count(*) = cardinality($1::bigint[])", "true"),
    ("next_many", "where h.is_whole", ""),
    ("next_of_line", "and r.channel < $7::text", "and r.channel > $7::text"),
    ("look", "l.until <= b.now", "false"),
    ("look", "s.at <= b.now", "false"),
    ("look", "r.expires_at <= b.now", "false"),
    ("look", "s.expires_at <= b.now", "false"),
    ("send", "q.delay_ms = 0 and ", ""),
    ("send", "q.max_messages is null and ", ""),
    ("send", "coalesce($5::bigint, f.ttl_ms) as ttl", "$5::bigint as ttl"),
    ("send", "select p.queue_id, 1 from put p", "select p.queue_id, 2 from put p"),
    ("send", "q.events <> 'all'", "true"),
]


@pytest.mark.slow
@pytest.mark.share(2)
@pytest.mark.parametrize("way", WAYS, ids=lambda way: way[1].__name__)
def test_lives_that_would_show_a_bug_are_the_same(two, way):
    compare_lives(two, [way])


@pytest.mark.slow
@pytest.mark.share(6)
@pytest.mark.parametrize(("verb", "text", "bug"), BUGS)
def test_a_planted_bug_is_noticed(two, verb, text, bug, monkeypatch):
    kind = v.Send if verb == "send" else v.Ack if verb.startswith("ack") else v.Receive
    good = EVERYDAY["receive" if verb == "look" else verb]
    one = good.look if verb == "look" else good
    assert one is not None
    assert text in one.sql.decode()
    bad = dataclasses.replace(one, sql=one.sql.replace(text.encode(), bug.encode()))
    if verb == "look":
        bad = dataclasses.replace(good, look=bad)
    spoiled = [bad if each is good else each for each in CALLS[kind].everyday]
    monkeypatch.setitem(CALLS, kind, dataclasses.replace(CALLS[kind], everyday=spoiled))
    call_of.cache_clear()
    likely = Beside if verb == "receive_beside" else Always
    try:
        with pytest.raises(AssertionError):
            compare_lives(two, sorted(WAYS, key=lambda each: each[1] is not likely))
    finally:
        call_of.cache_clear()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("text", "bug"),
    [
        ("l.queue_id = queue.id and l.plain_queue is not null", "false"),
        ("(queue_id, queue) values (v_row.id, v_row.name)", "(queue_id, queue) values (0, '')"),
        ("when q.history_ms = 0 or not q.history_payload then", "when true then"),
    ],
)
def test_a_lease_that_goes_on_being_plain_is_noticed(migrated_url, text, bug):
    where = text.replace("turnabout.", f"{schema()}.")
    with (
        two_stores(migrated_url) as two,
        planted(migrated_url, Bug("a lease", [], where, bug)),
        pytest.raises(AssertionError),
    ):
        compare_lives(two, WAYS)
