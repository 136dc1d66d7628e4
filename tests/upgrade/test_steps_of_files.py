"""A later step, made up here, brings an SQLite file to what a new one is, with its data."""

import json
import sqlite3
from contextlib import closing

import pytest

import turnabout
from tests.upgrade import catalog
from tests.upgrade.newer import Version, write_newer
from turnabout import Acked
from turnabout.sqlite import install

STEPS = (
    "import sys, json; from turnabout.sqlite import install;"
    "json.dump(install.steps(since=json.loads(sys.argv[1])), sys.stdout)"
)


@pytest.fixture
def newer(tmp_path):
    return Version(write_newer(tmp_path / "newer"))


@pytest.fixture
def wanted(tmp_path, newer):
    """What a new file of the newer version looks like."""
    newer.install("up", f"sqlite:///{tmp_path}/new.db")
    return catalog.of_sqlite(tmp_path / "new.db")


def test_an_upgraded_file_is_like_a_new_one(tmp_path, newer, wanted):
    path, url = tmp_path / "app.db", f"sqlite:///{tmp_path}/app.db"
    with turnabout.connect(url) as mq:
        queue = mq.queue("orders")
        queue.send_many([turnabout.message("a"), turnabout.message("b")])
        (leased,) = queue.receive()
    assert catalog.of_sqlite(path) != wanted
    assert newer.install("up", url) == "('0002_newer',)"
    assert catalog.of_sqlite(path) == wanted
    assert newer.install("up", url) == "()"
    with turnabout.connect(url) as mq:
        assert mq.queue("orders").ack([leased.receipt]) == (Acked(),)
        assert mq.queue("orders").receive()[0].text() == "b"


@pytest.mark.parametrize("begun", [False, True])
def test_the_printed_steps_do_the_same(tmp_path, newer, wanted, begun):
    path, since = tmp_path / "app.db", dict[str, int]()
    if begun:
        turnabout.connect(f"sqlite:///{path}").close()
        since = {step.slice: step.number for step in install.migrations()}
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("begin")
        for statement in json.loads(newer.python(STEPS, json.dumps(since))):
            connection.execute(statement)
        connection.execute("commit")
    assert catalog.of_sqlite(path) == wanted
