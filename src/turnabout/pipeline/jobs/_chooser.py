"""Choosing the rows of a replay by Spark: executors filter, sort and write them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import msgspec
import pyarrow as pa

from turnabout.pipeline.jobs._failures import spark_errors
from turnabout.pipeline.jobs._plan import ORDER, JobRun
from turnabout.pipeline.lake import Filter, Lake, WrittenFile
from turnabout.pipeline.lake._files import in_files
from turnabout.pipeline.results import Chosen
from turnabout.pipeline.spark.access import Access
from turnabout.pipeline.spark.lakes import matching, read_lake

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


class SparkChooser:
    """Finds rows on a cluster, see `replay.LocalChooser`."""

    def __init__(
        self, spark: SparkSession, access: Access, lake: Lake, archive: str | None, filter_: Filter
    ) -> None:
        from turnabout.pipeline.spark.sessions import beside

        self._spark, self._access, self._lake = beside(spark), access, lake
        self._archive, self._filter = archive, filter_

    def count(self) -> tuple[Chosen, ...]:
        """Count rows by queue and outcome."""
        from pyspark.sql import functions as f

        with spark_errors(self._access, "while it counted rows of the lake"):
            found = (
                self._rows()
                .groupBy("namespace", "queue", "outcome")
                .agg(f.count("*").alias("n"), f.count_if(f.col("value").isNull()).alias("missing"))
                .orderBy("namespace", "queue", "outcome")
                .collect()
            )
        return tuple(
            Chosen(row["namespace"], row["queue"], row["outcome"], row["n"], row["missing"])
            for row in found
        )

    def write(self, run: JobRun, size: int) -> Sequence[WrittenFile]:
        """Write the rows, see `LocalChooser`: each task those of a range, in files in order."""
        from pyspark.sql import functions as f

        def task(batches: Iterable[Any]) -> Iterator[Any]:
            from pyspark import TaskContext

            arrow: Any = pa
            context = TaskContext.get()
            assert context is not None
            first = context.partitionId() * 1_000_000
            for number, rows in enumerate(in_files(batches, size)):
                file = run.write(rows, first + number)
                text = msgspec.json.encode(file).decode()
                yield arrow.RecordBatch.from_pydict({"file": [text]})

        with spark_errors(self._access, "while it chose rows of the lake"):
            rows: Any = self._rows().where(f.col("value").isNotNull()).orderBy(*ORDER)
            found = rows.mapInArrow(task, "file string").collect()
        files = [msgspec.json.decode(row[0], type=WrittenFile) for row in found]
        return sorted(files, key=lambda file: file.path)

    def _rows(self) -> DataFrame:
        filter_ = self._filter
        frame = read_lake(
            self._spark,
            self._lake.storage.uri,
            archive=self._archive,
            since=filter_.since,
            until=filter_.until,
            storage_options=self._lake.storage.options,
        )
        return matching(frame, filter_)
