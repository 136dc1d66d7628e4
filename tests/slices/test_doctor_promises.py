"""Each promise that `doctor` asks about: broken on purpose in a database, and seen. Both stores."""

from __future__ import annotations

import contextlib
import json
import shutil
import sqlite3
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest
from click.testing import CliRunner

import turnabout
from tests.conformance.life import Life, live
from tests.support import postgres
from tests.support.doors import migrate, opened
from turnabout import slices
from turnabout.cli import main
from turnabout.pipeline import verbs as p
from turnabout.postgres import doctor as postgres_doctor
from turnabout.server.verbs import TokenCreate, scopes
from turnabout.sqlite import doctor
from turnabout.statements import statements_in
from turnabout.words.findings import PROMISES, Finding
from turnabout.words.limits import FOREVER_MS

Damage = Callable[[str], None]

OLD = 1_000  # an instant long ago
DONE = {"sqlite": "'done'", "postgres": "1"}

BROKEN = {
    "endings": "insert into {s}history (queue_id, {seq} id, channel, outcome, attempt, failures,"
    " crashes, sent_at, finished_at) select queue_id, {seq_of} id, channel, {done}, 1, 0, 0, 0,"
    " {now} from {s}message where status = 2",
    "one ending": "insert into {s}history (queue_id, {seq} id, channel, outcome, attempt,"
    " failures, crashes, sent_at, finished_at) select queue_id, {seq_next} id, channel, outcome,"
    " attempt, failures, crashes, sent_at, finished_at from {s}history where outcome = {done}",
    "order": "update {s}message set status = 2, at = {now} + 60000 where channel = 'fifo'",
    "slots": "update {s}message set status = 2, at = {now} + 60000 where channel = 'c'",
    "cancelled": "update {s}message set cancel_requested = {true} where status = 0",
    "expiry": "update {s}message set expires_at = {old} where status = 0",
    "exhausted": "update {s}message set at = {forever} where channel = 'fifo'",
    "dead letters": "update {s}queue set dead_letter = 'nowhere' where name = 'q'",
    "dedup": "update {s}dedup set queue_id = 99",
    "schedules": "update {s}schedule set next_at = {old}",
    "redrives": "update {s}redrive set queue_id = 99, state = 'running'",
    "retention": "update {s}history set finished_at = {old}",
    "events": "update {s}event set at = {old}",
    "namespaces": "delete from {s}namespace",
    "tokens": "update {s}token set expires_at = {now} + 3600000",
    "staged": "update {s}stage set staged_at = {old}",
    "rates": "update {s}message set status = 2, leased_at = {now}, at = {now} + 60000"
    " where channel = 'slow'",
    "rates, by history": "update {s}history set channel = 'slow', leased_at = {now},"
    " queue_id = (select id from {s}queue where name = 'paced');"
    "update {s}message set status = 2, leased_at = {now}, at = {now} + 60000"
    " where id in (select id from {s}message where channel = 'slow' limit 2)",
    "bounds": "update {s}queue set max_messages = 2 where name = 'line'",
    "bounds, of channels": "update {s}channel set max_size = 1 where name = 'c'",
    "charges": "update {s}message set failures = 1 where status = 2",
    "charges, in history": "update {s}history set failures = 2",
    "early": "update {s}message set at = {now} + 90000 where channel = 'd' and status = 0",
    "early, by events": "update {s}event set due_at = at + 90000 where kind = 'created'",
    "early, by schedules": "update {s}schedule set last_at = {now} + 90000",
    "tenants": "update {s}queue set dead_letter = 'acme/q' where name = 'q'",
    "tenants, by schedules": "update {s}schedule set queue = 'acme/q'",
    "archives": "update {s}history set finished_at = {now} - 400000000",  # of a week
}
OF_VERBS = {"subscriptions", "archives"}
"""Asked by a slice's verbs, not by its `doctor.sql`."""
COPIED = (
    "pragma legacy_alter_table = on; create table copied as select * from {0}; drop table {0};"
    " alter table copied rename to {0}; insert into {0} select * from {0} limit 1"
)
TWICE = (
    "alter table turnabout.{0} drop constraint {0}_pkey;"
    " insert into turnabout.{0} overriding system value select * from turnabout.{0} limit 1"
)
ON_SQLITE = {
    "channels": "update turnabout_channel set size = size + 1",
    "inbox": "insert into {s}inbox_refused (refused_at, reason, queue, payload)"
    " values ({old}, 'no name', 'a b', 'x')",
    "one lease": COPIED.format("turnabout_message"),
    "keys": COPIED.format("turnabout_dedup"),
}
LEASED = (
    "insert into turnabout.lease (id, until, leased_at, queue_id, ids, attempts)"
    " select -1, {{now}} + 60000, {{now}}, m.queue_id, array_agg(m.id), array_agg(m.attempt + 1)"
    " from turnabout.message m where m.channel = '{0}' group by m.queue_id;"
    "delete from turnabout.ready where channel = '{0}'"
)
"""All messages of a channel, whether they are leased already or not."""
ON_POSTGRES = {
    "subscriptions": "update turnabout.subscription set seen_at = {old}",
    "one lease": TWICE.format("message"),
    "one lease, by a second place": "insert into turnabout.scheduled (id, at, queue_id, priority,"
    " limited, channel) select id, {now}, queue_id, priority, limited, channel"
    " from turnabout.ready where channel = 'd'",
    "one lease, by a second lease": "insert into turnabout.lease"
    " select -id, until, rest_until, leased_at, queue_id, ids, attempts from turnabout.lease",
    "keys": TWICE.format("dedup"),
    "endings": BROKEN["endings"].replace("where status = 2", "where channel = 'c'"),
    "order": LEASED.format("fifo") + ";" + LEASED.replace("-1", "-2").format("fifo"),
    "slots": LEASED.format("c"),
    "cancelled": "update turnabout.message set cancel_requested = true where channel = 'd'",
    "expiry": "update turnabout.message set expires_at = {old} where channel = 'd'",
    "rates": "delete from turnabout.lease where queue_id = (select id from turnabout.queue"
    " where name = 'paced');" + LEASED.format("slow"),
    "rates, by history": "update turnabout.history set channel = 'slow', leased_at = {now},"
    " queue_id = (select id from turnabout.queue where name = 'paced');" + LEASED.format("slow"),
    "charges": "update turnabout.message set failures = attempt + 1",
    "early": "update turnabout.message set at = {now} + 90000 where channel = 'd'",
    "orphans": "delete from turnabout.ready where channel = 'd'",
    "orphans, of another place": "update turnabout.ready set priority = 7 where channel = 'd'",
    "orphans, of a lease": "delete from turnabout.lease",
    "entries": "delete from turnabout.message where channel = 'd'",
    "entries, of scheduled": "insert into turnabout.scheduled (id, at, queue_id, priority, limited,"
    " channel) select id + 1000, {now}, queue_id, priority, limited, channel from turnabout.ready",
    "unlogged tables": "delete from turnabout.built",
    "head marks": "select turnabout.insert_head_mark(queue_id, channel, priority, id + 1)"
    " from turnabout.ready where channel = 'd';"
    "update turnabout.message set sent_at = {old}",
    "days": "alter table turnabout.history detach partition {today};"
    "insert into turnabout.history select * from {today}",
}
IN_FILES, IN_DATABASES = {**BROKEN, **ON_SQLITE}, {**BROKEN, **ON_POSTGRES}
"""What stands behind a comma is another way to break the same promise."""
FAILS = {name for name, question in PROMISES.items() if question.level == "fail"}


