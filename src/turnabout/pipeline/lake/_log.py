"""An archive while one process works on it: staged files get names, and a commit names them."""

from __future__ import annotations

import re
import secrets
import time
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from itertools import takewhile
from pathlib import Path

from turnabout.pipeline.lake import _disk
from turnabout.pipeline.lake._commits import WHOLE_EVERY, Commit, File, Kind, Lost, encode
from turnabout.pipeline.lake._footer import measured
from turnabout.pipeline.lake._lake import Lake
from turnabout.words import limits
from turnabout.words.errors import Busy, Unavailable
from turnabout.words.value import replace

_PREFIX: dict[Kind, str] = {"archive": "part", "compact": "merged"}
_NAME = re.compile(r"(part|merged)-(.+)-([0-9]+)-([0-9a-f]{8})-([0-9]+)\.parquet")
_UNLOCKED_AGE_SECONDS = 86_400


class Overtaken(Busy):
    """Another archiver made the commit that this one was about to make: it has the rows."""

    code = "overtaken"


@contextmanager
def hold(lake: Lake, archive: str, kind: Kind) -> Generator[CommitLog]:
    """Work on an archive, alone; what killed runs left is removed first.

    Raises: Taken: another process does; Forbidden, StorageFull.
    """
    limits.plain_name(archive)
    folder = lake.log_folder(archive)
    with _disk.told(lake.folder):
        _disk.make_folder(folder)
        what = f"the archive {archive}" if kind == "archive" else f"a {kind}ion of {archive}"
        with _disk.lock(folder / f".{kind}.lock", what) as locked:
            log = CommitLog(lake, archive, kind)
            log.clean(sure=locked)
            try:
                yield log
            finally:
                _disk.remove_folder(log.staging)


