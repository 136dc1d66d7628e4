"""Two versions of the library on one database, before, during and after the newer one's `up`."""

import time
from ast import literal_eval
from collections import Counter
from pathlib import Path

import psycopg
import pytest

import turnabout
from tests.support.postgres import fresh_database, migrated_url
from tests.upgrade.newer import PACKAGE, Agent, Version, write_newer
from turnabout import WrongVersion
from turnabout._connect import installer
from turnabout.postgres.revision import REVISION

pytestmark = pytest.mark.slow


@pytest.fixture
def older() -> Version:
    return Version(PACKAGE.parent)


@pytest.fixture
def newer(tmp_path: Path) -> Version:
    return Version(write_newer(tmp_path / "newer"))


url = migrated_url


def roll(url: str, older: Version, newer: Version) -> int:
    """A rolling upgrade under load; how many messages the newer version sent.

    Nothing is lost and nothing comes twice, whoever sent it and whoever works on it.
    """
    before = older.agent(url, "before")
    time.sleep(0.3)
    assert "newer" in newer.install("up", url)
    agents = [before, newer.agent(url, "newer"), older.agent(url, "after")]
    time.sleep(1.0)
    did = [agent.end() for agent in agents]
    left = drained(url)
    sent = [payload for one in did for payload in one["sent"]]
    acked = Counter([payload for one in did for payload in one["acked"]] + left)
    assert acked == Counter(sent)
    assert all(len(one["sent"]) > 3 and one["acked"] for one in did)
    return len(did[1]["sent"])


def drained(url: str) -> list[str]:
    """What is left, worked on by the older version."""
    found: list[str] = []
    with turnabout.connect(url) as mq:
        queue = mq.queue("work")
        while batch := queue.receive(100):
            for message in batch:
                assert message.ack() == turnabout.Acked()
                found.append(message.text())
        stats = queue.stats()
        assert (stats.ready, stats.leased, stats.scheduled) == (0, 0, 0)
        assert stats.sent == stats.done
    return found


def test_both_versions_work_on_one_postgresql(url, older, newer):
    by_newer = roll(url, older, newer)
    install = installer(url)
    with psycopg.connect(url) as connection:
        ((counted,),) = connection.execute("select sum(messages) from turnabout.of_newer")
        assert counted == by_newer, "each version calls its own functions"
        # People who write SQL have the latest set.
        connection.execute("select turnabout.send('work', 'by hand')")
        ((counted,),) = connection.execute("select sum(messages) from turnabout.of_newer")
        assert counted == by_newer + 1
    status = install.status(url)
    assert (status.pending, status.revisions) == ((), (REVISION, REVISION + 1))
    assert status.current == status.wanted + 1
    assert install.up(url) == (), "the older version has nothing to do, and undoes nothing"

    older_agent = older.agent(url, "last")
    pruned = literal_eval(newer.install("prune", url))
    assert pruned[0] == f"turnabout_r{REVISION}", "and with it the slices' sets that call it"
    assert all(name.startswith(f"{pruned[0]}_") for name in pruned[1:])
    with pytest.raises(AssertionError, match=r"WrongVersion.*removed by `turnabout migrate prune`"):
        older_agent.end()
    newer.agent(url, "newest").end()


def test_an_older_version_can_come_to_a_newer_database(postgres_server, older, newer):
    """Going back: the newer version made the database, and the older one puts its set beside."""
    with fresh_database(postgres_server) as url:
        newer.install("up", url)
        with (
            turnabout.connect(url) as mq,
            pytest.raises(WrongVersion, match="turnabout migrate up"),
        ):
            mq.queue("work").send("x")
        assert "functions" in older.install("up", url)
        assert installer(url).status(url).revisions == (REVISION, REVISION + 1)
        agents: list[Agent] = [older.agent(url, "older"), newer.agent(url, "newer")]
        did = [agent.end() for agent in agents]
        with psycopg.connect(url) as connection:
            ((counted,),) = connection.execute("select sum(messages) from turnabout.of_newer")
        assert counted == len(did[1]["sent"]), "the older version replaced the latest set"


def test_a_step_may_leave_older_versions_behind(url, older, tmp_path):
    strict = Version(write_newer(tmp_path / "strict", leaves_behind=True))
    agent = older.agent(url, "older")
    strict.install("up", url)
    with pytest.raises(AssertionError, match="WrongVersion"):
        agent.end()
    with turnabout.connect(url) as mq, pytest.raises(WrongVersion, match="git pull"):
        mq.queue("work").send("x")
    assert installer(url).status(url).revisions == (REVISION + 1,)
    strict.agent(url, "newer").end()


def test_both_versions_work_on_one_file(tmp_path, older, newer):
    url = f"sqlite:///{tmp_path}/app.db"
    installer(url).up(url)
    assert roll(url, older, newer) > 3
    status = installer(url).status(url)
    assert (status.current, status.pending, status.too_new) == (status.wanted + 1, (), False)
    assert installer(url).up(url) == ()


def test_a_step_may_leave_older_versions_of_a_file_behind(tmp_path):
    url = f"sqlite:///{tmp_path}/app.db"
    strict = Version(write_newer(tmp_path / "strict", leaves_behind=True))
    strict.agent(url, "newer").end()
    assert installer(url).status(url).too_new
    with pytest.raises(WrongVersion, match="git pull"):
        turnabout.connect(url).stats()
    with pytest.raises(WrongVersion):
        installer(url).up(url)
