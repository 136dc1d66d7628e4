"""`read_lake`: an archive as a DataFrame; and those of its rows that are wanted."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from turnabout.pipeline.lake import Filter, Lake
from turnabout.pipeline.lake._files import read
from turnabout.pipeline.schema import LOG, ddl

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
    columns: Sequence[str] = tuple(LOG),
    storage_options: Mapping[str, str] | None = None,
) -> DataFrame:
    """The rows of an archive: the columns of the log. Of an object store pyarrow reads the files,
    so that Spark needs no packages for it.

    archive       needed if the lake has several
    since, until  milliseconds: leaves out files without rows that finished from then, and before
                  then; the rows themselves are not filtered
    version       as the archive was after that commit; `compact` removes old ones after a while
    Raises: UsageError: no lake, no such archive or version; LakeDamaged.
    """
    place = Lake(lake, storage_options=storage_options)
    name = place.only(archive)
    table = place.place(name)
    paths = [file.path for file in place.files(name, since=since, until=until, version=version)]
    schema = ddl(columns)
    session: Any = spark
    if paths and table.is_local:
        whole = [f"{table.uri}/{path}" for path in paths]
        return session.read.schema(schema).parquet(*whole)
    wanted = tuple(columns)

    def task(batches: Iterable[Any]) -> Iterator[Any]:
        for batch in batches:
            numbers: Sequence[int] = batch.column(0).to_pylist()
            chosen = [paths[number] for number in numbers]
            yield from read(table, chosen, wanted)

    return session.range(0, len(paths), 1, max(len(paths), 1)).mapInArrow(task, schema)


def matching(rows: DataFrame, filter_: Filter) -> DataFrame:
    """Filter rows of the log."""
    from pyspark.sql import functions as f

    whole = f.concat_ws("/", f.nullif(f.col("namespace"), f.lit("")), f.col("queue"))
    lists = (
        (whole if filter_.namespace is None else f.col("queue"), filter_.queues),
        (f.col("channel"), filter_.channels),
        (f.col("outcome"), filter_.outcomes),
        (f.col("message_id"), filter_.ids),
    )
    conditions = [column.isin(*wanted) for column, wanted in lists if wanted is not None]
    if filter_.since is not None:
        conditions.append(f.col("finished_at") >= f.timestamp_millis(f.lit(filter_.since)))
    if filter_.until is not None:
        conditions.append(f.col("finished_at") < f.timestamp_millis(f.lit(filter_.until)))
    if filter_.namespace is not None:
        conditions.append(f.col("namespace") == filter_.namespace)
    for condition in conditions:
        rows = rows.where(condition)
    return rows
