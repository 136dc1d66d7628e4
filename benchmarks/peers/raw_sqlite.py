"""The raw limit on SQLite, as the other sections have it, among the peers."""

from __future__ import annotations

import sqlite3

from benchmarks import on_sqlite
from benchmarks.on_sqlite import SqliteBase
from benchmarks.peers.peer import BATCHES, PeerJob, Shape, SqlitePeer


class RawOnSqlite(SqlitePeer):
    """Two transactions."""

    name = "raw-sqlite"
    about = (
        "No queue, but its limit: one table, a transaction that leases, one that deletes. At least"
        " once."
    )
    batches = BATCHES

    def version(self) -> str:
        """Of SQLite."""
        return sqlite3.sqlite_version

    def fill(self, base: SqliteBase, count: int, shape: Shape) -> None:
        """Insert what is missing."""
        base.fill_raw(count)

    def open(self, job: PeerJob) -> on_sqlite.Raw:
        """One connection."""
        return on_sqlite.Raw(job.url)
