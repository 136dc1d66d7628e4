"""The `doctor` of an SQLite file: read only, in one snapshot, with plain queries."""

from __future__ import annotations

import contextlib
import os
import shutil
import sqlite3
import sys
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from turnabout.slices import Slice
from turnabout.sqlite._clock import STEP_MS, FileClock
from turnabout.sqlite._connection import SQLITE_SAFE, address, may_only_read
from turnabout.sqlite._statements import statements
from turnabout.sqlite._url import Place, place
from turnabout.statements import statements_in
from turnabout.words.findings import (
    LEASE_OVERDUE_MS,
    Finding,
    Question,
    QueueCounts,
    fail,
    failed,
    judged,
    of_counts,
    ok,
    promises,
    warn,
    way_out,
)

SQL, CLOCK = statements("doctor"), statements("clock")
NETWORK: Final = (
    *("nfs", "cifs", "smb", "sshfs", "9p", "ceph", "gluster", "afs", "lustre", "webdav"),
)
WAL_BYTES_LARGE: Final = 256 * 1024 * 1024
FREE_BYTES_LOW: Final = 512 * 1024 * 1024
FREE_BYTES_NONE: Final = 16 * 1024 * 1024  # as little as `/readyz` calls not ready
QUICK_CHECK_BYTES_MAX: Final = 256 * 1024 * 1024


def findings(url: str) -> Iterator[Finding]:
    """Collect all findings about the file of the URL."""
    yield version()
    at = place(url)
    if at.path is None:
        yield ok("database", "in memory: empty at each start, and gone at the end")
        return
    if not is_there(at.path):
        yield fail(
            "database",
            "there is no file {path}, or it cannot be read",
            "name one with --url or TURNABOUT_URL, or make it: turnabout migrate up",
            path=str(at.path),
        )
        return
    yield from _of_file(at.path)
    try:
        # As a list: what a failing check leaves half done is not shown.
        yield from list(_of_database(at.path, at))
    except sqlite3.Error as error:
        yield failed("database", error)


def counts_of(url: str, slice_: Slice, questions: Mapping[str, Question]) -> Iterator[Finding]:
    """The counts of a slice's questions, which are in `doctor.sql` of its part."""
    folder = slice_.folder("sqlite")
    if folder is None:
        return
    statements = statements_in(folder / "doctor.sql")
    path = place(url).path
    assert path is not None, "a store in memory has nothing to look at"
    try:
        with contextlib.closing(_opened(path)) as db:
            now = _now(db)
            yield from promises(
                lambda name: _one(db, statements[name], now=now), statements, questions
            )
    except sqlite3.Error as error:
        yield failed("database", error)


def is_there(path: Path) -> bool:
    """Whether there is such a file; not, as far as we know, in a folder that is closed to us."""
    try:
        return path.exists()
    except OSError:
        return False


def version() -> Finding:
    """SQLite before 3.51.3 can damage a WAL file when two processes write and checkpoint."""
    is_safe = sqlite3.sqlite_version_info >= SQLITE_SAFE
    return judged(
        "SQLite",
        "warn",
        "{version}",
        "{version} has the WAL-reset bug (fixed in 3.51.3): rarely, two processes that write at"
        " the same moment damage the file",
        "Turnabout works around it; your own connections to the file must start with"
        " `pragma wal_autocheckpoint = 0`, or use a newer SQLite",
        holds=is_safe,
        version=sqlite3.sqlite_version,
    )


def _of_file(path: Path) -> Iterator[Finding]:
    """The file, its disk and its log."""
    if not os.access(path, os.R_OK):
        yield fail("file", "{path} cannot be read", "fix its owner or mode", path=str(path))
        return
    is_writable = os.access(path, os.W_OK) and os.access(path.parent, os.W_OK)
    yield judged(
        "file",
        "fail",
        "{path}, {megabytes} MB",
        "{path}, {megabytes} MB, cannot be written here",
        "fix the mode of the file and of its folder: SQLite keeps its log beside it",
        holds=is_writable,
        path=str(path),
        megabytes=round(_size(path) / 1e6, 1),
    )
    kind = file_system(path)
    if kind is not None:
        yield judged(
            "file system",
            "fail",
            "{kind}",
            "{kind}: a network file system, whose locks SQLite cannot rely on",
            "move the file to a local disk, or use PostgreSQL",
            holds=not any(name in kind for name in NETWORK),
            kind=kind,
        )
    free = shutil.disk_usage(path.parent).free
    if free < FREE_BYTES_LOW:
        yield (fail if free < FREE_BYTES_NONE else warn)(
            "disk",
            "{megabytes:,} MB are free",
            "free some space: on a full disk sends are refused",
            megabytes=free // 10**6,
        )
    wal = _size(path.with_name(f"{path.name}-wal"))
    if wal > WAL_BYTES_LARGE:
        yield warn(
            "log",
            "the write-ahead log has {megabytes:,} MB: a reader has held it for a long time",
            "find the process with a long read transaction on the file, and end it",
            megabytes=wal // 10**6,
        )


