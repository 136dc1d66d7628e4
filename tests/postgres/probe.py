"""What one statement touched: blocks and entries of each table and index.

Read from the session's own counters, before and after, in one transaction: this needs no rights,
no settings and no waiting, and works on all versions.
"""

import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg

Connection = psycopg.Connection[Any]

COUNTERS = """
select c.relname, pg_stat_get_xact_blocks_fetched(c.oid), pg_stat_get_xact_tuples_returned(c.oid)
from pg_class c
where c.relnamespace = 'turnabout'::regnamespace and c.relkind in ('r', 'i')
"""


@dataclass(frozen=True)
class Touched:
    """What a statement answered, and what it touched by name of table or index."""

    rows: list[tuple[Any, ...]]
    by_name: dict[str, tuple[int, int]]

    @property
    def blocks(self) -> int:
        """Buffers asked for, found in memory or not."""
        return sum(blocks for blocks, _ in self.by_name.values())

    @property
    def entries(self) -> int:
        """Index entries read, dead ones too, and rows of sequential scans."""
        return sum(entries for _, entries in self.by_name.values())

    def entries_of(self, name: str) -> int:
        """The same of one table or index."""
        return self.by_name.get(name, (0, 0))[1]

    def __str__(self) -> str:
        parts = [f"{name} {b}b/{e}e" for name, (b, e) in sorted(self.by_name.items()) if b or e]
        return f"{self.blocks} blocks, {self.entries} entries: " + ", ".join(parts)


def touched(connection: Connection, sql: str, parameters: Sequence[Any] = ()) -> Touched:
    """Run one statement; what it answered and what it touched."""
    with connection.transaction():
        before = counters(connection)
        rows = connection.execute(sql, parameters).fetchall()
        after = counters(connection)
    found = {
        name: (blocks - before.get(name, (0, 0))[0], entries - before.get(name, (0, 0))[1])
        for name, (blocks, entries) in after.items()  # a `maintain` makes tables
    }
    return Touched(rows, found)


def answered(connection: Connection, sql: str, parameters: Sequence[Any] = ()) -> Touched:
    """As `touched`, without the figures."""
    return Touched(connection.execute(sql, parameters).fetchall(), {})


def counters(connection: Connection) -> dict[str, tuple[int, int]]:
    """Blocks and entries so far, by name."""
    return {name: (blocks, entries) for name, blocks, entries in connection.execute(COUNTERS)}


def backend_seconds(connection: Connection) -> float:
    """Processor time so far of all backends of the database; the clock where that isn't told."""
    if not Path("/proc/self/schedstat").exists():
        return time.monotonic()
    pids = connection.execute(
        "select pid from pg_stat_activity where datname = current_database()"
    ).fetchall()
    spent = [Path(f"/proc/{pid}/schedstat").read_text().split()[0] for (pid,) in pids]
    return sum(map(int, spent)) / 1e9
