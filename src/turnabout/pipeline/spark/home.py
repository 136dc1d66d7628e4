"""A home for Spark without its copy of PySpark, so that worker processes start sooner.

Java puts `python/lib/pyspark.zip` of Spark's home before all else that its Python workers import.
Nothing compiled is kept of a zip: each of those processes, several for each query, compiles PySpark
anew, four fifths of a second. So Spark gets a folder of links to the package, less that file, and
workers import the very same modules from the package.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
import sys
import sysconfig
import tempfile
from collections.abc import Generator, Mapping
from pathlib import Path
from typing import Final

import pyspark

from turnabout.pipeline.spark.launcher import cache

PACKAGE: Final = Path(pyspark.__file__).resolve().parent
ZIP: Final = "python/lib/pyspark.zip"
LEFT_OUT: Final = ("python", "__pycache__")


@contextlib.contextmanager
def in_use() -> Generator[None]:
    """Let Java start from the home of links, where workers can do without the zip."""
    home = None if os.environ.get("SPARK_HOME") else find()
    if home is None:
        yield
        return
    os.environ["SPARK_HOME"] = str(home)
    try:
        yield
    finally:
        del os.environ["SPARK_HOME"]


def find() -> Path | None:
    """The home of links; None where PySpark is not installed for the Python of the workers, or
    nothing can be written.
    """
    theirs = os.environ.get("PYSPARK_PYTHON") or sys.executable
    installed = {Path(sysconfig.get_path(name)).resolve() for name in ("purelib", "platlib")}
    if theirs != sys.executable or PACKAGE.parent not in installed:
        return None
    if not (PACKAGE / ZIP).is_file() or not (PACKAGE / "jars").is_dir():
        return None
    links = {part.name: part for part in PACKAGE.iterdir() if part.name not in LEFT_OUT}
    with contextlib.suppress(OSError):
        return _linked(cache(), links)
    return None


def _linked(folder: Path, links: Mapping[str, Path]) -> Path:
    """A folder of these links, made whole under its name at once: others may be looking."""
    names = "\n".join(sorted(map(str, links.values())))
    home = folder / f"spark-{hashlib.sha256(names.encode()).hexdigest()[:16]}"
    if home.is_dir():
        return home
    folder.mkdir(parents=True, exist_ok=True)
    made = Path(tempfile.mkdtemp(dir=folder))
    try:
        for name, target in links.items():
            (made / name).symlink_to(target)
        made.rename(home)
    except OSError:
        if not home.is_dir():  # else somebody was first
            raise
    finally:
        shutil.rmtree(made, ignore_errors=True)
    return home