class CommitLog:
    """An archive of a lake while one process works on it; made by `hold`.

    staging  a folder that nobody reads, removed at the end: for the rows of the next commit
    """

    def __init__(self, lake: Lake, archive: str, kind: Kind) -> None:
        self.lake, self.archive = lake, archive
        self.kind: Kind = kind
        self._run = secrets.token_hex(4)
        self.staging = lake.folder / "_staging" / f"{archive}.{kind}.{self._run}"
        self.head = lake.head(archive)
        """The last commit as this process knows it."""

    def last(self, kind: Kind) -> Commit | None:
        """The last commit of a kind."""
        head = self.head
        if head is None:
            return None
        found = self.lake.back(self.archive, head.version)
        return next((one for one in found if one.kind == kind), None)

    def clean(self, *, sure: bool) -> None:
        """Remove what no commit names: of runs before this one, as those are over (`sure`), or,
        where that cannot be known, as it is a day old.
        """
        youngest = time.time() - (0 if sure else _UNLOCKED_AGE_SECONDS)
        last = self.last(self.kind)
        done = 0 if last is None else last.version
        suspects: dict[str, Path] = {}
        for path in self.lake.folder.glob(f"data/day=*/{_PREFIX[self.kind]}-*"):
            name = _NAME.fullmatch(path.name)
            if name is not None and name[2] == self.archive and int(name[3]) > done:
                suspects[path.relative_to(self.lake.folder).as_posix()] = path
        named = self._named_ever() if suspects else set[str]()
        for name in suspects.keys() - named:
            if sure or suspects[name].stat().st_mtime < youngest:
                _disk.remove(suspects[name])
        for path in self.lake.folder.glob(f"_staging/{self.archive}.{self.kind}.????????"):
            if sure or path.stat().st_mtime < youngest:
                _disk.remove_folder(path)

    def _named_ever(self) -> set[str]:
        """The files that count, and those that a compaction replaced and readers may still use."""
        if self.head is None:
            return set()
        counts = {file.path for file in self.lake.listed(self.archive, self.head.version)}
        return counts.union(*(commit.removed for commit in self.lake.back(self.archive)))

    def append(
        self,
        staged: Path,
        *,
        rows: int,
        position: str | None = None,
        after: str | None = None,
        taken: Sequence[File] = (),
        namespace: str | None = None,
        lost: Lost | None = None,
    ) -> Commit:
        """Commit the Parquet files below `staged/day=…/`, and that they replace those `taken`.

        rows: how many there have to be. Raises: Unavailable: there are others, and nothing has
        happened; Overtaken: another process has committed what this was about.
        """
        version = 1 if self.head is None else self.head.version + 1
        with _disk.told(self.lake.folder):
            added = self._named(staged, version)
            found = sum(file.rows for file in added)
            if found != rows:
                self._drop(added)
                raise Unavailable(
                    f"{found:,} rows were written where {rows:,} were to be: nothing was "
                    "committed; run it again"
                )
            draft = Commit(
                archive=self.archive,
                version=version,
                kind=self.kind,
                at=round(time.time() * 1000),
                position=position or "",
                rows=rows,
                total=rows,
                added=added,
                after=after,
                removed=tuple(file.path for file in taken),
                namespace=namespace,
                lost=lost,
            )
            try:
                self.head = self._commit(draft)
            except Overtaken:
                self._drop(added)
                raise
        return self.head

    def _named(self, staged: Path, version: int) -> tuple[File, ...]:
        """Staged files under the names that they keep, synced; what their footers tell."""
        added: list[File] = []
        folders: set[Path] = set()
        for number, source in enumerate(sorted(staged.glob("day=*/*.parquet"))):
            folder = self.lake.folder / "data" / source.parent.name
            name = f"{self.archive}-{version}-{self._run}-{number}.parquet"
            target = folder / f"{_PREFIX[self.kind]}-{name}"
            if folder not in folders:
                _disk.make_folder(self.lake.folder / "data")
                _disk.make_folder(folder)
                folders.add(folder)
            _disk.sync(source)
            _disk.move(source, target)
            added.append(measured(target, self.lake.folder))
        for folder in sorted(folders):
            _disk.sync(folder)
        return tuple(added)

    def _drop(self, files: Sequence[File]) -> None:
        for file in files:
            _disk.remove(self.lake.folder / file.path)

    def _commit(self, draft: Commit) -> Commit:
        """Make it the next one, after those that others have made meanwhile."""
        aside = self.staging / "commit.json"
        while True:
            commit = self._next(draft)
            _disk.make_folder(self.staging.parent)
            _disk.make_folder(self.staging)
            _disk.remove(aside)
            _disk.write_aside(aside, encode(commit))
            path = self.lake.commit_path(self.archive, commit.version)
            try:
                _disk.link(aside, path)
            except FileExistsError:
                continue
            _disk.sync(path.parent)
            return commit

    def _next(self, draft: Commit) -> Commit:
        """The draft as it follows the head that there is now. Raises: Overtaken."""
        lake, archive = self.lake, self.archive
        head = lake.head(archive)
        known = 0 if self.head is None else self.head.version
        since = takewhile(lambda commit: commit.version > known, lake.back(archive))
        listed = {} if head is None else {f.path: f for f in lake.listed(archive, head.version)}
        if draft.kind == "archive":
            if any(commit.kind == "archive" for commit in since):
                raise Overtaken(
                    f"another archiver has committed to {archive} in {lake.folder} meanwhile: this "
                    "one's batch is undone, and nothing is lost or doubled. Run one at a time"
                )
        elif not all(path in listed for path in draft.removed):
            raise Overtaken(
                f"another compaction of {archive} in {lake.folder} has merged these files: "
                "nothing is left to do"
            )
        version = 1 if head is None else head.version + 1
        total = 0 if head is None else head.total
        for path in draft.removed:
            del listed[path]
        listed |= {file.path: file for file in draft.added}
        whole = draft.kind == "compact" or version % WHOLE_EVERY == 0
        archiving = draft.kind == "archive"
        assert archiving or head is not None
        return replace(
            draft,
            version=version,
            position=draft.position if archiving or head is None else head.position,
            total=total + (draft.rows if archiving else 0),
            namespace=draft.namespace if archiving or head is None else head.namespace,
            files=tuple(listed.values()) if whole else None,
        )
