"""What `doctor` looks at in an SQLite file: read only, in one snapshot, with plain queries."""

from __future__ import annotations

import contextlib
import os
import shutil
import sqlite3
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

from turnabout.cli import _places, _show, doctor_promises
from turnabout.cli._check import (
    LEASE_OVERDUE_MS,
    Check,
    Counts,
    fail,
    guarded,
    of_counts,
    of_strays,
    ok,
    warn,
)

NETWORK = ("nfs", "cifs", "smb", "sshfs", "9p", "ceph", "gluster", "afs", "lustre", "webdav")
WAL_BYTES_LARGE = 256 * 1024 * 1024
FREE_BYTES_LOW = 512 * 1024 * 1024
FREE_BYTES_NONE = 16 * 1024 * 1024  # as little as `/readyz` calls not ready
QUICK_CHECK_BYTES_MAX = 256 * 1024 * 1024

COUNTS = """
select
  q.name, q.paused, q.sent, q.done + q.dead + q.cancelled,
  (select count(*) from turnabout_message m where m.queue_id = q.id),
  (select count(*) from turnabout_message m
   where m.queue_id = q.id and m.status = 2 and m.at < :overdue),
  (select min(m.sent_at) from turnabout_message m where m.queue_id = q.id and m.status = 0)
from turnabout_queue q order by q.name
"""

NO_QUEUE = """
select count(*) from turnabout_message where queue_id not in (select id from turnabout_queue)
"""

NO_CHANNEL = """
select count(*) from turnabout_message m where m.limited = 1 and not exists (
  select 1 from turnabout_channel c where c.queue_id = m.queue_id and c.name = m.channel)
"""

# A channel's own counts against its messages, those from before it had limits among them.
DRIFT = """
select count(*) from turnabout_channel c where c.size <> (
  select count(*) from turnabout_message m
  where m.queue_id = c.queue_id and m.channel = c.name
) or c.leased <> (
  select count(*) from turnabout_message m
  where m.queue_id = c.queue_id and m.channel = c.name and m.limited = 1 and m.status = 2
)
"""

# Asleep until something happens, with work, and nothing under way that could wake it.
ASLEEP = """
select count(*) from turnabout_channel c join turnabout_queue q on q.id = c.queue_id
where c.wake_at is null and not c.paused and not q.paused and c.leased = 0 and exists (
  select 1 from turnabout_message m
  where m.queue_id = c.queue_id and m.channel = c.name and m.limited = 1 and m.status = 0)
"""


def checks(url: str) -> Iterator[Check]:
    """All findings about the file that the URL names."""
    yield _version()
    path = _places.sqlite_path(url)
    if path is None:
        yield ok("database", "in memory: empty at each start, and gone at the end")
        return
    if not is_there(path):
        yield fail(
            "database",
            f"there is no file {path.absolute()}, or it may not be looked at",
            "name one with --url or TURNABOUT_URL, or make it: turnabout migrate up",
        )
        return
    yield from _of_file(path)
    yield from guarded("database", lambda: _of_database(path, url), sqlite3.Error)


def is_there(path: Path) -> bool:
    """Whether there is such a file; not, as far as we know, in a folder that is closed to us."""
    try:
        return path.exists()
    except OSError:
        return False


def _version() -> Check:
    """SQLite before 3.51.3 can damage a WAL file when two processes write and checkpoint."""
    version = sqlite3.sqlite_version
    if sqlite3.sqlite_version_info >= (3, 51, 3):
        return ok("SQLite", version)
    return warn(
        "SQLite",
        f"{version} has the WAL-reset bug (fixed in 3.51.3): rarely, two processes that write at "
        "the same moment damage the file",
        "Turnabout works around it, other programs on the same file do not: let only Turnabout "
        "write to it, or use a Python with a newer SQLite",
    )


