"""Storage of tables: a folder that everybody shares, or an object store that delta-rs knows."""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Generator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from turnabout.words.errors import Forbidden, StorageFull, TurnaboutError, Unavailable, UsageError
from turnabout.words.extras import refuse_windows
from turnabout.words.value import Value

_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+://")
_READ_ONLY = (errno.EACCES, errno.EPERM, errno.EROFS)
_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
_DENIED = re.compile(r"\b(401|403)\b|AccessDenied|InvalidAccessKeyId|SignatureDoesNotMatch")


class Storage(Value):
    """A place for tables, and how to open it. Picklable: executors get it, too.

    uri      an absolute path, or a URL such as s3://bucket/folder
    options  what delta-rs takes (AWS_ENDPOINT_URL, …), beside the environment. They hold secrets
    """

    uri: str
    options: Mapping[str, str] | None = None

    def __repr__(self) -> str:
        return f"Storage({self.uri!r})"

    @classmethod
    def of(cls, path: str | os.PathLike[str], options: Mapping[str, str] | None = None) -> Storage:
        """Read a path or a URL. Raises: UsageError."""
        text = os.fspath(path)
        if text.startswith("file:/"):
            text = unquote(urlsplit(text).path)
        if not text:
            raise UsageError("a lake needs a folder or a URL such as s3://bucket/lake: name one")
        if _SCHEME.match(text):
            return cls(text.rstrip("/"), None if options is None else dict(options))
        refuse_windows("a lake")
        return cls(str(Path(text).absolute()))

    @property
    def is_local(self) -> bool:
        """Whether it is a folder."""
        return not _SCHEME.match(self.uri)

    def child(self, *names: str) -> Storage:
        """Return a place below this one."""
        return Storage("/".join((self.uri, *names)), self.options)

    def files(self) -> Any:
        """Open it as a file system of pyarrow's, with paths from here."""
        fs: Any = import_module("pyarrow.fs")
        if self.is_local:
            return fs.SubTreeFileSystem(self.uri, fs.LocalFileSystem())
        handler: Any = import_module("deltalake.fs").DeltaStorageHandler
        return fs.PyFileSystem(handler(self.uri, self.delta_options))

    @property
    def delta_options(self) -> dict[str, str] | None:
        """The options in the form that delta-rs takes."""
        return None if self.options is None else dict(self.options)

    def folders(self) -> Sequence[str]:
        """List the names of folders in it; none if it does not exist."""
        fs: Any = import_module("pyarrow.fs")
        with self.disk_errors():
            try:
                found = self.files().get_file_info(fs.FileSelector("", recursive=False))
            except FileNotFoundError:
                return ()
        return sorted(one.base_name for one in found if one.type == fs.FileType.Directory)

    def sync(self, path: str) -> None:
        """Bring a file and its name to the disk; object stores have done so."""
        if self.is_local:
            whole = Path(self.uri, path)
            for one in (whole, whole.parent, whole.parent.parent):
                number = os.open(one, os.O_RDONLY)
                try:
                    os.fsync(number)
                finally:
                    os.close(number)

    def disk_errors(self) -> AbstractContextManager[None]:
        """Translate errors of the operating system and of object stores."""
        return disk_errors(f"the lake {self.uri}", is_local=self.is_local)


@contextmanager
def disk_errors(place: str, *, is_local: bool = True) -> Generator[None]:
    """Translate errors of the operating system and of object stores about a place."""
    try:
        yield
    except (TurnaboutError, FileNotFoundError):
        raise
    except OSError as error:
        text = str(error).partition("\n")[0][:300]
        if error.errno in _READ_ONLY or (not is_local and _DENIED.search(str(error))):
            raise Forbidden(
                f"{place} cannot be read or written ({text}): let this user do so, or name "
                "another one"
            ) from error
        if error.errno in _FULL:
            raise StorageFull(f"the disk of {place} is full: make room and run it again") from error
        raise Unavailable(f"{place} cannot be reached: {text}") from error
