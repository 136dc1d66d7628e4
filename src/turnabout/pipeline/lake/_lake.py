"""The lake's folder: what is in it by its commits, and who works in it.

data/day=2026-11-21/part-<archive>-<version>-<run>-<n>.parquet    merged-… by a compaction
_log/<archive>/00000000000000000042.json                          a commit
_staging/<archive>.<kind>.<run>/                                  on its way
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from urllib.parse import unquote, urlsplit

from turnabout.pipeline.lake import _disk
from turnabout.pipeline.lake._commits import Commit, File, decode
from turnabout.pipeline.lake._disk import LakeDamaged
from turnabout.words import limits
from turnabout.words.errors import UsageError
from turnabout.words.extras import refuse_windows

_COMMIT = re.compile(r"([0-9]{20})\.json")
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+:/")
_OURS = {"_log", "_staging", "_replay", "data"}


class Lake:
    """A folder with archives. Everything is asked of the disk anew, so it never goes stale.

    Raises: UsageError: it is not a lake, or an object store; with `create`, a folder that holds
            other things. WrongVersion, LakeDamaged: from every method that reads commits.
    """

    def __init__(self, path: str | os.PathLike[str], *, create: bool = False) -> None:
        refuse_windows("a lake")
        self.folder = folder_of(path)
        self._log = self.folder / "_log"
        with _disk.told(self.folder):
            is_there = self._log.is_dir()
        if not is_there:
            if not create:
                raise UsageError(
                    f"there is no lake at {self.folder}: name the folder that "
                    "`turnabout pipeline run archive` writes"
                )
            self._make()

    def _make(self) -> None:
        with _disk.told(self.folder):
            try:
                others = {entry.name for entry in os.scandir(self.folder)} - _OURS
            except FileNotFoundError:
                others = set[str]()
            if others:
                raise UsageError(
                    f"{self.folder} is not a lake, as it holds other things ({min(others)}): name "
                    "an empty folder, or a new one"
                )
            _disk.make_folder(self.folder)
            _disk.make_folder(self._log)

    # --- what is in it ---

    def archives(self) -> tuple[str, ...]:
        """The archives that have a commit, by name."""
        names = sorted(entry.name for entry in os.scandir(self._log) if entry.is_dir())
        return tuple(name for name in names if self._versions(name))

    def head(self, archive: str) -> Commit | None:
        """The last commit of an archive."""
        versions = self._versions(archive)
        return self.commit(archive, versions[-1]) if versions else None

    def commit(self, archive: str, version: int) -> Commit:
        """One commit."""
        path = self.commit_path(archive, version)
        try:
            data = path.read_bytes()
        except FileNotFoundError as error:
            raise LakeDamaged(
                f"{path} is gone: restore it from a copy of the lake, or read a newer version"
            ) from error
        return decode(data, str(path), Commit)

    def back(self, archive: str, version: int | None = None) -> Iterator[Commit]:
        """The commits that are still there, from a version (or the last one) to the oldest."""
        for one in reversed(self._versions(archive)):
            if version is None or one <= version:
                yield self.commit(archive, one)

    def files(self, archive: str | None = None, *, version: int | None = None) -> tuple[File, ...]:
        """The files that count: of an archive, at its newest commit or after `version`; or of all
        archives.
        """
        if archive is None:
            if version is not None:
                raise UsageError("a version is one archive's: name the archive, too")
            return tuple(file for name in self.archives() for file in self.files(name))
        versions = self._versions(archive)
        if not versions or (version is not None and version not in versions):
            which = archive if version is None else f"{archive} at version {version}"
            raise UsageError(
                f"the lake {self.folder} has no {which}: "
                + (f"{versions[0]} to {versions[-1]} are there" if versions else self._known())
            )
        return self.listed(archive, versions[-1] if version is None else version)

    def _known(self) -> str:
        return f"it has {', '.join(self.archives()) or 'no archives'}"

    def listed(self, archive: str, version: int) -> tuple[File, ...]:
        newer: list[Commit] = []
        found: dict[str, File] = {}
        while version > 0:
            commit = self.commit(archive, version)
            if commit.files is not None:
                found = {file.path: file for file in commit.files}
                break
            newer.append(commit)
            version -= 1
        for commit in reversed(newer):
            for path in commit.removed:
                found.pop(path, None)
            found |= {file.path: file for file in commit.added}
        return tuple(found.values())

    def paths(
        self,
        archive: str | None = None,
        *,
        since: int | None = None,
        until: int | None = None,
        version: int | None = None,
    ) -> list[str]:
        """Whole paths of the Parquet files, for whatever reads Parquet. With `since` and `until`
        (milliseconds) only those that can hold rows that finished from then, and before then.
        """
        found = self.files(archive, version=version)
        return [
            str(self.folder / file.path)
            for file in found
            if (since is None or file.last >= since) and (until is None or file.first < until)
        ]

    def check(self, archive: str | None = None, *, deep: bool = False) -> tuple[int, int]:
        """Check that the files are there with their sizes; with `deep`, that no bit has changed.

        Answers with how many files and bytes there are. Raises: LakeDamaged, naming files.
        """
        files = self.files(archive)
        self.check_files(files, deep=deep)
        return len(files), sum(file.bytes for file in files)

    def check_files(self, files: Iterable[File], *, deep: bool = False) -> None:
        """Like `check`, for some of them."""
        bad: list[str] = []
        for file in files:
            path = self.folder / file.path
            try:
                found = path.stat().st_size
            except FileNotFoundError:
                bad.append(f"{file.path} is gone")
                continue
            if found != file.bytes:
                bad.append(f"{file.path} has {found:,} bytes, not {file.bytes:,}")
            elif deep and _disk.sha256(path) != file.sha256:
                bad.append(f"{file.path} has changed")
        if bad:
            more = f", and {len(bad) - 5:,} more" if len(bad) > 5 else ""
            raise LakeDamaged(
                f"the lake {self.folder} is damaged: {'; '.join(bad[:5])}{more}. Restore what is "
                "missing from a copy; nothing is purged until then"
            )

    def leftovers(self) -> tuple[int, int]:
        """Folders of staged rows, of runs that go on or were killed, and their bytes."""
        try:
            found = [entry for entry in os.scandir(self.folder / "_staging") if entry.is_dir()]
        except FileNotFoundError:
            return 0, 0
        sizes = (
            path.stat().st_size
            for entry in found
            for path in Path(entry.path).rglob("*")
            if path.is_file()
        )
        return len(found), sum(sizes)

    def _versions(self, archive: str) -> list[int]:
        limits.plain_name(archive)  # it becomes a path
        try:
            names = [entry.name for entry in os.scandir(self._log / archive)]
        except (FileNotFoundError, NotADirectoryError):
            return []
        return sorted(int(found[1]) for name in names if (found := _COMMIT.fullmatch(name)))

    def log_folder(self, archive: str) -> Path:
        """The folder of an archive's commits."""
        return self._log / archive

    def commit_path(self, archive: str, version: int) -> Path:
        """The file of a commit."""
        return self.log_folder(archive) / f"{version:020d}.json"

    # --- working in it ---

    def tidy(self, archive: str, before: int) -> int:
        """Remove files that compactions before that instant (milliseconds) replaced, and commits
        that nobody needs to read the list. Answers with how many data files.
        """
        removed = 0
        whole = archived = False
        old: list[int] = []
        for commit in self.back(archive):
            if whole and archived:
                old.append(commit.version)
            archived = archived or commit.kind == "archive"
            if commit.at >= before:
                continue
            whole = whole or commit.files is not None
            for path in commit.removed:
                if (self.folder / path).exists():
                    _disk.remove(self.folder / path)
                    removed += 1
        for version in reversed(old):  # the oldest first: no gap, wherever it is killed
            _disk.remove(self.commit_path(archive, version))
        return removed


def folder_of(path: str | os.PathLike[str]) -> Path:
    """The folder that a path or a file:// URL names. Raises: UsageError for an object store."""
    text = os.fspath(path)
    if text.startswith("file:/"):
        text = unquote(urlsplit(text).path)
    elif _SCHEME.match(text):
        raise UsageError(
            f"a lake is a folder that all executors share, which {text.partition(':')[0]}: isn't: "
            "its commits need names that only one process can take. Archive to a folder, and copy "
            "it there (`data` first, then `_log`), or mount it"
        )
    if not text:
        raise UsageError("a lake needs a folder: name one")
    return Path(text).absolute()
