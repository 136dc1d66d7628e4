"""An empty data folder: made by `initdb` once per version, kept in a cache, copied from there.

Two seconds the first time, a tenth of one after that. Two processes may ask at the same moment.
"""

import contextlib
import os
import re
import shutil
import tempfile
from pathlib import Path
from typing import Final

from turnabout.dev.pgserver._programs import PostgresError, reachable, runner, version_line

# Raise it when the way the template is made changes: old templates are then left alone.
TEMPLATE_LAYOUT: Final = 1


def _cache_folder() -> Path | None:
    """Return the folder of templates, or None if this user has no place to keep them."""
    home = Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser() / "turnabout"
    # The second is for a home that can't be written to. Its name can be guessed, hence the look
    # at whose it is: a template made by somebody else would run their settings as this user.
    for folder in (home, Path(tempfile.gettempdir()) / f"turnabout-cache-{os.geteuid()}"):
        with contextlib.suppress(OSError):
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            status = folder.lstat()
            mine = status.st_uid == os.geteuid() and not status.st_mode & 0o022
            if mine and os.access(folder, os.W_OK):
                return folder
    return None


def _initdb(binaries: Path, folder: Path) -> None:
    """Make an empty data folder at `folder`, whose parent the runner can write to."""
    common = (
        *("-U", "postgres", "-E", "UTF8", "--auth=trust", "--wal-segsize=1"),
        *("--no-sync", "--no-instructions", "-D", folder),
    )
    output = ""
    # A machine without the first locale has the second; both sort by code point.
    for locale in ("C.UTF-8", "C"):
        made = runner().run(binaries / "initdb", f"--locale={locale}", *common)
        if made.returncode == 0:
            return
        output = made.stderr.strip()
        shutil.rmtree(folder, ignore_errors=True)
    raise PostgresError(f"initdb failed. It said:\n{output}")


def new_data_folder(binaries: Path, data: Path) -> None:
    """Fill `data`, which isn't there yet, with an empty data folder: copied, if there is one."""
    cache = _cache_folder()
    slug = re.sub(r"[^0-9A-Za-z.]+", "-", version_line(binaries)).strip("-").lower()
    template = None if cache is None else cache / f"{slug}-{TEMPLATE_LAYOUT}"
    if template is None or not template.is_dir():
        with tempfile.TemporaryDirectory(prefix="turnabout-initdb-") as work:
            runner().own(Path(work))
            made = Path(work) / "data"
            _initdb(reachable(binaries), made)
            if cache is None or template is None:
                shutil.copytree(made, data)
            else:
                _publish(made, template, cache)
    if template is not None:
        shutil.copytree(template, data)
    runner().own(data)


def _publish(made: Path, template: Path, cache: Path) -> None:
    """Put a folder in the cache whole, or leave the one another process put there meanwhile."""
    work = Path(tempfile.mkdtemp(prefix="unfinished-", dir=cache))
    copy = shutil.copytree(made, work / "data")
    # Two processes may get here at once: a rename onto a folder with files in it is refused.
    with contextlib.suppress(OSError):
        copy.rename(template)
    shutil.rmtree(work, ignore_errors=True)
    if not template.is_dir():
        raise PostgresError(f"The cache folder {cache} can't be written to.")