def fill(url: str) -> None:
    """Something of everything."""
    with turnabout.connect(url) as opened:
        queue = opened.queue("q")
        queue.create(events="all")
        queue.channel("c").set_policy(turnabout.Policy(max_concurrency=1))
        queue.send_many([turnabout.message(str(n), channel="cd"[n % 2]) for n in range(8)])
        queue.send("once", channel="d", dedup_key="k")
        first, second, *_ = queue.receive(4)
        first.ack()
        second.fail("no", retry=False)
        line = opened.queue("line")
        line.create(fifo=True, on_exhausted="block")
        line.send_many([turnabout.message(str(n), channel="fifo") for n in range(3)])
        runs = opened.queue("runs")
        runs.create(fifo=True, fifo_run=2)
        runs.send_many([turnabout.message("1"), turnabout.message("2")])
        assert len(runs.receive(2)) == 2
        opened.queue("q-dead").redrive()
        opened.schedules.set("s", "q", "tick", every_seconds=3600)
        paced = opened.queue("paced")
        paced.create()
        paced.channel("slow").set_policy(turnabout.Policy(rate=turnabout.Rate(1, 3600)))
        paced.send_many([turnabout.message(str(n), channel="slow") for n in range(4)])
        paced.receive()
        opened.queue("acme/q").create()
        opened.store.run(TokenCreate("a" * 12, bytes(32), "acme", "", scopes(["peek"])))
        fill_pipelines(opened)


def fill_pipelines(opened: turnabout.Turnabout) -> None:
    """An archive that has one row, and a batch that is being written."""
    run = opened.store.run
    opened.queue("p").send("x")
    run(p.Stage("attempt", (p.StagedMessages("p", [b"x"]),)))
    ends = time.monotonic() + 30
    while not (span := run(p.LogNext(p.START, 1))).messages:  # another test's transaction
        assert time.monotonic() < ends
    run(p.WatermarkSet("lake", span.until, 1))


def asked(name: str) -> str:
    """The check that is to find this."""
    return name.partition(",")[0]


