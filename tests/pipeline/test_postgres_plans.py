"""No bad plan in the verbs of pipelines, and in what is read from their views: see `test_plans`.

Many messages wait, much has been finished, others have staged and leased: what a call touches
follows its batch, and neither messages nor history are ever read through.
"""

import re
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.postgres.probe import Connection, Touched, touched
from tests.postgres.test_plans import LATER, Load, connect, create, fill
from tests.support.doors import START
from tests.support.each import each
from tests.support.postgres import migrated
from tests.support.seeds import share_of
from turnabout.postgres.revision import rendered

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

LOADED = 100_000
LEASE = (
    "select epoch, messages, acked from"
    " turnabout_pipeline.epoch_lease('s', %s, '{q}', %s, %s, 600000, 2"
)
LOAD = f"""
insert into turnabout.history (
    id, sent_at, finished_at, queue_id, attempt, failures, crashes, outcome, channel, xid
)
select i, {START}, {START} + i, q.id, 1, 0, 0, 1 + i % 4, '', (10 + i / 400)::text::xid8
from turnabout.queue q, generate_series(1, {LOADED}) i where q.name = 'q';
select turnabout_pipeline.stage(
    'other-' || i, array_fill('q'::text, array[1000]), array_fill(1, array[1000]),
    array_fill('x'::bytea, array[1000]), 'text/plain', now_ms => {START})
from generate_series(1, 30) i;
insert into turnabout.epoch_part (subscription, epoch, part, queue_id, queue, ids, attempts)
select 'other', i, 0, 1, 'q', '{{1}}', '{{1}}' from generate_series(1, 1000) i;
insert into turnabout.history_floor (xid, id) values ('5', 1);
"""
TABLES = ("stage", "epoch", "epoch_part")


class Reader:
    """A session that calls the verbs, each over as many messages as it is told."""

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        self.epoch = 0
        self.number = 0
        self.log = "10", 0
        ((self.generation,),) = connection.execute(
            rendered("select generation from turnabout_pipeline.subscription_open('s', 'test')")
        )

    def ask(self, sql: str, *parameters: Any) -> Touched:
        return touched(self.connection, rendered(sql), parameters)

    def lease(self, n: int) -> Touched:
        """The epoch before is acknowledged with it, as by Spark."""
        seen = self.ask(f"{LEASE}, now_ms => %s)", self.generation, self.epoch, n, START)
        ((self.epoch, messages, _),) = seen.rows
        assert messages == n
        return seen

    def of_epoch(self, sql: str, n: int, *more: Any) -> Touched:
        self.lease(n)
        return self.ask(sql, *more)

    def rows(self, n: int) -> Touched:
        """As an executor asks: with literals, so that it is planned anew."""
        self.lease(n)
        seen = self.ask(
            "select message_id, value, place from turnabout.epoch_rows where subscription = 's'"
            f" and epoch = {self.epoch} and part = 0"
        )
        assert [place for _, _, place in seen.rows] == list(range(1, len(seen.rows) + 1))
        return seen

    def plan(self, n: int, plans: int) -> Touched:
        self.lease(n)
        seen = self.ask(
            "select plans, returned, dead from turnabout_pipeline.epoch_plan("
            "'s', %s, %s, 900000, %s, 'e', now_ms => %s)",
            *(self.generation, self.epoch, plans, START),
        )
        self.connection.execute("update turnabout.subscription set max_messages = null")
        return seen

    def next(self, n: int) -> Touched:
        seen = self.ask(
            "select xid::text, id, messages, more"
            " from turnabout_pipeline.log_next(%s, %s, null, null, %s)",
            *(*self.log, n),
        )
        ((*place, messages, more),) = seen.rows
        assert (messages, more) == (n, True)
        self.log = tuple(place)
        return seen

    def log_rows(self, n: int) -> Touched:
        """A small range of a long log; as an executor asks."""
        self.connection.execute("set enable_seqscan = off; set enable_bitmapscan = off")
        seen = self.ask(
            "select message_id, outcome, queue from turnabout.log_rows"
            " where (xid, message_id) > ('132'::xid8, 0)"
            f" and (xid, message_id) <= ('{132 + (n - 1) // 400}'::xid8, {48_799 + n})"
        )
        self.connection.execute("reset enable_seqscan; reset enable_bitmapscan")
        assert len(seen.rows) == n
        return seen

    def publish(self, n: int) -> Touched:
        self.number += 1
        self.ask(
            "select turnabout_pipeline.stage('mine', array_fill('q'::text, array[%s]),"
            " array_fill(1, array[%s]), array_fill('x'::bytea, array[%s]), 'text/plain')",
            *(n, n, n),
        )
        return self.ask(
            "select state from turnabout_pipeline.publish('sink', %s, '{mine}', %s)", self.number, n
        )


