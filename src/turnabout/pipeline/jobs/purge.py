"""`purge`: remove from the database what every archive has, once its files are seen to be there.

Needs no Spark: the lake's manifest says what there should be, the database removes it in steps.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import closing
from typing import TYPE_CHECKING

from turnabout.pipeline.lake import Lake, LakeDamaged
from turnabout.pipeline.results import PurgeReport
from turnabout.pipeline.spark.access import Access
from turnabout.pipeline.verbs import LogCut, LogPurge, Watermark, WatermarkList
from turnabout.words.errors import TurnaboutError

if TYPE_CHECKING:
    from os import PathLike

STEP_ROWS = 10_000


class NotArchived(TurnaboutError):
    """Something that a purge needs is not there: nothing was removed."""

    code = "not_archived"


def purge(
    url: str,
    *lakes: str | PathLike[str],
    keep_seconds: float = 86_400.0,
    deep: bool = False,
    dry_run: bool = False,
    progress: Callable[[int], object] | None = None,
    now: float | None = None,
) -> PurgeReport:
    """Remove the rows of the log that all archives have, and that finished `keep_seconds` ago.

    lakes     where the archives are: each that has a watermark has to be in one of them
    deep      read the files whole and compare their digests, instead of their sizes
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
        found = [Lake(lake) for lake in lakes]
        files = size = 0
        for mark in marks:
            lake = _lake_of(found, mark)
            counted = lake.check(mark.archive, deep=deep)
            files, size = files + counted[0], size + counted[1]
        least = _least(access, marks)
        if dry_run:
            verb = LogPurge(least.position, before, dry_run=True)
            rows = access.run(verb)
        else:
            rows = _remove(access, LogPurge(least.position, before, STEP_ROWS), progress)
        return PurgeReport(rows, least.archive, least.position, before, files, size, dry_run)


def _lake_of(lakes: Sequence[Lake], mark: Watermark) -> Lake:
    """The lake that has what the watermark says. Raises: NotArchived."""
    name = mark.archive
    for lake in lakes:
        if name not in lake.archives():
            continue
        for commit in lake.back(name):
            if commit.position == mark.position and commit.namespace is None:
                if commit.total != mark.messages:
                    raise LakeDamaged(
                        f"the archive {name} in {lake.folder} has {commit.total:,} rows at its "
                        f"watermark, and this database counted {mark.messages:,}: nothing is purged"
                    )
                return lake
        raise NotArchived(
            f"the archive {name} in {lake.folder} has never been at the watermark that this "
            "database has of it: it is another lake, or an older copy. Name the right one, or run "
            "the archive again"
        )
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
