"""Any two that touch the same messages meet, in open transactions: whatever each decides, and
however the first ends, each message stands in one place afterwards, and the counts add up.
"""

import itertools
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, nullcontext, suppress
from dataclasses import dataclass
from typing import Any

import psycopg
import pytest

from tests.support.doors import START
from tests.support.postgres import one_migrated_url
from tests.support.seeds import share_of

pytestmark = pytest.mark.slow  # a database

url = one_migrated_url
numbers = itertools.count(1)
LATER = START + 60_000

Connection = psycopg.Connection[Any]


class Scene:
    """A queue with messages in each state, and what the callers know of them."""

    def __init__(self, connection: Connection, settings: str) -> None:
        self.queue = f"m{next(numbers):04}"
        self.connection = connection
        self.ask("select turnabout.queue_create(%s, %s::jsonb, %s)", settings, START)
        self.ask("select turnabout.queue_create(%s || '-other', '{}', %s)", START)
        self.ask("select turnabout.policy_set(%s, 'narrow', '{\"max_concurrency\": 9}')")
        leased = self.send(["wide", "wide", "narrow", "narrow"])
        rows = self.ask(
            "select id, attempt, lease from turnabout.receive(%s, 10, 10000, now_ms => %s)"
            " where id is not null",
            START,
        )
        self.receipts = tuple(list(column) for column in zip(*rows, strict=True))
        self.ids = [
            *leased,
            *self.send(["wide", "wide", "narrow"]),
            *self.send(["wide", "narrow"], delays=[30_000] * 2),
            *self.send(["wide", "narrow"], ttls=[30_000] * 2),
            *self.send(["wide"], dedup_keys=["k"], dedup_modes=["latest"]),
        ]

    def ask(self, sql: str, *parameters: Any) -> list[Any]:
        return self.connection.execute(sql, [self.queue, *parameters]).fetchall()

    def send(self, channels: list[str], **more: Any) -> list[int]:
        named = "".join(f", {name} => %s" for name in more)
        ((ids,),) = self.ask(
            f"select ids from turnabout.send(%s, %s::bytea[], channels => %s, now_ms => %s{named})",
            [b"x"] * len(channels),
            channels,
            START,
            *more.values(),
        )
        return ids

    def check(self) -> None:
        """Each message stands in one place, each entry is of a message, and the counts add up."""
        wrong = self.connection.execute(
            """
            select x.id, array_agg(x.kind)
            from (
                select m.id, 'message' as kind from turnabout.message m
                union all
                select r.id, 'ready' from turnabout.ready r
                union all
                select s.id, 'scheduled' from turnabout.scheduled s
                union all
                select l.id, 'leased'
                from turnabout.leased_messages(array(select q.id from turnabout.queue q)) l
            ) x
            where x.id >= %s
            group by x.id
            having count(*) filter (where x.kind = 'message') <> 1 or count(*) <> 2
            """,
            [self.ids[0]],
        ).fetchall()
        assert wrong == []
        counts = self.connection.execute(
            """
            select s.name, s.sent - s.done - s.dead - s.cancelled - s.expired,
                s.scheduled + s.ready + s.leased, s.leased, (
                    select count(*) from turnabout.queue q
                    cross join turnabout.leased_messages(array[q.id]) l where q.name = s.name
                )
            from turnabout.stats(null, %s) s
            where starts_with(s.name, %s)
            """,
            [START, self.queue],
        ).fetchall()
        for name, unfinished, there, leased, leases in counts:
            assert (unfinished, leased) == (there, leases), name


Act = Callable[[Scene], tuple[str, list[Any]]]


def _settling(call: str) -> Act:
    """A verb over all receipts. `{n}`: a list of so many of what stands before it."""

    def act(scene: Scene) -> tuple[str, list[Any]]:
        ids, attempts, leases = scene.receipts
        n = len(ids)
        sql = call.replace("{n}", str(n))
        return f"select {sql}, leases => %s)", [scene.queue, ids, attempts, leases]

    return act