CALLS: dict[str, Callable[[Reader, int], Touched]] = {
    "lease": lambda r, n: r.lease(n),
    "read an epoch": lambda r, n: r.rows(n),
    "plan": lambda r, n: r.plan(n, 3),
    "isolate": lambda r, n: r.plan(n, 0),
    "extend": lambda r, n: r.of_epoch(
        "select messages, lost from turnabout_pipeline.epoch_extend('s', %s, 900000)",
        n,
        r.generation,
    ),
    "publish": lambda r, n: r.publish(n),
    "next of the log": lambda r, n: r.next(n),
    "rows of the log": lambda r, n: r.log_rows(n),
    "cut the log": lambda r, n: r.ask(
        "select messages from turnabout_pipeline.log_cut('132', 0, %s, %s, 2)",
        *(str(132 + (n - 1) // 400), 48_799 + n),
    ),
    "look at the log": lambda r, _: r.ask("select end_id from turnabout_pipeline.log_look()"),
    "purge the log": lambda r, n: r.ask(
        "select turnabout_pipeline.log_purge('240', 0, %s, %s, false)", LATER, n
    ),
}
OF_THE_LOG = ("next of the log", "rows of the log", "cut the log", "look at the log")


@pytest.fixture(
    scope="module", params=share_of(["made while empty", "from statistics"], 1, __name__)
)
def reader(request: pytest.FixtureRequest) -> Iterator[Reader]:
    with migrated() as url, connect(url) as connection:
        create(connection)
        for _ in range(3):
            connection.execute("select turnabout.maintain_days(%s, false)", [START])
        for table in TABLES:
            connection.execute(f"alter table turnabout.{table} set (autovacuum_enabled = off)")
        reader = Reader(connection)
        if request.param == "made while empty":
            connection.execute(
                rendered("select turnabout_pipeline.epoch_lease('s', %s, '{q}', 0, 9, 600000)"),
                [reader.generation],
            )
            reader.ask("select turnabout_pipeline.log_next(null, null, null, null, 9)")
            reader.ask("select turnabout_pipeline.log_look()")
            reader.ask("select turnabout_pipeline.log_cut('0', 0, '9', 9, 2)")
        connection.execute(rendered(LOAD))
        fill(connection, Load(LOADED, 100, LOADED // 2, LOADED // 2))
        if request.param == "from statistics":
            connection.execute("analyze")
        yield reader


@each("call", CALLS)
def test_what_a_call_touches_follows_its_batch(reader, call):
    for n in (20, 200):
        CALLS[call](reader, n)  # the planner itself looks at tables, once
        seen = CALLS[call](reader, n)
        assert seen.rows, call
        assert seen.blocks <= 80 + (n // 4 if call in OF_THE_LOG else 32 * n), f"{n}: {seen}"
        # Entries that died a moment ago are read, too, while a snapshot is held that is older.
        assert seen.entries <= 100 + 10 * n, f"{n}: {seen}"
        for name, (_, read) in seen.by_name.items():
            # Read through, and not by an index.
            if name == "message" or re.fullmatch("history_[0-9]+", name):
                assert read == 0, f"{name}: {seen}"
