"""Bugs that chaos must see, planted in PostgreSQL's functions. Everyday statements are put aside,
so that the functions do all the work.
"""

from __future__ import annotations

import psycopg

from tests.races.rig import Hammer, Place
from tests.support.planted import Bug, plant

PLANTED: dict[str, Bug] = {
    bug.what: bug
    for bug in [
        Bug(
            "after a crash one message in seven gets no place",
            (),
            "where (h.at > v_now and not h.fifo) is not true",
            "where (h.at > v_now and not h.fifo) is not true and h.id % 7 <> 0",
        ),
        Bug("a delay is half as long", (), "m.now + m.delay end,", "m.now + m.delay / 2 end,"),
        Bug(
            "two at a time from a FIFO channel",
            (),
            "case when queue.fifo then 1 else coalesce(own_limit",
            "case when queue.fifo then 2 else coalesce(own_limit",
        ),
        Bug(
            "an end forgets one message in eleven",
            (),
            "where m.id = any (ids)\n            and (end_done",
            "where m.id = any (ids) and m.id % 11 <> 0\n            and (end_done",
        ),
        Bug(
            "numbers of leases begin anew after a crash",
            (),
            "v_now * 1000, pg_sequence_last_value('turnabout.lease_number'::regclass) + 1",
            "1, 1",
        ),
    ]
}


def planted(name: str, place: Place, hammer: Hammer) -> None:
    """From now on the bug is there; the place is thrown away afterwards."""
    hammer.more = {**hammer.more, "functions": True}
    with psycopg.connect(place.url, autocommit=True) as connection:
        plant(connection, PLANTED[name])
