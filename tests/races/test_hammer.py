"""Hammers: many processes on one store, killed at random; the history is checked afterwards.

About ten seconds a store here. `PENSTOCK_HAMMER_SECONDS=600` makes it a night's work.
"""

from pathlib import Path

import psycopg
import pytest

from tests.races.actors import LIMITS
from tests.races.checker import check
from tests.races.rig import RATE, SECONDS, SEED, Hammer, Run
from tests.support.doors import migrate
from tests.support.postgres import fresh_database

pytestmark = [
    pytest.mark.slow,
    pytest.mark.real_time,
    pytest.mark.timeout(SECONDS * 2 + 90),
]

AT_LEAST = {
    "accepted": 150,
    "redeliveries": 10,
    "stale receipts": 3,
    "slots full": 20,
    "rate met": 3,
    "in order": 30,
    "delayed": 10,
}


def judge(run: Run, folder: Path) -> None:
    report = check(
        run.events,
        run.left,
        run.stats,
        limits=LIMITS,
        rates={"slow": RATE},
        drained=run.drained,
        at_least=AT_LEAST,
    )
    print(f"seed {SEED}, faults {dict(run.faults)}, {report}")  # noqa: T201 (`pytest -s`)
    if run.faults["kill"] < 3:
        report.missing.append(f"only {run.faults['kill']} kills")
    told = (folder / "errors.txt").read_text(errors="replace")
    assert report.verdict == "valid", f"seed {SEED}\n{report}\n{told[-3000:]}"


def test_sqlite(tmp_path):
    judge(Hammer(f"sqlite:///{tmp_path}/app.db", tmp_path).run(), tmp_path)


def test_postgres(postgres_server, tmp_path):
    with fresh_database(postgres_server, fill=migrate) as url:

        def cut_connections() -> str:
            with psycopg.connect(postgres_server.url(), autocommit=True) as connection:
                connection.execute(
                    "select pg_terminate_backend(pid) from pg_stat_activity"
                    " where datname = %s and random() < 0.4",
                    [psycopg.conninfo.conninfo_to_dict(url)["dbname"]],
                )
            return "cut"

        run = Hammer(url, tmp_path).run(also=cut_connections)
        with psycopg.connect(url) as connection:
            row = connection.execute(
                "select deadlocks from pg_stat_database where datname = current_database()"
            ).fetchone()
        assert row == (0,), "PostgreSQL has broken a deadlock (P13)"
        judge(run, tmp_path)