def levels(url: str) -> dict[str, str]:
    result = CliRunner().invoke(main, ["doctor", "--json", "--url", url])
    document = json.loads(result.stdout)
    assert document["ok"] is (result.exit_code == 0), result.output
    return {check["name"]: check["level"] for check in document["checks"]}


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An SQLite file, to be copied."""
    path = tmp_path_factory.mktemp("filled") / "queues.db"
    fill(f"sqlite:///{path}")
    return path


@pytest.fixture
def file(filled: Path, tmp_path: Path) -> tuple[str, Damage]:
    """An SQLite file, and a way to do harm to it."""
    path = shutil.copy(filled, tmp_path)

    def damage(sql: str) -> None:
        with contextlib.closing(sqlite3.connect(path)) as db:
            now = round(time.time() * 1000)
            top = "(select max(seq) from turnabout_history)"
            db.executescript(
                sql.format(
                    s="turnabout_", seq="seq,", seq_of=f"{top} + id,", seq_next=f"{top} + seq,",
                    done=DONE["sqlite"], true=1, now=now, old=OLD, forever=FOREVER_MS,
                )
            )  # fmt: skip

    return f"sqlite:///{path}", damage


def migrate_and_fill(url: str) -> None:
    """For a template, which databases are copied from."""
    migrate(url)
    fill(url)
    with turnabout.connect(url) as opened:  # a reader that is at work
        run = opened.store.run
        generation = run(p.SubscriptionOpen("reader", "tests")).generation
        run(p.EpochLease("reader", generation, ("p",), 0, 1, 60_000))
    with psycopg.connect(url, autocommit=True) as db:  # marks, as a busy queue has them
        db.execute(
            "select turnabout.insert_head_mark(id, 'c', 0::smallint, 1) from turnabout.queue"
        )


@pytest.fixture
def database() -> Iterator[tuple[str, Damage]]:
    """A PostgreSQL database, and a way to do harm to it."""
    server = postgres._servers.get(0 if postgres.GIVEN else 18)
    with postgres.fresh_database(server, fill=migrate_and_fill) as url:

        def damage(sql: str) -> None:
            with psycopg.connect(url, autocommit=True) as db:
                row = db.execute("select turnabout.clock_ms()").fetchone()
                days = db.execute(
                    "select tableoid::regclass::text from turnabout.history limit 1"
                ).fetchone()
                assert row is not None
                assert days is not None
                db.execute(
                    sql.format(
                        s="turnabout.", seq="", seq_of="", seq_next="", done=DONE["postgres"],
                        true="true", now=row[0], old=OLD, forever=FOREVER_MS, today=days[0],
                    ).encode()
                )  # fmt: skip

        yield url, damage


def test_all_is_well_in_a_file(file: tuple[str, Damage]) -> None:
    found = levels(file[0])
    assert {found[asked(name)] for name in IN_FILES} == {"ok"}
    assert "fail" not in found.values()


@pytest.mark.parametrize("name", IN_FILES)
def test_a_broken_promise_in_a_file(file: tuple[str, Damage], name: str) -> None:
    url, damage = file
    damage(IN_FILES[name])
    assert levels(url)[asked(name)] == ("fail" if asked(name) in FAILS else "warn")


@pytest.mark.slow
def test_all_is_well_in_a_database(database: tuple[str, Damage]) -> None:
    found = levels(database[0])
    assert {found[asked(name)] for name in IN_DATABASES} == {"ok"}
    assert "fail" not in found.values()


@pytest.mark.slow
@pytest.mark.share(14)
@pytest.mark.parametrize("name", IN_DATABASES)
def test_a_broken_promise_in_a_database(database: tuple[str, Damage], name: str) -> None:
    url, damage = database
    damage(IN_DATABASES[name])
    assert levels(url)[asked(name)] == ("fail" if asked(name) in FAILS else "warn")


@pytest.mark.slow
@pytest.mark.parametrize(
    "kind", ["sqlite-unsynced", "postgres" if postgres.GIVEN else "postgres-18"]
)
def test_no_life_breaks_a_promise(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Random lives, whose stores agree with the model: `doctor` agrees as well."""
    with opened(kind, tmp_path) as door, contextlib.closing(Asking(door.url, door.clock)) as asking:

        def look_back(life: Life) -> None:
            told = [finding for finding in asking.answers() if finding.level == "fail"]
            assert not told, told

        monkeypatch.setattr(Life, "look_back", look_back)
        live(door, 6, shrink=False)


class Asking:
    """A connection that asks doctor's questions, at the time of a clock."""

    def __init__(self, url: str, clock: Callable[[], int]) -> None:
        path = url.partition("?")[0].removeprefix("sqlite:///")
        self.is_file = url.startswith("sqlite")
        self.db: Any = (
            sqlite3.connect(path) if self.is_file else psycopg.connect(url, autocommit=True)
        )
        self.clock = clock

    def answers(self) -> list[Finding]:
        look = doctor.of_queues if self.is_file else postgres_doctor.of_queues
        return list(look(self.db, self.clock()))

    def close(self) -> None:
        self.db.close()


def test_every_question_is_tried() -> None:
    of_files = {name for name in PROMISES if name in doctor.SQL}
    assert of_files | of_slices("sqlite") == {asked(name) for name in IN_FILES} - OF_VERBS
    of_databases = {name for name in PROMISES if name in postgres_doctor.SQL}
    assert of_databases | of_slices("postgres") == {asked(name) for name in IN_DATABASES} - OF_VERBS


def of_slices(part: str) -> set[str]:
    folders = [folder for one in slices.found() if one.checks and (folder := one.folder(part))]
    return {name for folder in folders for name in statements_in(folder / "doctor.sql")}
