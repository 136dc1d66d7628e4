"""An archive's Delta table while it is written. The table's transaction of this archive has the
number of rows archived so far: what the database's watermark has, too.

A commit's answer can be lost, and delta-rs then takes its own commit for another writer's: after
any error the table is read again, and says whose it is. No file is removed here: `vacuum` does.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Sequence
from typing import Any, Final

import msgspec
from deltalake import CommitProperties, DeltaTable, Schema, Transaction
from deltalake.exceptions import DeltaError, TableNotFoundError
from deltalake.transaction import AddAction

from turnabout.pipeline.lake._files import MEASURED, TABLE, LakeDamaged, WrittenFile
from turnabout.pipeline.lake._storage import Storage
from turnabout.words import limits
from turnabout.words.errors import Busy, Unavailable
from turnabout.words.value import Value

CONFIGURATION: Final = {
    "delta.appendOnly": "true",  # no slip takes rows away; compaction may still merge files
    "delta.dataSkippingStatsColumns": ",".join(MEASURED),
    "delta.checkpointInterval": "50",
}
_LOOKED_BACK: Final = 1_000
"""Commits in which an archive's last batch is looked for: above it are compactions only."""


class Overtaken(Busy):
    """Another archiver made the commit that this one was about to make: it has the rows."""

    code = "overtaken"


class Commit(Value):
    """A batch of an archive, as its commit notes it.

    rows      of this batch                total     of the archive, up to here
    after     position before it           position  up to where the log is in the archive
    at        milliseconds                 lost      rows before it were removed unread, up to there
    """

    rows: int
    total: int
    after: str
    position: str
    at: int
    version: int
    run: str
    lost: str | None = None


class ArchiveTable:
    """An archive by name, in its own table, of all namespaces or of one.

    Everything is asked of the table anew when it is opened; a commit is on top of what was seen.
    """

    def __init__(self, storage: Storage, archive: str, namespace: str | None = None) -> None:
        limits.plain_name(archive)
        self.storage, self.archive, self.namespace = storage, archive, namespace
        self._app = f"turnabout:{archive}" + ("" if namespace is None else f"@{namespace}")
        self._table: DeltaTable | None = None
        self.total: int | None = None
        """Rows archived so far; None: nothing of this archive is there."""
        self.refresh()

    def refresh(self) -> None:
        """Read the table's state. Raises: LakeDamaged, Forbidden, Unavailable."""
        self._table = opened(self.storage)
        self.total = None if self._table is None else self._table.transaction_version(self._app)

    @property
    def holds(self) -> str | None:
        """The description of the rows of another archive that are here; None: there are none."""
        if self._table is None or self.total is not None or not self._table.file_uris():
            return None
        return self._table.metadata().description

    def create(self) -> None:
        """Make the table, unless another archiver has made it meanwhile."""
        whose = "all namespaces" if self.namespace is None else f"the namespace {self.namespace!r}"
        configuration = dict(CONFIGURATION)
        if self.namespace is not None:  # no watermark has its position: the log has to keep it
            configuration["delta.logRetentionDuration"] = "interval 36500 days"
        with self.storage.disk_errors():
            DeltaTable.create(
                self.storage.uri,
                Schema.from_arrow(TABLE),
                mode="ignore",
                partition_by=["day"],
                name=self.archive,
                description=whose,
                configuration=configuration,
                storage_options=self.storage.delta_options,
            )
        self.refresh()

    def last(self) -> Commit | None:
        """Find the commit of the archive's last batch; None: it is gone from the table's log."""
        assert self._table is not None
        with self.storage.disk_errors():
            history = self._table.history(_LOOKED_BACK)
        for entry in history:
            if entry.get("app") == self._app and int(entry["total"]) == self.total:
                return _commit_of(entry)
        return None

    def commit(
        self,
        files: Sequence[WrittenFile],
        *,
        rows: int,
        position: str,
        after: str,
        lost: str | None,
    ) -> Commit:
        """Commit files that together have to have `rows` rows.

        Raises: Unavailable: they have not, and nothing has happened; Overtaken: another archiver
        has committed these rows.
        """
        found = sum(file.rows for file in files)
        if found != rows:
            raise Unavailable(
                f"{found:,} rows were written where {rows:,} were to be: nothing was committed; "
                "run it again"
            )
        table, before = self._table, self.total
        assert table is not None
        run, total = secrets.token_hex(8), (before or 0) + rows
        noted = {
            "app": self._app,
            "run": run,
            "rows": str(rows),
            "total": str(total),
            "after": after,
            "position": position,
            **({} if lost is None else {"lost": lost}),
        }
        properties = CommitProperties(
            custom_metadata=noted, app_transactions=[Transaction(self._app, total)]
        )
        try:
            table.create_write_transaction(
                [added(file) for file in files],
                "append",
                table.schema(),
                ["day"],
                commit_properties=properties,
            )
        except (DeltaError, OSError) as error:
            self._settle(error, before, total, run)
        else:
            self.refresh()
        made = self.last()
        assert made is not None
        return made

    def _settle(self, error: Exception, before: int | None, total: int, run: str) -> None:
        """Find out what became of a commit that answered with an error."""
        self.refresh()
        last = self.last() if self.total == total else None
        if last is not None and last.run == run:
            return  # it was ours, and its answer was lost
        if self.total != before:
            raise Overtaken(
                f"another archiver has committed to {self.storage.uri} meanwhile: this one's "
                "batch is not there, and nothing is lost or doubled. Run one at a time"
            ) from error
        with self.storage.disk_errors():
            if isinstance(error, OSError):
                raise error
        raise Unavailable(
            f"nothing was committed to {self.storage.uri} ({str(error)[:300]}): run it again"
        ) from error


def opened(storage: Storage, version: int | None = None) -> DeltaTable | None:
    """Open a table; None: there is none. Raises: LakeDamaged, Forbidden, Unavailable."""
    with storage.disk_errors():
        try:
            return DeltaTable(storage.uri, version, storage_options=storage.delta_options)
        except (TableNotFoundError, FileNotFoundError):
            return None
        except DeltaError as error:
            raise LakeDamaged(
                f"the table {storage.uri} cannot be read ({str(error)[:300]}): restore it from a "
                "copy of the lake"
            ) from error


def added(file: WrittenFile) -> AddAction:
    """Delta's action that makes a file part of a table."""
    return AddAction(
        path=file.path,
        size=file.bytes,
        partition_values={"day": file.day} if file.day else {},
        modification_time=round(time.time() * 1000),
        data_change=True,
        stats=file.stats,
    )


def _commit_of(entry: dict[str, Any]) -> Commit:
    return msgspec.convert({**entry, "at": entry["timestamp"]}, Commit, strict=False)
