"""The engines that count a report: DuckDB in this process, or Spark where its rows are.

Both run the SQL of the folder `sql`. It uses Spark's names of functions; DuckDB gets the three that
it lacks as macros.
"""

from __future__ import annotations

import json
import re
import tempfile
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from turnabout.pipeline.gathered import gathered
from turnabout.pipeline.jobs._failures import FULL, JobFailed
from turnabout.pipeline.schema import LOG, arrow_schema, ddl
from turnabout.words.errors import StorageFull

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_CONTENT = ("result", "result_type", "value", "content_type", "headers")
COLUMNS: Final = tuple(name for name in LOG if name not in _CONTENT)
"""The columns needed of a row of the log: no payloads, no results."""

MEMORY: Final = "1GB"
SLICE_ROWS: Final = 2_000_000
"""Rows whose quantiles are computed together: these DuckDB keeps in memory."""

INSERT_ROWS: Final = 200_000
ERROR_CHARS: Final = 300
_MIXED = "|".join(
    rf"{one}{{{n}}}{other}[0-9a-fA-F]{{{7 - n},}}"
    for n in range(1, 8)
    for one, other in (("[0-9]", "[a-fA-F]"), ("[a-fA-F]", "[0-9]"))
)
# In this order: what is longer and more particular comes first. No look-ahead: DuckDB has none.
PARTICULARS: Final = (
    (r"[0-9a-fA-F]{8}-(?:[0-9a-fA-F]{4}-){3}[0-9a-fA-F]{12}", "#id"),
    (r"\b0[xX][0-9a-fA-F]+\b", "#hex"),
    (rf"\b(?:{_MIXED}|[0-9]{{8,}}[a-fA-F][0-9a-fA-F]*|[a-fA-F]{{8,}}[0-9][0-9a-fA-F]*)\b", "#hex"),
    (r"[0-9]+(?:[.,:][0-9]+)*", "#"),
)
"""The parts in which errors of one kind differ: ids, addresses in memory, digests, numbers."""


def sql(name: str, **words: object) -> str:
    """A statement of the folder, with its words in braces filled in."""
    return _text(name).format(counts=_text("counts"), **words)


@cache
def _text(name: str) -> str:
    text = (Path(__file__).parent / "sql" / f"{name}.sql").read_text("utf-8")
    return re.sub(r"--.*", "", text)


def rows(engine: ReportEngine, text: str) -> list[dict[str, Any]]:
    """The rows of a statement, as dictionaries."""
    return [row for batch in engine.batches(text) for row in batch.to_pylist()]


def _kind_of(*, is_spark: bool) -> str:
    """The expression for an error's last line without numbers, ids and digests."""
    raw, every = ("r", "") if is_spark else ("", ", 'g'")
    trimmed = rf"regexp_replace(message, {raw}'\s+$', '')"
    text = rf"substring(trim(regexp_extract({trimmed}, {raw}'([^\r\n]*)$', 1)), 1, {ERROR_CHARS})"
    for pattern, name in PARTICULARS:
        text = f"regexp_replace({text}, {raw}'{pattern}', '{name}'{every})"
    return text


# --- DuckDB ---------------------------------------------------------------------------------------


@contextmanager
def duckdb() -> Generator[DuckDB]:
    """DuckDB on temporary files, which are gone afterwards.

    Raises: StorageFull, JobFailed.
    """
    import duckdb as library

    try:
        with tempfile.TemporaryDirectory(prefix="turnabout-report-") as folder:
            settings: dict[str, Any] = {"memory_limit": MEMORY, "temp_directory": folder}
            with library.connect(Path(folder) / "report.db", config=settings) as connection:
                yield DuckDB(connection)
    except library.Error as error:
        text = str(error)
        if FULL.search(text):
            raise StorageFull(
                "the disk for temporary files is full: make room, or set TMPDIR, and run it again"
            ) from error
        raise JobFailed(
            f"DuckDB failed while it made the report: {text.splitlines()[0]}"
        ) from error


