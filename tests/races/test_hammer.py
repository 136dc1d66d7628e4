"""Hammers: many processes on one store, killed at random; the history is checked afterwards.

About ten seconds a store here. `TURNABOUT_HAMMER_SECONDS=600` makes it a night's work.
"""

import json
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path

import psycopg
import pytest
from click.testing import CliRunner

from tests.races.actors import LIMITS
from tests.races.checker import Report, check
from tests.races.rig import QUEUE_LIMITS, QUEUE_RATES, RATE, SECONDS, SEED, Hammer, Run
from tests.support.doors import migrate
from tests.support.pooler import pooled
from tests.support.postgres import fresh_database
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


TRIES = 4


def judge(run: Run, folder: Path) -> Report:
    report = check(
        run.events,
        run.left,
        run.stats,
        limits=LIMITS,
        rates={"slow": RATE},
        queue_limits=QUEUE_LIMITS,
        queue_rates=QUEUE_RATES,
        drained=run.drained,
        at_least=AT_LEAST,
    )
    if run.faults["kill"] < 3:
        report.missing.append(f"only {run.faults['kill']} kills")
    told = (folder / "errors.txt").read_text(errors="replace")
    print(f"seed {SEED}, faults {dict(run.faults)}, {report}")  # noqa: T201 (`pytest -s`)
    assert report.verdict != "invalid", f"seed {SEED}\n{report}\n{told[-3000:]}"
    return report


def ask_the_doctor(url: str) -> None:
    """It finds no promise broken, with whatever a busy queue leaves behind."""
    told = json.loads(CliRunner().invoke(main, ["doctor", "--json", "--url", url]).stdout)
    failed = [check for check in told["checks"] if check["level"] == "fail"]
    assert not failed, failed
    promises = [check for check in told["checks"] if "(P" in check["text"]]
    assert {check["level"] for check in promises} == {"ok"}, promises


def until_enough_was_seen(hammer: Callable[[Path, float], Report], folder: Path) -> None:
    """A run that gave too few chances for a fault proves nothing: another, longer one."""
    for number in range(TRIES):
        place = folder / str(number)
        place.mkdir()
        report = hammer(place, SECONDS * 2**number)
        if report.verdict == "valid":
            return
    pytest.fail(f"{TRIES} runs, and each gave too few chances: {report}")


def test_sqlite(tmp_path):
    def hammer(folder: Path, seconds: float) -> Report:
        url = f"sqlite:///{folder}/app.db"
        run = Hammer(url, folder).run(seconds)
        ask_the_doctor(url)
        return judge(run, folder)

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
            with psycopg.connect(url) as connection:
                row = connection.execute(
                    "select deadlocks from pg_stat_database where datname = current_database()"
                ).fetchone()
            assert row == (0,), "PostgreSQL has broken a deadlock (P13)"
            ask_the_doctor(through)
            return judge(run, folder)

    until_enough_was_seen(hammer, tmp_path)
