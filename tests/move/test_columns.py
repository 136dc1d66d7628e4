"""Nothing that the file has is forgotten by a move."""

import sqlite3

import pytest

import turnabout
from tests.move.endpoints import Endpoints
from turnabout.move import _rows

pytestmark = pytest.mark.slow


def test_every_column_of_the_file_has_a_place(endpoints: Endpoints) -> None:
    """A column that a later version adds must be moved, too, or be named here with a reason."""
    derived = {
        # (its leases are counted, its bucket is a row of queue_limit)
        "queue": {"dead_letter_id", "swept", "version", "mixed", "last_id"}
        | {"ids_after", "ids_until"}
        | {"queue_leased", "queue_tat_us"},
        "message": {"status", "limited"},  # where it stands is no column there
        "channel": {"size", "leased", "tat_us", "depth_us"},  # counted, or under other names
        "history": {"seq"},  # becomes xid: PostgreSQL orders by time, and then by that
    }
    theirs = {
        "queue": {"timers_since"},
        "channel": {"awake"},
        "redrive": {"phase"},  # begins anew: what it has moved is not there any more
    }
    turnabout.connect(endpoints.source).close()
    moved = {
        *("queue", "message", "channel", "history", "dedup", "event", "redrive", "schedule"),
        *("namespace", "token", "sink_batch"),
    }
    left = {  # of pipelines: positions and epochs mean nothing there, staged batches are repeated
        *("stage", "watermark", "log_floor"),
        "sample",  # charts begin anew
        "worker",  # workers report again
        *("migration", "inbox", "inbox_refused", "clock"),
    }
    path = endpoints.source.removeprefix("sqlite:///")
    with sqlite3.connect(path) as file:
        listed = file.execute("select name from sqlite_master where type = 'table'").fetchall()
        names = [name for (name,) in listed if not name.startswith("sqlite_")]
        tables = {name.removeprefix("turnabout_") for name in names}
        assert tables == moved | left
        for table in moved:
            here = {row[1] for row in file.execute(f"pragma table_info(turnabout_{table})")}
            there = columns_there(endpoints, table)
            made = {*_rows.made(table, {}, "")} - {"id", "queue_id"}
            if table == "queue":
                there |= columns_there(endpoints, "tally") - {"queue_id"}
            assert here - there == derived.get(table, set()), table
            assert there - here - made == theirs.get(table, set()), table
            assert made <= there
    file.close()


def columns_there(endpoints: Endpoints, table: str) -> set[str]:
    found = endpoints.ask(
        "select column_name::text from information_schema.columns where is_generated = 'NEVER'"
        f" and table_schema = 'turnabout' and table_name = '{table}'"
    )
    return {name for (name,) in found}