def _of_file(path: Path) -> Iterator[Check]:
    """The file, its disk and its log."""
    if not os.access(path, os.R_OK):
        yield fail("file", f"{path.absolute()} cannot be read", "mend its owner or mode")
        return
    size = _size(path)
    text = f"{path.absolute()}, {_show.count(round(size / 1e6, 1))} MB"
    if os.access(path, os.W_OK) and os.access(path.absolute().parent, os.W_OK):
        yield ok("file", text)
    else:
        yield fail(
            "file",
            f"{text}, cannot be written here",
            "mend the mode of the file and of its folder: SQLite keeps its log beside it",
        )
    kind = file_system(path)
    if kind is not None and any(name in kind for name in NETWORK):
        yield fail(
            "file system",
            f"{kind}: a network file system, whose locks SQLite cannot rely on",
            "move the file to a local disk, or use PostgreSQL",
        )
    elif kind is not None:
        yield ok("file system", kind)
    free = shutil.disk_usage(path.absolute().parent).free
    if free < FREE_BYTES_LOW:
        say = fail if free < FREE_BYTES_NONE else warn
        yield say(
            "disk",
            f"{free // 10**6:,} MB are free",
            "free some space: on a full disk nothing can be written, not even an ack",
        )
    wal = _size(path.with_name(f"{path.name}-wal"))
    if wal > WAL_BYTES_LARGE:
        yield warn(
            "log",
            f"the write-ahead log has {wal // 10**6:,} MB: a reader has held it for long",
            "find the process with a long read transaction on the file, and end it",
        )


def _of_database(path: Path, url: str) -> Iterator[Check]:
    """What is inside, as one snapshot."""
    with contextlib.closing(_opened(path)) as db:
        mode = _one(db, "pragma journal_mode")
        if mode == "wal":
            yield _durability(url)
        else:
            yield warn(
                "journal mode",
                f"{mode}: readers and writers wait for each other",
                "open the file once with turnabout (any command): it sets WAL",
            )
        if _size(path) <= QUICK_CHECK_BYTES_MAX:
            found = _one(db, "pragma quick_check(1)")
            if found == "ok":
                yield ok("file contents", "quick_check finds nothing wrong")
            else:
                yield fail(
                    "file contents",
                    f"the file is damaged: {found}",
                    "stop all writers, keep a copy, then: sqlite3 FILE .recover",
                )
                return
        db.execute("begin")
        if _one(db, "select count(*) from sqlite_schema where name = 'turnabout_message'"):
            yield from _of_queues(db)


def _durability(url: str) -> Check:
    """Each of our connections sets `synchronous` anew, as the URL says: full unless it does."""
    synchronous = parse_qs(urlsplit(url).query).get("synchronous", ["full"])[0]
    text = f"journal mode wal, synchronous {synchronous}"
    if synchronous == "full":
        return ok("durability", text)
    return warn(
        "durability",
        f"{text}: a power cut loses the last messages that were accepted",
        "leave synchronous out of the URL, unless that is what you want",
    )


def _of_queues(db: sqlite3.Connection) -> Iterator[Check]:
    now = round(time.time() * 1000)
    rows = db.execute(COUNTS, {"overdue": now - LEASE_OVERDUE_MS}).fetchall()
    yield from of_counts(
        Counts(name, bool(paused), sent, finished, live, overdue, oldest and now - oldest)
        for name, paused, sent, finished, live, overdue, oldest in rows
    )
    yield of_strays(
        "way out",
        _one(db, NO_QUEUE) + _one(db, NO_CHANNEL) + _one(db, ASLEEP),
        "no message is where nobody looks",
        "messages or channels are where no receive looks",
    )
    yield of_strays(
        "channels",
        _one(db, DRIFT),
        "their counts agree with their messages",
        "channels count wrong",
    )
    yield from doctor_promises.answers(
        lambda statement: db.execute(statement, {"now": now}).fetchone()[0],
        doctor_promises.SQLITE,
    )


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
    uri = f"{path.absolute().as_uri()}?mode=ro"
    return sqlite3.connect(uri, uri=True, timeout=5, isolation_level=None)


def _one(db: sqlite3.Connection, statement: str) -> Any:
    """The first column of the first row."""
    return db.execute(statement).fetchone()[0]


def _size(path: Path) -> int:
    with contextlib.suppress(OSError):
        return path.stat().st_size
    return 0
