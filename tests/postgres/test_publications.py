"""A database from which all tables are replicated (`create publication … for all tables`), as for
an upgrade by logical replication or a change data capture.
"""

import logging

import pytest

import turnabout
from tests.conformance.steps import maintained
from tests.postgres.asking import ask
from tests.support.doors import Clock
from turnabout.postgres.doctor import findings

pytestmark = pytest.mark.slow  # a database of its own

WITHOUT_IDENTITY = """
select c.oid::regclass::text from pg_class c
where c.relnamespace::regnamespace::text like 'turnabout%%' and c.relkind in ('r', 'p')
    and c.relpersistence = 'p' and c.relreplident <> 'f' and not exists (
        select from pg_index i where i.indrelid = c.oid and i.indisprimary
    )
"""
DAY_SECONDS = 86_400


def test_nothing_stays_that_maintenance_removes(migrated_url) -> None:
    url, clock = migrated_url, Clock()
    ask(url, "create publication everything for all tables")
    with turnabout.connect(url, clock=clock) as mq:
        queue = mq.queue("q")
        queue.create(history_seconds=3600, events="all")
        queue.send_many(turnabout.message("x", channel=str(n % 3)) for n in range(30))
        for message in queue.receive(20):
            message.ack()
        assert len(ask(url, "select 1 from turnabout.tally")) > 1
        for _ in range(10):
            clock.advance(DAY_SECONDS)
            maintained(queue)
        assert len(ask(url, "select 1 from turnabout.tally")) == 1
        assert queue.clear("all").messages == 0
        assert ask(url, "select 1 from turnabout.event") == []
        queue.delete()
    assert ask(url, WITHOUT_IDENTITY) == []


def test_maintenance_that_fails_is_told(migrated_url, caplog) -> None:
    """Once; a receive goes on. `doctor` finds it without a change."""
    url = migrated_url
    with turnabout.connect(url) as mq:
        queue = mq.queue("q")
        queue.create()
        for text in "abc":
            queue.send(text)
        ask(url, "create publication everything for all tables")
        assert [found.level for found in findings(url) if found.name == "maintenance"] == ["ok"]
        ask(url, "alter table turnabout.tally replica identity nothing")
        rounds = queue._shared.rounds
        for _ in range(3):
            rounds._maintained["q"] = -1e9
            assert queue.receive()
        assert rounds.failing == {"q": 3}
        (record,) = [r for r in caplog.records if r.name == "turnabout.maintenance"]
        assert record.levelno == logging.WARNING
        assert "the queue q cannot be maintained" in record.message
        (found,) = [found for found in findings(url) if found.name == "maintenance"]
        assert (found.level, found.facts["queue"]) == ("fail", "q")
        ask(url, "alter table turnabout.tally replica identity full")
        rounds._maintained["q"] = -1e9
        queue.receive()
        assert rounds.failing == {}
