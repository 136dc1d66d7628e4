"""`purge`: remove from the database what every archive has, once its files are seen to be there.

The archive's table says what there should be, and the database removes it in steps.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from typing import TYPE_CHECKING

from turnabout.pipeline.lake import ArchiveTable, Lake, LakeDamaged
from turnabout.pipeline.results import PurgeReport
from turnabout.pipeline.spark.access import Access
from turnabout.pipeline.verbs import LogCut, LogPurge, Watermark, WatermarkList
from turnabout.words.errors import TurnaboutError

if TYPE_CHECKING:
    from os import PathLike

STEP_ROWS = 10_000


class NotArchived(TurnaboutError):
    """A requirement of a purge is missing: nothing was removed."""

    code = "not_archived"


def purge(
    url: str,
    *lakes: str | PathLike[str],
    keep_seconds: float = 86_400.0,
    deep: bool = True,
    dry_run: bool = False,
    storage_options: Mapping[str, str] | None = None,
    progress: Callable[[int], object] | None = None,
    now: float | None = None,
) -> PurgeReport:
    """Remove the rows of the log that all archives have, and that finished `keep_seconds` ago.

    lakes     where the archives are: each that has a watermark has to be in one of them
    deep      read the files whole and compare their digests; False: compare their sizes
    storage_options  of object stores: what delta-rs takes, beside the environment
    progress  called with the rows removed so far
    Raises: NotArchived: there is no archive, or one is in none of the lakes; LakeDamaged: a file is
            not there as it was; Forbidden, Disconnected. Nothing was removed, but by steps that
            went before a Disconnected.
    """
    before = round(((time.time() if now is None else now) - keep_seconds) * 1000)
    with closing(Access(url)) as access:
        marks = access.run(WatermarkList())
        if not marks:
            raise NotArchived(
                "there is no archive of this database: `turnabout pipeline run archive` makes one, "
                "and only what it has is purged"
            )
        found = [Lake(lake, storage_options=storage_options) for lake in lakes]
        files = size = 0
        for mark in marks:
            lake = _lake_of(found, mark)
            counted = lake.check(mark.archive, deep=deep)
            files, size = files + counted[0], size + counted[1]
        least = _least(access, marks)
        if dry_run:
            rows = access.run(LogPurge(least.position, before, dry_run=True))
        else:
            rows = _remove(access, LogPurge(least.position, before, STEP_ROWS), progress)
        return PurgeReport(rows, least.archive, least.position, before, files, size, dry_run)


def _lake_of(lakes: Sequence[Lake], mark: Watermark) -> Lake:
    """Find the lake that has the watermark's rows. Raises: NotArchived, LakeDamaged."""
    name = mark.archive
    for lake in lakes:
        total = ArchiveTable(lake.place(name), name).total
        if total is None:
            continue
        rows = sum(file.rows for file in lake.files(name))
        if total < mark.messages or rows != total:
            raise LakeDamaged(
                f"the archive {name} in {lake} lists {rows:,} rows of {total:,}, and this database "
                f"has seen {mark.messages:,} archived: it is an older copy, or was changed by "
                "hand. Nothing is purged"
            )
        return lake
    raise NotArchived(
        f"the archive {name} is in none of these lakes: name its lake, too (--lake, again), or end "
        f"it: turnabout pipeline forget {name}"
    )


def _least(access: Access, marks: Sequence[Watermark]) -> Watermark:
    """The one behind which no other lacks a row. Raises: NotArchived if each lacks some."""
    for mark in marks:
        others = [other for other in marks if other.position != mark.position]
        if not any(_between(access, other, mark) for other in others):
            return mark
    names = " and ".join(mark.archive for mark in marks)
    raise NotArchived(
        f"the archives {names} each lack rows that another has: run them all, then purge"
    )


def _between(access: Access, behind: Watermark, ahead: Watermark) -> int:
    """Rows up to `ahead` that `behind` has not."""
    ranges = access.run(LogCut(behind.position, ahead.position, 1))
    return sum(part.messages for part in ranges)


def _remove(access: Access, verb: LogPurge, progress: Callable[[int], object] | None) -> int:
    rows = 0
    while removed := access.run(verb):
        rows += removed
        if progress is not None:
            progress(rows)
    return rows
