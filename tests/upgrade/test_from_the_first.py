"""What the first version left is brought to this one in place, and is as if made new, with data."""

import sqlite3

import turnabout
from tests.support.doors import Clock
from tests.upgrade import catalog
from tests.upgrade.first import first_sqlite
from turnabout import Acked
from turnabout.sqlite import install as sqlite_install

THEN = 1_800_000_000_000


def test_an_upgraded_file_is_like_a_new_one(tmp_path):
    old, new = tmp_path / "old.db", tmp_path / "new.db"
    first_sqlite(old)
    assert sqlite_install.status(f"sqlite:///{old}").current == 1
    names = [step.name for step in sqlite_install.migrations()]
    assert sqlite_install.up(f"sqlite:///{old}") == tuple(names[1:])
    assert sqlite_install.up(f"sqlite:///{new}") == tuple(names)
    assert catalog.of_sqlite(old) == catalog.of_sqlite(new)
    look_at_what_the_first_version_left(f"sqlite:///{old}")


def test_a_script_by_hand_makes_the_same_file(tmp_path):
    old, new = tmp_path / "old.db", tmp_path / "new.db"
    first_sqlite(old)
    sqlite_install.up(f"sqlite:///{new}")
    for path, since in ((old, 1), (tmp_path / "hand.db", 0)):
        connection = sqlite3.connect(path)
        connection.executescript(sqlite_install.script(since=since))
        connection.close()
        assert catalog.of_sqlite(path) == catalog.of_sqlite(new)
    look_at_what_the_first_version_left(f"sqlite:///{old}")


def look_at_what_the_first_version_left(url: str) -> None:
    """Each message is there as it was, is handed out, and ends; the counts add up."""
    clock = Clock(THEN)
    with turnabout.connect(url, clock=clock) as mq:
        orders, fifo, dead = mq.queue("orders"), mq.queue("fifo"), mq.queue("orders-dead")
        seen = {p.id: p for p in (*orders.peek(100), *fifo.peek(100), *dead.peek(100))}
        assert sorted(seen) == [2, 3, 4, 5, 6, 7, 8, 9, 10]
        assert [p for p, one in seen.items() if one.state == "leased"] == [6, 8]
        assert (seen[2].headers, seen[2].channel) == ({"trace": "1"}, "shop-1")
        assert (seen[3].failures, seen[3].error) == (1, "once")
        assert seen[4].saved_state == b"half"
        assert (seen[5].origin.queue, seen[5].origin.last_error) == ("orders", "boom")
        assert orders.channel("shop-1").policy().max_concurrency == 1
        assert (orders.settings().max_attempts, fifo.settings().fifo) == (2, True)
        counts = {s.queue: (s.sent, s.done, s.dead) for s in mq.stats()}
        assert counts["orders"] == (7, 1, 1)
        # A receipt that the first version gave out still settles its message.
        assert orders.ack([turnabout.Receipt(6, 1)]) == (Acked(),)
        left: list[int] = []
        for queue in (orders, fifo, dead) * 3:
            clock.advance(50)
            while batch := queue.receive(1):
                assert batch[0].ack() == Acked()
                left.append(batch[0].id)
        assert sorted(left) == [2, 3, 4, 5, 7, 8, 9, 10]
        assert [one for one in left if one >= 8] == [8, 9, 10], "a channel's order was lost"
