"""Spark's own ways beside ours: its JDBC source, rows that are copied, and DuckDB's sorted files.

`python -m benchmarks.beside_spark --jdbc postgresql.jar` starts a PostgreSQL and a Spark of its
own. Sides take turns in rounds; `--json` keeps the seconds, and docs/performance.md shows them.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import tempfile
import time
import uuid
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import psycopg

import turnabout
from benchmarks import report
from turnabout.dev.pgserver import PostgresServer
from turnabout.postgres import install

KEPT = Path(__file__).parents[1] / "docs" / "performance" / "spark.json"
COLUMNS = {
    "queue": "string",
    "channel": "string",
    "message_id": "bigint",
    "finished_at": "timestamp",
    "value": "binary",
}
ROWS = ("concat(lpad(string(id), 10, '0'), repeat('x', 90)) value", "concat('c', id % 100) channel")
FILL = """
insert into turnabout.history (
    id, sent_at, leased_at, finished_at, queue_id, attempt, failures, crashes, outcome, channel,
    payload, xid
)
select i, n.ms, n.ms, n.ms, q.id, 1, 0, 0, 1, 'c' || i %% 100,
    convert_to(lpad(i::text, 100, 'x'), 'UTF8'), (10 + i / 50000)::text::xid8
from turnabout.queue q, generate_series(1, %s) i,
    lateral (select turnabout.clock_ms() - i / 1000 as ms) n
where q.name = 'read'
"""
SORTED = (
    "copy (select *, make_timestamp(finished_at * 1000)::date as day from rows"
    " order by namespace, queue, channel, message_id) to '{folder}'"
    " (format parquet, partition_by (day), compression zstd)"
)
Seconds = dict[str, dict[str, list[float]]]


class Sides:
    """What is measured: each a way to do the same work, on one database."""

    def __init__(self, spark: Any, server: PostgresServer, rows: int) -> None:
        self.spark, self.rows, self.url = spark, rows, server.url("postgres")
        host = self.url.partition("@")[2]
        self.jdbc_options = {
            "url": f"jdbc:postgresql://{host}",
            "driver": "org.postgresql.Driver",
            "user": "postgres",
            "fetchsize": "10000",
        }

    def history(self, schema: str | None) -> Any:
        """Rows of the log, by our source."""
        reader = self.spark.read.format("turnabout").options(url=self.url, mode="history")
        return (reader.schema(schema) if schema else reader).option("subscribe", "read").load()

    def jdbc(self) -> Any:
        """The same by Spark's JDBC source, in two parts by id."""
        parts = {"partitionColumn": "message_id", "lowerBound": 1, "upperBound": self.rows}
        reader = self.spark.read.format("jdbc").options(**self.jdbc_options, **parts)
        return reader.options(dbtable="turnabout.log_rows", numPartitions=2).load()

    def sink(self) -> None:
        """Send by the sink."""
        frame = self.spark.range(0, self.rows, 1, 4).selectExpr(*ROWS)
        frame.write.format("turnabout").options(url=self.url, queue="sent").mode("append").save()

    def copied(self) -> None:
        """Copy into a stage by each task, and move that with a note in one transaction: what the
        tasks have copied that Spark counts, as it may run a task twice.
        """
        stage, url = f"stage_{uuid.uuid4().hex[:8]}", self.url
        with psycopg.connect(url, autocommit=True) as connection:
            columns = "attempt bigint, value bytea, channel text"
            connection.execute(f"create unlogged table {stage} ({columns})")

        def copy(rows: Iterable[Any]) -> Iterable[int]:
            from pyspark import TaskContext

            attempt = TaskContext.get().taskAttemptId()
            with (
                psycopg.connect(url) as connection,
                connection.cursor().copy(f"copy {stage} from stdin") as out,
            ):
                for row in rows:
                    out.write_row((attempt, row[0].encode(), row[1]))
            return (attempt,)

        frame = self.spark.range(0, self.rows, 1, 4).selectExpr(*ROWS)
        attempts = frame.rdd.mapPartitions(copy).collect()
        with psycopg.connect(url) as connection:
            connection.execute("insert into note values (%s)", (stage,))
            moved = f"select value, channel from {stage} where attempt = any (%s)"  # noqa: S608
            connection.execute(f"insert into copied (value, channel) {moved}", (attempts,))
            connection.execute(f"drop table {stage}")

    def archive(self) -> None:
        """Archive into a new lake, in this process."""
        from turnabout.pipeline import archive

        with tempfile.TemporaryDirectory() as lake:
            name = f"a{uuid.uuid4().hex[:8]}"
            assert archive(self.url, lake, archive=name, max_rows=10_000_000).rows == self.rows
            with turnabout.connect(self.url) as mq:
                from turnabout.pipeline.verbs import WatermarkDelete

                mq.store.run(WatermarkDelete(name))

    def duckdb(self) -> None:
        """Read the same rows by ADBC, and let DuckDB sort and write them by day."""
        import duckdb
        from adbc_driver_postgresql import dbapi

        from turnabout.pipeline.schema import LOG

        with (
            tempfile.TemporaryDirectory() as folder,
            dbapi.connect(self.url) as connection,
            connection.cursor() as cursor,
            duckdb.connect() as duck,
        ):
            cursor.execute(f"select {', '.join(LOG)} from turnabout.log_rows")  # noqa: S608 - ours
            duck.register("rows", cursor.fetch_record_batch())
            duck.execute(SORTED.format(folder=folder))


