"""The steps that touch the disk: each that a kill can fall between is a function here.

A file counts when it is synced and has its name; a name counts when its folder is synced.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
import shutil
import socket
import sys
from collections.abc import Generator
from pathlib import Path

from turnabout.words.errors import Busy, Forbidden, StorageFull, TurnaboutError, UsageError

if sys.platform != "win32":
    import fcntl

_CHUNK = 1 << 20
_READ_ONLY = (errno.EACCES, errno.EPERM, errno.EROFS)
_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
_NO_LINKS = (errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK)


class LakeDamaged(TurnaboutError):
    """A file that the manifest names is gone, cut off or changed, or a commit cannot be read."""

    code = "lake_damaged"


class Taken(Busy):
    """Another process works on this archive now."""

    code = "taken"


@contextlib.contextmanager
def told(path: Path, what: str = "lake") -> Generator[None]:
    """The operating system's errors about a folder in our words."""
    try:
        yield
    except OSError as error:
        if error.errno in _READ_ONLY:
            raise Forbidden(
                f"the {what} {path} cannot be written ({error.strerror}): let this user write "
                "there, or name another folder"
            ) from error
        if error.errno in _FULL:
            raise StorageFull(
                f"the disk of the {what} {path} is full: make room and run it again"
            ) from error
        if error.errno in _NO_LINKS:
            raise UsageError(
                f"the file system of {path} makes no hard links, by which commits are made "
                "exclusive: put the lake on ext4, xfs, btrfs, apfs, NFS or the like"
            ) from error
        raise


def write_aside(path: Path, data: bytes) -> None:
    """A synced file that nobody looks for yet."""
    with path.open("xb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())


def link(source: Path, target: Path) -> None:
    """Give a file its name, unless somebody has it. Raises: FileExistsError."""
    os.link(source, target)


def move(source: Path, target: Path) -> None:
    """Give a file another name."""
    source.rename(target)


def sync(path: Path) -> None:
    """Bring a file, or the names in a folder, to the disk."""
    number = os.open(path, os.O_RDONLY)
    try:
        os.fsync(number)
    finally:
        os.close(number)


def make_folder(path: Path) -> None:
    """A folder, and its name on the disk."""
    if not path.is_dir():
        path.mkdir(parents=True, exist_ok=True)
        sync(path.parent)


def remove(path: Path) -> None:
    """A file that may be gone."""
    path.unlink(missing_ok=True)


def remove_folder(path: Path) -> None:
    """A folder with what is in it; another may be removing it as well."""
    shutil.rmtree(path, ignore_errors=True)


def sha256(path: Path) -> str:
    """The digest of a whole file."""
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while chunk := file.read(_CHUNK):
            digest.update(chunk)
    return digest.hexdigest()


@contextlib.contextmanager
def lock(path: Path, what: str) -> Generator[bool]:
    """Alone, until the process ends. False: the file system has no locks. Raises: Taken."""
    number = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
    try:
        try:
            fcntl.flock(number, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            holder = os.read(number, 200).decode(errors="replace").strip()
            raise Taken(
                f"{holder or 'another process'} is at work on {what}: one at a time"
            ) from error
        except OSError:
            yield False
            return
        os.ftruncate(number, 0)
        os.pwrite(number, f"process {os.getpid()} on {socket.gethostname()}\n".encode(), 0)
        yield True
    finally:
        os.close(number)
