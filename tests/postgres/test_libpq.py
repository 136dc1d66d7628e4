"""Calls of the blocking store, in libpq's own terms."""

import os
import resource

import pytest

import turnabout
from tests.support.doors import migrate
from tests.support.postgres import fresh_database
from turnabout import Sent


@pytest.fixture
def many_open_files():
    """More than 1,024: `select` cannot wait for those that come after them."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = 2048 if hard == resource.RLIM_INFINITY else min(2048, hard)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, most), hard))
    held = [os.open(os.devnull, os.O_RDONLY) for _ in range(1100)]
    yield
    for file in held:
        os.close(file)
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_what_does_not_fit_the_socket_is_sent_beside_many_open_files(
    postgres_server, many_open_files
):
    with fresh_database(postgres_server, fill=migrate) as url, turnabout.connect(url) as mq:
        queue = mq.queue("q")
        for size in (100, 300_000, 1 << 20):
            assert isinstance(queue.send(b"x" * size), Sent)
        assert sorted(len(m.payload) for m in queue.receive(3)) == [100, 300_000, 1 << 20]