def _of_database(path: Path, at: Place) -> Iterator[Finding]:
    """The findings inside, as one snapshot."""
    with contextlib.closing(_opened(path)) as db:
        mode = _one(db, "pragma journal_mode")
        if mode == "wal":
            # Each of our connections sets `synchronous` anew, as the URL says.
            yield judged(
                "durability",
                "warn",
                "journal mode wal, synchronous {synchronous}",
                "journal mode wal, synchronous {synchronous}: a power cut loses the last messages"
                " that were accepted",
                "leave synchronous out of the URL, unless that is what you want",
                holds=at.synchronous == "full",
                synchronous=at.synchronous,
            )
        else:
            yield warn(
                "journal mode",
                "{mode}: readers and writers wait for each other",
                "open the file once with turnabout (any command): it sets WAL",
                mode=mode,
            )
        if _size(path) <= QUICK_CHECK_BYTES_MAX:
            found = _one(db, "pragma quick_check(1)")
            yield judged(
                "file contents",
                "fail",
                "quick_check finds nothing wrong",
                "the file is damaged: {found}",
                "stop all writers, keep a copy, then: sqlite3 FILE .recover",
                holds=found == "ok",
                found=found,
            )
            if found != "ok":
                return
        db.execute("begin")
        if _one(db, "select count(*) from sqlite_schema where name = 'turnabout_message'"):
            yield from of_clock(db, round(time.time() * 1000))
            yield from of_queues(db, _now(db))


def of_clock(db: sqlite3.Connection, host: int) -> Iterator[Finding]:
    """Whether the host's clock was set back."""
    behind = max(0, _one(db, CLOCK["latest"]) - host)
    yield judged(
        "clock",
        "warn",
        "the host's is not behind the file's time",
        "the host's was set back: it is {behind_ms:ms} behind the latest time that the file has"
        " seen, which goes on at half speed meanwhile",
        "set it right, if it is wrong; otherwise it catches up by itself",
        holds=behind <= STEP_MS,
        behind_ms=behind,
    )


def _now(db: sqlite3.Connection) -> int:
    """The file's time."""
    return FileClock(None).read(db)[0]


def of_queues(db: sqlite3.Connection, now: int) -> Iterator[Finding]:
    """The findings in the tables."""

    def count(name: str) -> int:
        return _one(db, SQL[name], now=now)

    rows = db.execute(SQL["queues"], {"overdue": now - LEASE_OVERDUE_MS}).fetchall()
    yield from of_counts(
        QueueCounts(name, bool(paused), sent, finished, live, overdue, oldest and now - oldest)
        for name, paused, sent, finished, live, overdue, oldest in rows
    )
    yield way_out(count("no queue") + count("no channel") + count("asleep"))
    yield from promises(count, SQL)


def file_system(path: Path) -> str | None:
    """The kind of file system that a file is on, where Linux tells."""
    if not sys.platform.startswith("linux"):
        return None
    best, kind = "", None
    with contextlib.suppress(OSError):
        real = str(path.resolve())
        for line in Path("/proc/self/mounts").read_text(errors="replace").splitlines():
            _, point, name, *_ = line.split(" ")
            point = point.replace("\\040", " ")
            inside = real == point or real.startswith(point.rstrip("/") + "/")
            if inside and len(point) >= len(best):
                best, kind = point, name
    return kind


def _opened(path: Path) -> sqlite3.Connection:
    where = address(path) if may_only_read(path) else f"{path.as_uri()}?mode=ro"
    return sqlite3.connect(where, uri=True, timeout=5, isolation_level=None)


def _one(db: sqlite3.Connection, statement: str, **facts: Any) -> Any:
    """The first column of the first row."""
    return db.execute(statement, facts).fetchone()[0]


def _size(path: Path) -> int:
    with contextlib.suppress(OSError):
        return path.stat().st_size
    return 0
