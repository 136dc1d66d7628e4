"""`read_lake`: the lake as a DataFrame; and which of its rows are wanted."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from turnabout.pipeline.lake import Lake
from turnabout.pipeline.spark.schema import LOG, ddl
from turnabout.words.value import Value

if TYPE_CHECKING:
    from os import PathLike

    from pyspark.sql import DataFrame, SparkSession


class Filter(Value):
    """Which rows: those that finished from `since` and before `until` (milliseconds), of these
    namespaces, queues, channels, outcomes and ids. None: any.
    """

    since: int | None = None
    until: int | None = None
    namespace: str | None = None
    queues: tuple[str, ...] | None = None
    channels: tuple[str, ...] | None = None
    outcomes: tuple[str, ...] | None = None
    ids: tuple[int, ...] | None = None


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


def matching(rows: DataFrame, asked: Filter) -> DataFrame:
    """Count some rows of the log."""
    from pyspark.sql import functions as f

    whole = f.concat_ws("/", f.nullif(f.col("namespace"), f.lit("")), f.col("queue"))
    lists = (
        (whole if asked.namespace is None else f.col("queue"), asked.queues),
        (f.col("channel"), asked.channels),
        (f.col("outcome"), asked.outcomes),
        (f.col("message_id"), asked.ids),
    )
    conditions = [column.isin(*wanted) for column, wanted in lists if wanted is not None]
    if asked.since is not None:
        conditions.append(f.col("finished_at") >= f.timestamp_millis(f.lit(asked.since)))
    if asked.until is not None:
        conditions.append(f.col("finished_at") < f.timestamp_millis(f.lit(asked.until)))
    if asked.namespace is not None:
        conditions.append(f.col("namespace") == asked.namespace)
    for condition in conditions:
        rows = rows.where(condition)
    return rows
