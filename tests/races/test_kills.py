"""The server is killed again and again while many processes send, receive and settle.

After each kill the unlogged tables are empty, and whoever comes first rebuilds them. The checker
judges what producers and workers wrote down: nothing lost, no fence breached, nothing stranded.
`TURNABOUT_KILLS=1000` makes it a night's work.
"""

import json
import os
import time
from pathlib import Path
from typing import Any

import psycopg
import pytest

from tests.races.rig import OF_QUEUES, Hammer, Run, judge
from tests.support.doors import migrate
from tests.support.postgres import GIVEN, own_server

KILLS = int(os.environ.get("TURNABOUT_KILLS", "100"))
SETTINGS = {"synchronous_commit": "on", "full_page_writes": "on"}
ORPHANS = """
select count(*) from turnabout.message m
where not exists (select from turnabout.ready r where r.id = m.id)
    and not exists (select from turnabout.scheduled s where s.id = m.id)
    and not exists (
        select from turnabout.lease l
        cross join unnest(l.ids, l.attempts) t (id, attempt)
        where t.id = m.id and t.attempt = m.attempt + 1
    )
"""
TWICE = """
select count(*) from (
    select from (
        select r.id from turnabout.ready r where r.id > 0
        union all
        select s.id from turnabout.scheduled s
    ) p
    group by p.id
    having count(*) > 1
) twice
"""

pytestmark = [
    pytest.mark.slow,
    pytest.mark.real_time,
    pytest.mark.skipif(GIVEN is not None, reason="a given server is not ours to kill"),
]


ACCEPTED, SENT = 10, b'"op": "send", "out": ['
"""So many sends for each kill, and how the log says that one was answered."""


class Storm(Hammer):
    """A hammer on a server that is killed, and started again, so many times."""

    def __init__(self, server: Any, folder: Path, kills: int) -> None:
        super().__init__(server.url("app"), folder)
        self.server, self.kills = server, kills

    def _torment(self, also: object) -> None:
        for number in range(self.kills):
            self._let_work()
            if number % 3 == 2:
                self.processes[self.dice.choice(self.slots)].kill()
                self.faults["process"] += 1
            how = self.dice.choice(["killed", "killed", "killed", "stopped"])
            began = time.monotonic()
            if how == "killed":
                self.server.kill()
            else:
                self.server.stop("immediate")
            self.server.start()
            self.faults[how] += 1
            void = {"e": "void", "t": began, "gone": time.monotonic()}
            with self.log.open("ab") as log:
                log.write(json.dumps(void).encode() + b"\n")
            self._look()
        self._let_send(ACCEPTED * self.kills)
        self.ends_at = time.monotonic()

    def _let_work(self, most_seconds: float = 5) -> None:
        """Mostly they are in the midst of it; at times the next kill comes before that."""
        enough = self._written() + self.dice.choice([0, 5_000, 20_000])
        give_up = time.monotonic() + most_seconds
        while self._written() < enough and time.monotonic() < give_up:
            self._revive()
            time.sleep(0.01)
        time.sleep(self.dice.uniform(0, 0.1))

    def _let_send(self, calls: int, most_seconds: float = 120) -> None:
        """A busy machine has them killed before they have done much, so the last ones have time."""
        give_up = time.monotonic() + most_seconds
        while self.log.read_bytes().count(SENT) < calls and time.monotonic() < give_up:
            self._revive()
            time.sleep(0.1)

    def _written(self) -> int:
        return self.log.stat().st_size if self.log.exists() else 0

    def _drain(self, mq: Any, most_seconds: float = 90) -> bool:
        return super()._drain(mq, most_seconds + 2 * self.kills)

    def _look(self) -> None:
        """Each message that is there stands in one place."""
        with psycopg.connect(self.url, autocommit=True) as connection:
            connection.execute("select turnabout.rebuild()")
            for name, statement in (("orphans", ORPHANS), ("twice", TWICE)):
                (count,) = connection.execute(statement.encode()).fetchone() or (0,)
                self.faults[name] += count


def stormed(folder: Path, kills: int) -> Run:
    with own_server(settings=SETTINGS) as server:
        server.create_database("app")
        migrate(server.url("app"))
        run = Storm(server, folder, kills).run(3600)
    at_least = {"accepted": ACCEPTED * kills, "stale receipts": kills // 10}
    judge(run, folder, at_least, good=["valid"], **OF_QUEUES)
    assert run.faults["orphans"] == run.faults["twice"] == 0
    return run


@pytest.mark.timeout(300)
def test_a_few_kills(tmp_path):
    stormed(tmp_path, 5)


@pytest.mark.long
@pytest.mark.timeout(60 + KILLS * 10)
def test_a_hundred_kills(tmp_path):
    run = stormed(tmp_path, KILLS)
    assert run.faults["killed"] + run.faults["stopped"] == KILLS