class DuckDB:
    """The engine of one machine."""

    name = "DuckDB, on this machine"

    def __init__(self, connection: Any) -> None:
        self.connection = connection
        for text in (
            "set timezone = 'UTC'",
            "set preserve_insertion_order = false",
            "create macro unix_millis(t) as epoch_ms(t)",
            "create macro timestamp_millis(ms) as make_timestamptz(ms * 1000)",
            f"create macro kind_of(message) as {_kind_of(is_spark=False)}",
        ):
            connection.execute(text)

    def load(self, batches: Iterator[Any], narrow: str) -> None:
        """Keep batches of the log as the table `narrow`, by that statement."""
        import pyarrow as pa

        arrow: Any = pa
        self.connection.register("log", arrow.Table.from_batches([], arrow_schema(COLUMNS)))
        self.keep("narrow", [narrow])
        for some in gathered(batches, INSERT_ROWS, lambda batch: batch.num_rows):
            self.connection.register("log", arrow.Table.from_batches(some))
            self.connection.execute(f"insert into narrow {narrow}")

    def keep(self, table: str, texts: Sequence[str]) -> None:
        """Keep the rows of these statements together as a table."""
        for number, text in enumerate(texts):
            self.connection.execute(
                f"insert into {table} {text}" if number else f"create table {table} as {text}"
            )

    def batches(self, text: str) -> Iterable[Any]:
        """The rows of a statement, batch by batch."""
        reader = self.connection.sql(text).to_arrow_reader(INSERT_ROWS)
        yield reader.schema.empty_table()
        yield from reader

    def weigh(self, weights: Mapping[str, float]) -> None:
        """Make the table `weights`."""
        self.connection.execute("create table weights (channel varchar, weight double)")
        for pair in weights.items():
            self.connection.execute("insert into weights values (?, ?)", pair)

    def slices(self, messages: int) -> int:
        """One for each `SLICE_ROWS`."""
        return max(1, -(-messages // SLICE_ROWS))


# --- Spark ----------------------------------------------------------------------------------------


class OnSpark:
    """The engine of a cluster, or of one machine with Java."""

    def __init__(self, spark: SparkSession) -> None:
        from turnabout.pipeline.spark.sessions import beside

        self.spark: Any = beside(spark)
        self.name = f"Apache Spark, at {self.spark.conf.get('spark.master', 'a server')}"
        self._cached: list[Any] = []
        self.spark.sql(
            "create or replace temporary function kind_of(message string) returns string "
            f"return {_kind_of(is_spark=True)}"
        )

    def load(self, log: DataFrame, narrow: str) -> None:
        """Keep rows of the log as the table `narrow`, by that statement."""
        log.createOrReplaceTempView("log")
        self.keep("narrow", [narrow])

    def keep(self, table: str, texts: Sequence[str]) -> None:
        """Cache the rows of these statements."""
        kept = self.spark.sql(" union all ".join(texts)).cache()
        kept.createOrReplaceTempView(table)
        self._cached.append(kept)

    def batches(self, text: str) -> Iterable[Any]:
        """The rows of a statement, all at once."""
        yield self.spark.sql(text).toArrow()

    def weigh(self, weights: Mapping[str, float]) -> None:
        """Make the table `weights`."""
        # Not by `createDataFrame`: it makes this session the active one of the caller's thread.
        text = "select explode(from_json(:weights, 'map<string, double>')) as (channel, weight)"
        table = self.spark.sql(text, args={"weights": json.dumps(dict(weights))})
        table.createOrReplaceTempView("weights")

    def slices(self, messages: int) -> int:
        """One: Spark divides the work itself."""
        del messages
        return 1

    def close(self) -> None:
        """Give the caches back."""
        for table in reversed(self._cached):
            table.unpersist()


ReportEngine = DuckDB | OnSpark
"""An engine that runs SQL. Kept tables have a name for the statements after them."""


def history(spark: Any, options: Mapping[str, str]) -> DataFrame:
    """The history of a database as Spark reads it."""
    parts = max(spark.sparkContext.defaultParallelism, 2)
    settings = {**options, "mode": "history", "includeValue": "false", "numPartitions": str(parts)}
    return spark.read.schema(ddl(COLUMNS)).format("turnabout").options(**settings).load()
