"""A later step, made up here, brings a PostgreSQL database to what a new one is, with its data."""

import json
from pathlib import Path

import pytest

import turnabout
from tests.support.postgres import fresh_database, migrated_url, psql
from tests.upgrade import catalog
from tests.upgrade.newer import Version, write_newer
from turnabout import Acked, Policy, Receipt, Sent
from turnabout.postgres import install

pytestmark = pytest.mark.slow

SCRIPT = (
    "import sys, json; from turnabout.postgres import install;"
    "steps = install.steps(since=json.loads(sys.argv[1]));"
    "sys.stdout.write(';\\n'.join(['begin', *steps, 'commit;']))"
)
LEFT = (
    "import sys, json, turnabout\n"
    "with turnabout.connect(sys.argv[1]) as mq:\n"
    "    queue = mq.queue('orders')\n"
    "    settled = queue.ack([turnabout.Receipt.parse(sys.argv[2])])\n"
    "    got = queue.receive(10)\n"
    "    assert all(m.ack() == turnabout.Acked() for m in got)\n"
    "    print(json.dumps([len(got), settled == (turnabout.Acked(),)]))"
)


@pytest.fixture
def newer(tmp_path: Path) -> Version:
    """A version whose step leaves this one behind, so that nothing of this one's is left."""
    return Version(write_newer(tmp_path / "newer", leaves_behind=True))


ours = migrated_url


@pytest.fixture
def fresh(postgres_server, newer):
    with fresh_database(postgres_server) as url:
        newer.install("up", url)
        yield url


def fill(url: str) -> Receipt:
    """Some messages, one of them leased; its receipt."""
    with turnabout.connect(url) as mq:
        queue = mq.queue("orders")
        for n in range(4):
            assert isinstance(queue.send(f"{n}", channel=f"shop-{n % 2}"), Sent)
        (leased,) = queue.receive()
        queue.channel("shop-1").set_policy(Policy(max_concurrency=10))
        assert (queue.stats().sent, leased.ack()) == (4, Acked())
        (leased,) = queue.receive()
        return leased.receipt


def look(newer: Version, url: str, receipt: Receipt) -> None:
    """The older version's receipt settles its message; all others are handed out."""
    said = newer.python(LEFT, url, str(receipt))
    assert json.loads(said) == [2, True]


def test_an_upgraded_database_is_like_a_new_one(newer, ours, fresh):
    receipt = fill(ours)
    assert catalog.of_postgres(ours) != catalog.of_postgres(fresh)
    assert "newer" in newer.install("up", ours)
    assert catalog.of_postgres(ours) == catalog.of_postgres(fresh)
    assert newer.install("up", ours) == "()"
    look(newer, ours, receipt)


def test_the_printed_steps_do_the_same(postgres_server, newer, ours, fresh):
    receipt = fill(ours)
    there = json.dumps({s.slice: s.number for s in install.migrations()})
    said = psql(postgres_server, ours, newer.python(SCRIPT, there))
    assert (said.returncode, said.stdout.strip()) == (0, ""), said.stderr
    assert catalog.of_postgres(ours) == catalog.of_postgres(fresh)
    look(newer, ours, receipt)