def noop(frame: Any) -> None:
    """Read all of it, and throw it away."""
    frame.write.format("noop").mode("overwrite").save()


def cases(sides: Sides) -> dict[str, dict[str, Callable[[], Any]]]:
    """Work by name, each by our way and by another."""
    few, ddl = list(COLUMNS), ", ".join(map(" ".join, COLUMNS.items()))
    return {
        "read 5 columns, `.schema(…)`": {
            "ours": lambda: noop(sides.history(ddl)),
            "JDBC source": lambda: noop(sides.jdbc().select(few)),
        },
        "read 5 columns, `.select(…)`": {
            "ours": lambda: noop(sides.history(None).select(few)),
            "JDBC source": lambda: noop(sides.jdbc().select(few)),
        },
        "count a channel of 100": {
            "ours": lambda: sides.history(None).where("channel = 'c1'").count(),
            "JDBC source": lambda: sides.jdbc().where("channel = 'c1'").count(),
        },
        "archive, without Spark": {"ours": sides.archive, "DuckDB, sorted": sides.duckdb},
        "send by the sink": {"ours": sides.sink, "COPY, staged": sides.copied},
    }


def measured(jdbc: str, sizes: list[int], rounds: int, only: str) -> Seconds:
    """Seconds of each side of each work with `only` in its name, at each number of rows."""
    from turnabout.pipeline import session

    conf = {"spark.jars": jdbc, "spark.driver.memory": "2g"}
    spark = session("beside", master="local[2]", conf=conf)
    found: Seconds = {}
    for rows in sizes:
        with PostgresServer(port=free_port()) as server:
            sides = Sides(spark, server, rows)
            filled(sides.url, rows)
            for name, ways in cases(sides).items():
                if only not in name:
                    continue
                seconds = found.setdefault(f"{rows:,} rows: {name}", {way: [] for way in ways})
                first = rows == sizes[0]
                for number in range(rounds + first):
                    for way, run in ways.items():
                        begun = time.perf_counter()
                        run()
                        took = time.perf_counter() - begun
                        if number or not first:  # the very first one loads code
                            seconds[way].append(round(took, 2))
                        print(f"{rows:,} {name}: {way} {took:.2f}", file=sys.stderr)
    return found


def free_port() -> int:
    """Choose a port for the JDBC driver, which has no Unix sockets."""
    return 20_000 + os.getpid() % 10_000


def filled(url: str, rows: int) -> None:
    """Make a history of so many rows, and the tables of the other sides."""
    install.up(url)
    with turnabout.connect(url) as mq:
        mq.queue("read").create(history_payload=True)
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(FILL, (rows,))
        connection.execute("vacuum analyze turnabout.history")
        connection.execute(
            "create table note (name text primary key); create table copied ("
            "id bigserial primary key, value bytea, channel text, at timestamptz default now());"
            "create index on copied (channel, id)"
        )


def table(kept: Any) -> str:
    """The figures as the page shows them."""
    lines = ["| work | ours, s | the other, s | ratio |", "| --- | ---: | ---: | ---: |"]
    for name, ways in kept["seconds"].items():
        (_, ours), (other, theirs) = ways.items()
        ratios = sorted(their / our for our, their in zip(ours, theirs, strict=True))
        lines.append(
            f"| {name} | {_spread(ours)} | {other}: {_spread(theirs)} "
            f"| **{statistics.median(ratios):.2f}** ({ratios[0]:.2f}–{ratios[-1]:.2f}) |"
        )
    return "\n".join(lines)


def _spread(seconds: list[float]) -> str:
    return f"{statistics.median(seconds):.1f} ({min(seconds):.1f}–{max(seconds):.1f})"


def main() -> None:
    """Measure, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jdbc", required=True, help="PostgreSQL's JDBC driver, a jar")
    parser.add_argument("--rows", type=int, nargs="+", default=[1_000_000, 10_000_000])
    parser.add_argument("--rounds", type=int, default=3, help="of each size")
    parser.add_argument("--only", default="", help="work whose name has this in it")
    parser.add_argument("--json", type=Path, help="keep the figures here, among others'")
    given = parser.parse_args()
    load = os.getloadavg()[0]
    kept = {"machine": report.machine(), "load": round(load, 1), "seconds": {}}
    if given.json and given.json.exists():
        kept["seconds"] = json.loads(given.json.read_text())["seconds"]
    kept["seconds"] |= measured(given.jdbc, given.rows, given.rounds, given.only)
    if given.json:
        given.json.write_text(json.dumps(kept, indent=1) + "\n")
    print(table(kept))


if __name__ == "__main__":
    main()
