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
        "queue": {
            *("id", "name", "dead_letter_id", "swept", "version", "queue_leased", "queue_tat_us"),
        },
        "message": {"status", "limited"},  # where it stands is no column there
        # counted, under other names, or looked at again
        "channel": {"size", "leased", "tat_us", "depth_us", "wake_at"},
        "history": {"seq"},  # becomes xid: PostgreSQL orders by time, and then by that
    }
    theirs = {
        "queue": {"id", "name", "timers_since", "limited", "queue_limited"},
        "channel": {"awake", "wake_at", "awake_name"},
        "redrive": {"phase"},  # begins anew: what it has moved is not there any more
    }
    turnabout.connect(endpoints.source).close()
    lists = {
        "queue": (*_rows.QUEUE, *_rows.TALLY[1:]),
        "message": _rows.MESSAGE,
        "channel": _rows.CHANNEL,
        "history": _rows.HISTORY,
        "dedup": _rows.DEDUP,
        "event": _rows.EVENT,
        "redrive": _rows.REDRIVE,
        "schedule": _rows.SCHEDULE,
        "namespace": _rows.NAMESPACE,
        "token": _rows.TOKEN,
        "sink_batch": _rows.SINK_BATCH,
    }
    left = {  # of pipelines: positions and epochs mean nothing there, staged batches are repeated
        *("stage", "watermark", "log_floor"),
        *("migration", "inbox", "inbox_refused", "clock"),
    }
    path = endpoints.source.removeprefix("sqlite:///")
    with sqlite3.connect(path) as file:
        listed = file.execute("select name from sqlite_master where type = 'table'").fetchall()
        names = [name for (name,) in listed if not name.startswith("sqlite_")]
        tables = {name.removeprefix("turnabout_") for name in names}
        assert tables == lists.keys() | left
        for table, columns in lists.items():
            found = {row[1] for row in file.execute(f"pragma table_info(turnabout_{table})")}
            assert found - set(columns) == derived.get(table, set()), table
    file.close()
    for table, columns in lists.items():
        found = {
            name
            for (name,) in endpoints.ask(
                "select column_name::text from information_schema.columns"
                f" where table_schema = 'turnabout' and table_name = '{table}'"
            )
        }
        assert found - set(columns) == theirs.get(table, set()), table
