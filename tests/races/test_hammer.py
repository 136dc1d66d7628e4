"""Hammers: many processes on one store, killed at random; the history is checked afterwards.

About ten seconds a store here. `TURNABOUT_HAMMER_SECONDS=600` makes it a night's work.
"""

import json
from contextlib import nullcontext
from pathlib import Path

import psycopg
import pytest
from click.testing import CliRunner

from tests.races.checker import Report
from tests.races.rig import (
    OF_QUEUES,
    SECONDS,
    Hammer,
    Run,
    judge,
    too_few_kills,
    until_enough_was_seen,
)
from tests.support.doors import migrate
from tests.support.pooler import pooled
from tests.support.postgres import deadlocks, fresh_database
from turnabout.cli import main

pytestmark = [
    pytest.mark.slow,
    pytest.mark.real_time,
    pytest.mark.timeout(SECONDS * 20 + 300),
]

AT_LEAST = {
    "accepted": 100,
    "redeliveries": 5,
    "stale receipts": 2,
    "slots full": 8,
    "rate met": 2,
    "queue's slots full": 8,
    "queue's rate met": 2,
    "in order": 15,
    "delayed": 5,
    "repeated": 5,
}


def judged(run: Run, folder: Path) -> Report:
    return judge(run, folder, AT_LEAST, *too_few_kills(run), **OF_QUEUES)


def ask_the_doctor(url: str) -> None:
    """It finds no promise broken, with whatever a busy queue leaves behind."""
    told = json.loads(CliRunner().invoke(main, ["doctor", "--json", "--url", url]).stdout)
    failed = [check for check in told["checks"] if check["level"] == "fail"]
    assert not failed, failed
    promises = [check for check in told["checks"] if "(P" in check["text"]]
    assert {check["level"] for check in promises} == {"ok"}, promises


def test_sqlite(tmp_path):
    def hammer(folder: Path, seconds: float) -> Report:
        url = f"sqlite:///{folder}/app.db"
        run = Hammer(url, folder).run(seconds)
        ask_the_doctor(url)
        return judged(run, folder)

    until_enough_was_seen(hammer, tmp_path)


@pytest.mark.parametrize("way", ["direct", "pooler"])
def test_postgres(postgres_server, tmp_path, way):
    """Also through a transaction pooler, with our URL as it is: each call may have another session,
    and finds there what others have prepared.
    """

    def hammer(folder: Path, seconds: float) -> Report:
        with (
            fresh_database(postgres_server, fill=migrate) as url,
            pooled(url) if way == "pooler" else nullcontext(url) as through,
        ):

            def cut_connections() -> str:
                with psycopg.connect(postgres_server.url(), autocommit=True) as connection:
                    connection.execute(
                        "select pg_terminate_backend(pid) from pg_stat_activity"
                        " where datname = %s and random() < 0.4",
                        [psycopg.conninfo.conninfo_to_dict(url)["dbname"]],
                    )
                return "cut"

            run = Hammer(through, folder).run(seconds, also=cut_connections)
            assert deadlocks(url) == 0, "PostgreSQL has broken a deadlock (P13)"
            ask_the_doctor(through)
            return judged(run, folder)

    until_enough_was_seen(hammer, tmp_path)
