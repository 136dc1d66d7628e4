"""The lake as its readers see it: archives by name, their files, and what is in these."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

from turnabout.pipeline.lake import _files
from turnabout.pipeline.lake._files import LakeDamaged
from turnabout.pipeline.lake._storage import Storage
from turnabout.pipeline.lake._table import opened
from turnabout.words import limits
from turnabout.words.errors import UsageError
from turnabout.words.value import Value


class LakeFile(Value):
    """A Parquet file of an archive. path: from the table's folder; first, last: the earliest and
    the latest finished_at in it, in milliseconds.
    """

    path: str
    rows: int
    bytes: int
    day: str
    first: int
    last: int


class Lake:
    """A folder or a bucket with archives. Everything is read anew, so it never goes stale.

    storage_options  what delta-rs takes for an object store, beside the environment
    Raises: UsageError; from every method that reads: LakeDamaged, Forbidden, Unavailable.
    """

    def __init__(
        self, path: str | os.PathLike[str], *, storage_options: Mapping[str, str] | None = None
    ) -> None:
        self.storage = Storage.of(path, storage_options)

    def __str__(self) -> str:
        return self.storage.uri

    def archives(self) -> tuple[str, ...]:
        """List the archives by name."""
        names = [name for name in self.storage.folders() if not name.startswith("_")]
        return tuple(name for name in names if opened(self.storage.child(name)) is not None)

    def place(self, archive: str) -> Storage:
        """Return the place of an archive's table, whether or not it is there."""
        return self.storage.child(limits.plain_name(archive))

    def uri(self, archive: str | None = None) -> str:
        """Return the URI of an archive's Delta table, for whatever reads Delta."""
        return self.place(self.only(archive)).uri

    def only(self, archive: str | None) -> str:
        """Name the archive to read: the only one unless it is named. Raises: UsageError."""
        if archive is not None:
            return archive
        there = self.archives()
        if len(there) == 0:
            raise UsageError(
                f"there is no archive in {self}: name the lake that `turnabout pipeline run "
                "archive` writes"
            )
        if len(there) > 1:
            raise UsageError(
                f"the lake {self} has the archives {', '.join(there)}, which may have the same "
                "rows: name one"
            )
        return there[0]

    def table(self, archive: str | None = None, *, version: int | None = None) -> Any:
        """Open an archive's `deltalake.DeltaTable`, now or as it was after a version."""
        name = self.only(archive)
        try:
            found = opened(self.place(name), version)
        except LakeDamaged:
            if version is None or opened(self.place(name)) is None:
                raise
            found = None
        if found is None:
            which = name if version is None else f"{name} at version {version}"
            raise UsageError(
                f"the lake {self} has no {which}: it has {', '.join(self.archives()) or 'none'}"
            )
        return found

    def files(
        self,
        archive: str | None = None,
        *,
        since: int | None = None,
        until: int | None = None,
        version: int | None = None,
    ) -> tuple[LakeFile, ...]:
        """List an archive's files. With `since` and `until` (milliseconds) only those that can hold
        rows that finished from then, and before then.
        """
        return tuple(
            file
            for file in _listed(self.table(archive, version=version))
            if (since is None or file.last >= since) and (until is None or file.first < until)
        )

    def paths(
        self,
        archive: str | None = None,
        *,
        since: int | None = None,
        until: int | None = None,
        version: int | None = None,
    ) -> list[str]:
        """List whole paths, or URLs, of the files, for whatever reads Parquet."""
        name = self.only(archive)
        base = self.place(name).uri
        found = self.files(name, since=since, until=until, version=version)
        return [f"{base}/{file.path}" for file in found]

    def check(
        self, archive: str | None = None, *, deep: bool = False, before: str | None = None
    ) -> tuple[int, int]:
        """Check that the files are there with their sizes; with `deep`, that no bit has changed.

        before  only files of days before this one (2026-11-21)
        Answers with how many files and bytes there are. Raises: LakeDamaged, naming files.
        """
        name = self.only(archive)
        files = [one for one in self.files(name) if before is None or one.day < before]
        expected = {file.path: (file.bytes, file.rows) for file in files}
        _files.check(self.place(name), expected, deep=deep)
        return len(files), sum(file.bytes for file in files)


def _listed(table: Any) -> Sequence[LakeFile]:
    pyarrow: Any = _files.pa
    return [
        LakeFile(
            path=row["path"],
            rows=row["num_records"] or 0,
            bytes=row["size_bytes"],
            day=str(row["partition.day"]),
            first=_milliseconds(row.get("min.finished_at"), 0),
            last=_milliseconds(row.get("max.finished_at"), limits.FOREVER_MS),
        )
        for row in pyarrow.table(table.get_add_actions(flatten=True)).to_pylist()
    ]


def _milliseconds(instant: Any, missing: int) -> int:
    return missing if instant is None else round(instant.timestamp() * 1000)