FAIL = "turnabout.fail(%s, %s, %s, array_fill('e'::text, array[{n}]), {retry}, "
FAIL += "array_fill(0::bigint, array[{n}]), now_ms => {now}"
REPLACE = """
select ids from turnabout.send(
    %s, '{y}', now_ms => %s, dedup_keys => '{k}', dedup_modes => '{latest}')
"""
REDRIVE = """
select turnabout.redrive_step(
    (turnabout.redrive_start(%s, target => %s, now_ms => %s)).id, %s)
"""
QUEUE = "(select q from turnabout.queue q where q.name = %s)"
ACTS: dict[str, Act] = {
    "receive": lambda s: (
        "select id from turnabout.receive(%s, 10, 90000, now_ms => %s)", [s.queue, START],
    ),
    "receive later": lambda s: (
        "select id from turnabout.receive(%s, 20, 90000, now_ms => %s)", [s.queue, LATER],
    ),
    "maintain": lambda s: ("select turnabout.maintain(%s, %s)", [s.queue, LATER]),
    "run timers": lambda s: (
        f"select turnabout.run_timers({QUEUE}, %s, 100)", [s.queue, LATER],
    ),
    "expire": lambda s: (f"select turnabout.expire({QUEUE}, %s, 100)", [s.queue, LATER]),
    "rescue orphans": lambda _: ("select turnabout.rescue_orphans(%s, 0, 100000)", [LATER]),
    "cancel": lambda s: (
        "select outcome from turnabout.cancel(%s, %s, %s)", [s.queue, s.ids, START],
    ),
    "retry": lambda s: ("select outcome from turnabout.retry(%s, %s, %s)", [s.queue, s.ids, START]),
    "purge": lambda s: ("select turnabout.purge(%s, now_ms => %s)", [s.queue, START]),
    "purge leased": lambda s: (
        "select turnabout.purge(%s, state => 'leased', now_ms => %s)", [s.queue, START],
    ),
    "replace": lambda s: (REPLACE, [s.queue, START]),
    "policy": lambda s: (
        "select turnabout.policy_set(%s, 'wide', '{\"max_concurrency\": 3}')", [s.queue],
    ),
    "redrive": lambda s: (REDRIVE, [s.queue, f"{s.queue}-other", START, START]),
    "ack": _settling(f"turnabout.ack(%s, %s, %s, {START}"),
    "release": _settling(f"turnabout.release(%s, %s, %s, {START}"),
    "defer": _settling(
        "turnabout.defer(%s, %s, %s, array_fill(60000::bigint, array[{n}]),"
        f" array_fill(null::bytea, array[{{n}}]), {START}"
    ),
    "fail": _settling(
        FAIL.replace("{retry}", "array_fill(true, array[{n}])").replace("{now}", str(START))
    ),
    "refuse": _settling(
        FAIL.replace("{retry}", "array_fill(false, array[{n}])").replace("{now}", str(START))
    ),
    "extend": _settling(f"turnabout.extend(%s, %s, %s, 90000, {START}"),
}  # fmt: skip
SETTINGS = {
    "plain": '{"on_exhausted": "dead_letter"}',
    "fifo": '{"fifo": true}',
    "channel": '{"on_exhausted": "dead_letter_channel", "max_attempts": 1}',
}
ALONE = ("maintain",)
"""What nobody calls in a transaction that goes on: it deletes entries of dedup keys."""
ENDS = ("commit", "rollback", "an older snapshot")


@dataclass(frozen=True)
class Meeting:
    """Who is first, and has an open transaction; who comes then; in what queue; and how it ends."""

    first: str
    second: str
    settings: str
    end: str


MEETINGS = [
    Meeting(*names)
    for names in itertools.product(ACTS, ACTS, SETTINGS, ENDS)
    if names[:2] != ("replace", "replace") or names[3] == ENDS[2]  # one key: it waits
]


@pytest.fixture(scope="module")
def sessions(url: str) -> Iterator[list[Connection]]:
    """Three, kept, as their first calls take long."""
    with ExitStack() as stack:
        made = [stack.enter_context(psycopg.connect(url, autocommit=True)) for _ in range(3)]
        for one in made:
            one.execute("set statement_timeout = '5s'")
        yield made


@pytest.mark.parametrize("first", ACTS)
def test_after_two_have_met_each_message_stands_in_one_place(sessions, first):
    for meeting in share_of([m for m in MEETINGS if m.first == first], 3, first):
        try:
            meet(*sessions, meeting)
        except Exception as error:
            error.add_note(str(meeting))
            raise


def meet(setter: Connection, one: Connection, two: Connection, meeting: Meeting) -> None:
    scene = Scene(setter, SETTINGS[meeting.settings])
    is_older = meeting.end == "an older snapshot"
    with ExitStack() as ends:
        for session in (one, two):
            session.execute("begin")
            ends.callback(session.execute, "rollback")
        if is_older:
            two.execute("set transaction isolation level repeatable read")
            two.execute("select from turnabout.message limit 1")
        one.execute(*ACTS[meeting.first](scene))
        if is_older or meeting.first in ALONE:
            one.execute("commit")
            one.execute("begin")
        with suppress(psycopg.errors.SerializationFailure) if is_older else nullcontext():
            two.execute(*ACTS[meeting.second](scene))
            two.execute("commit")
            two.execute("begin")
        if meeting.end == "commit":
            one.execute("commit")
            one.execute("begin")
    scene.check()


GATE = 4711
EXHAUSTED = "turnabout.exhausted(turnabout.queue, integer, integer)"
PAUSING = """
create or replace function turnabout.exhausted(
    queue turnabout.queue, charged int, deliveries int
) returns text language plpgsql as $$
begin
    perform pg_advisory_xact_lock_shared(%d);
    return null;
end $$
"""


@pytest.fixture
def gate(url) -> Iterator[Connection]:
    """Who ends leases that ran out stops after the first message, until this lock is given back."""
    with psycopg.connect(url, autocommit=True) as connection:
        ((before,),) = connection.execute(
            f"select pg_get_functiondef('{EXHAUSTED}'::regprocedure)"
        ).fetchall()
        connection.execute(f"select pg_advisory_lock({GATE})")
        connection.execute((PAUSING % GATE).encode())
        yield connection
        connection.execute(before.encode())


def test_a_lease_is_extended_or_ends_but_never_both(sessions, gate):
    setter, one, two = sessions
    scene = Scene(setter, SETTINGS["plain"])
    with ThreadPoolExecutor(1) as pool:
        sweep = pool.submit(lambda: one.execute(*ACTS["receive later"](scene)).fetchall())
        while not gate.execute(
            "select from pg_locks where locktype = 'advisory' and not granted"
        ).rowcount:
            time.sleep(0.01)
        extended = {
            receipt[0]
            for receipt in zip(*scene.receipts, strict=True)
            for (is_held,) in two.execute(
                "select now is null from turnabout.extend(%s, array[%s], array[%s], 90000, %s,"
                " array[%s])",
                [scene.queue, receipt[0], receipt[1], START, receipt[2]],
            )
            if is_held
        }
        gate.execute(f"select pg_advisory_unlock({GATE})")
        received = {number for (number,) in sweep.result(10)}
    assert set(scene.receipts[0]) == extended | received & set(scene.receipts[0])
    assert not extended & received
    scene.check()
