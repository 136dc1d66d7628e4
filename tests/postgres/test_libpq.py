"""Calls of the blocking store, in libpq's own terms."""

import select

import turnabout
from tests.support.doors import migrate
from tests.support.postgres import fresh_database
from turnabout import Sent


def test_what_does_not_fit_the_socket_is_sent_beside_many_open_files(
    postgres_server, many_open_files
):
    with fresh_database(postgres_server, fill=migrate) as url, turnabout.connect(url) as mq:
        queue = mq.queue("q")
        for size in (100, 300_000, 1 << 20):
            assert isinstance(queue.send(b"x" * size), Sent)
        assert sorted(len(m.payload) for m in queue.receive(3)) == [100, 300_000, 1 << 20]


def test_it_is_sent_where_the_system_has_no_poll(postgres_server, monkeypatch):
    """As on Windows, where `select` takes any socket."""
    monkeypatch.delattr(select, "poll")
    with fresh_database(postgres_server, fill=migrate) as url, turnabout.connect(url) as mq:
        assert isinstance(mq.queue("q").send(b"x" * (1 << 20)), Sent)
