"""Each promise that `doctor` asks about: broken on purpose in a database, and seen. Both stores."""

from __future__ import annotations

import contextlib
import json
import sqlite3
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psycopg
import pytest
from click.testing import CliRunner

import penstock
from penstock.cli import doctor_promises, main
from penstock.words import pipeline as p
from penstock.words.credentials import TokenCreate, scopes
from penstock.words.entities import Outgoing
from penstock.words.limits import FOREVER_MS
from tests.support import postgres
from tests.support.doors import migrate

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
    "subscriptions": "update {s}subscription set seen_at = {old}",
    "archives": "update {s}history set finished_at = {now} - 400000000",  # of a week
}
OF_PIPELINES = {"subscriptions", "archives"}
ON_POSTGRES = {
    "buoys": "insert into penstock.message (id, queue_id, channel, priority, status, limited, at,"
    " sent_at, payload, content_type) overriding system value select -1, queue_id, channel,"
    " priority, 0, false, id + 1, {old}, '', '' from penstock.message"
    " where channel = 'd' and status = 0 limit 1;"
    "update penstock.message set sent_at = {old} where id > 0",
    "days": "alter table penstock.history detach partition {today};"
    "insert into penstock.history select * from {today}",
}
FAILS = {question.name for question in doctor_promises.QUESTIONS if question.is_broken}


def fill(url: str) -> None:
    """Something of everything."""
    with penstock.connect(url) as opened:
        queue = opened.queue("q")
        queue.create(events="all")
        queue.channel("c").set_policy(penstock.Policy(max_concurrency=1))
        queue.send_many([penstock.message(str(n), channel="cd"[n % 2]) for n in range(8)])
        queue.send("once", channel="d", dedup_key="k")
        first, second, *_ = queue.receive(4)
        first.ack()
        second.fail("no", retry=False)
        line = opened.queue("line")
        line.create(fifo=True, on_exhausted="block")
        line.send_many([penstock.message(str(n), channel="fifo") for n in range(3)])
        opened.queue("q-dead").redrive()
        opened.schedules.set("s", "q", "tick", every_seconds=3600)
        opened.queue("acme/q").create()
        opened.store.run(TokenCreate("a" * 12, bytes(32), "acme", "", scopes(["peek"])))
        fill_pipelines(opened)


def fill_pipelines(opened: penstock.Penstock) -> None:
    """A reader that is at work, an archive that has one row, and a batch that is being written."""
    run = opened.store.run
    opened.queue("p").send("x")
    generation = run(p.SubscriptionOpen("reader", "tests")).generation
    run(p.EpochLease("reader", generation, ("p",), 0, 1, 60_000))
    run(p.Stage("attempt", (p.StagedMessage("p", Outgoing(b"x")),)))
    ends = time.monotonic() + 10
    while not (span := run(p.LogNext(p.START, 1))).messages:  # another test's transaction
        assert time.monotonic() < ends
    run(p.WatermarkSet("lake", span.until, 1))


def levels(url: str) -> dict[str, str]:
    result = CliRunner().invoke(main, ["doctor", "--json", "--url", url])
    document = json.loads(result.stdout)
    assert document["ok"] is (result.exit_code == 0), result.output
    return {check["name"]: check["level"] for check in document["checks"]}


@pytest.fixture
def file(tmp_path: Path) -> tuple[str, Damage]:
    """An SQLite file, and a way to do harm to it."""
    url = f"sqlite:///{tmp_path}/queues.db"
    fill(url)

    def damage(sql: str) -> None:
        with contextlib.closing(sqlite3.connect(tmp_path / "queues.db")) as db:
            now = round(time.time() * 1000)
            top = "(select max(seq) from history)"
            db.executescript(
                sql.format(
                    s="", seq="seq,", seq_of=f"{top} + id,", seq_next=f"{top} + seq,",
                    done=DONE["sqlite"], true=1, now=now, old=OLD, forever=FOREVER_MS,
                )
            )  # fmt: skip

    return url, damage


@pytest.fixture
def database() -> Iterator[tuple[str, Damage]]:
    """A PostgreSQL database, and a way to do harm to it."""
    server = postgres._servers.get(0 if postgres.GIVEN else 18)
    with postgres.fresh_database(server, fill=migrate) as url:
        fill(url)

        def damage(sql: str) -> None:
            with psycopg.connect(url, autocommit=True) as db:
                row = db.execute("select penstock.clock_ms()").fetchone()
                days = db.execute(
                    "select tableoid::regclass::text from penstock.history limit 1"
                ).fetchone()
                assert row is not None
                assert days is not None
                db.execute(
                    sql.format(
                        s="penstock.", seq="", seq_of="", seq_next="", done=DONE["postgres"],
                        true="true", now=row[0], old=OLD, forever=FOREVER_MS, today=days[0],
                    ).encode()
                )  # fmt: skip

        yield url, damage


def test_all_is_well_in_a_file(file: tuple[str, Damage]) -> None:
    found = levels(file[0])
    assert {found[name] for name in BROKEN} == {"ok"}


@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_promise_in_a_file(file: tuple[str, Damage], name: str) -> None:
    url, damage = file
    damage(BROKEN[name])
    assert levels(url)[name] == ("fail" if name in FAILS else "warn")


@pytest.mark.slow
def test_all_is_well_in_a_database(database: tuple[str, Damage]) -> None:
    found = levels(database[0])
    assert {found[name] for name in {**BROKEN, **ON_POSTGRES}} == {"ok"}


@pytest.mark.slow
@pytest.mark.parametrize("name", {**BROKEN, **ON_POSTGRES})
def test_a_broken_promise_in_a_database(database: tuple[str, Damage], name: str) -> None:
    url, damage = database
    damage({**BROKEN, **ON_POSTGRES}[name])
    assert levels(url)[name] == ("fail" if name in FAILS else "warn")


def test_every_question_is_tried() -> None:
    asked = {question.name for question in doctor_promises.QUESTIONS}
    assert asked == set(BROKEN) - OF_PIPELINES
    assert {question.name for question in doctor_promises.POSTGRES_ONLY} == set(ON_POSTGRES)
