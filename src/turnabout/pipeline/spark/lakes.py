"""`read_lake`: the lake as a DataFrame."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from turnabout.pipeline.lake import Lake
from turnabout.pipeline.spark.schema import LOG, ddl

if TYPE_CHECKING:
    from os import PathLike

    from pyspark.sql import DataFrame, SparkSession


def read_lake(
    spark: SparkSession,
    lake: str | PathLike[str],
    *,
    archive: str | None = None,
    since: int | None = None,
    until: int | None = None,
    version: int | None = None,
) -> DataFrame:
    """The rows of a lake: the columns of the log, and `day` (a date), by which files are skipped.

    archive       of this archive; else of all in the lake
    since, until  milliseconds: leaves out files without rows that finished from then, and before
                  then; the rows themselves are not filtered
    version       as the archive was after that commit; `compact` removes old ones after a while
    Raises: UsageError: no lake, no such archive or version; LakeDamaged, WrongVersion.
    """
    place = Lake(lake)
    paths = place.paths(archive, since=since, until=until, version=version)
    schema = f"{ddl(LOG)}, day date"
    if not paths:
        session: Any = spark
        return session.createDataFrame([], schema)
    base = str(place.folder / "data")
    return spark.read.schema(schema).option("basePath", base).parquet(*paths)
