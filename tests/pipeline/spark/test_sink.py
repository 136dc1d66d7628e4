"""The sink in Spark: batches, streams, foreachBatch; what a task or a driver repeats."""

import shutil
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from pyspark import TaskContext
from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

import turnabout
from tests.pipeline.spark.places import on_postgres

pytestmark = on_postgres

COLUMNS = "value string, queue string, channel string, delay_seconds double, dedup_key string"


def writer(frame: DataFrame, place: str, **options: str) -> Any:
    """Of a batch, in append mode."""
    return frame.write.format("turnabout").options(url=place, **options).mode("append")


def payloads(mq: turnabout.Turnabout, queue: str) -> list[str]:
    return sorted(m.text() for m in mq.queue(queue).peek(1000))


def test_a_batch(spark: SparkSession, place: str, mq: turnabout.Turnabout) -> None:
    frame = spark.range(0, 40, 1, 2).select(
        f.col("id").cast("string").alias("value"),
        f.when(f.col("id") % 4 != 0, "reports").alias("queue"),
        f.concat(f.lit("c"), f.col("id") % 3).alias("channel"),
        f.create_map(f.lit("n"), f.col("id").cast("string")).alias("headers"),
        f.when(f.col("id") % 2 == 0, 60).alias("delay_seconds"),
        f.when(f.col("id") % 4 == 2, "once").alias("dedup_key"),
        f.lit(1.5).alias("ttl_seconds"),
    )
    for _ in range(2):
        writer(frame, place, queue="emails", runId="backfill-1").save()
    emails, reports = mq.queue("emails").stats(), mq.queue("reports").stats()
    assert (emails.sent, emails.scheduled, emails.ready) == (10, 10, 0)
    assert (reports.sent, reports.scheduled, reports.ready) == (21, 1, 20)
    some = mq.queue("reports").peek(100)
    assert all(m.headers == {"n": m.text()} for m in some)
    assert {m.channel for m in some} == {"c0", "c1", "c2"}

    some = frame.where("id = 0")
    writer(some, place, queue="emails").save()
    writer(some.withColumnRenamed("value", "VALUE"), place, queue="emails").save()
    assert mq.queue("emails").stats().sent == 12  # without a runId each write is one of its own


def test_what_is_wrong_is_said_before_any_task_runs(spark: SparkSession, place: str) -> None:
    frame = spark.range(1).select(f.lit("x").alias("value"), f.lit("q").alias("queue"))
    with pytest.raises(AnalysisException, match="did you mean channel"):
        writer(frame.withColumn("chanel", f.lit("c")), place).save()
    with pytest.raises(AnalysisException, match=r'use \.mode\("append"\)'):
        writer(frame, place).mode("overwrite").save()
    secret = "postgresql://ada:s3cret@127.0.0.1:1/db"
    with pytest.raises(PySparkException) as failed:
        writer(frame, secret).save()
    assert "s3cret" not in str(failed.value)
    with pytest.raises(AnalysisException) as failed:
        writer(frame, secret, quue="x").save()
    assert "s3cret" not in str(failed.value)


def test_a_row_that_is_no_message(spark: SparkSession, place: str, mq: turnabout.Turnabout) -> None:
    frame = spark.range(0, 6, 1, 2).select(
        f.col("id").cast("string").alias("value"), (f.col("id") * 10_000).alias("priority")
    )
    with pytest.raises(PySparkException, match="2 of partition 1 is not a valid message: priority"):
        writer(frame, place, queue="emails").save()
    assert "emails" not in [entry.name for entry in mq.queues()]
    writer(frame, place, queue="emails", onInvalidRow="deadletter").save()
    assert payloads(mq, "emails") == ["0", "1", "2", "3"]
    assert payloads(mq, "emails-dead") == ["4", "5"]


def test_a_task_that_is_tried_again(
    spark: SparkSession, place: str, mq: turnabout.Turnabout
) -> None:
    def fail_once(batches: Any) -> Any:
        context = TaskContext.get()
        assert context is not None
        yield from batches
        if context.partitionId() == 1 and context.attemptNumber() == 0:
            raise OSError("the executor is lost, after all its rows")

    frame = spark.range(0, 10, 1, 2).selectExpr("cast(id as string) as value")
    writer(frame.mapInArrow(fail_once, "value string"), place, queue="emails").save()
    assert payloads(mq, "emails") == [str(n) for n in range(10)]


def test_a_stream_whose_commit_log_is_lost(
    spark: SparkSession, place: str, mq: turnabout.Turnabout, tmp_path: Path
) -> None:
    files, checkpoint = tmp_path / "files", tmp_path / "checkpoint"
    spark.range(0, 10, 1, 2).selectExpr("cast(id as string) as value").write.json(str(files))

    def run() -> list[int]:
        source = spark.readStream.schema("value string").option("maxFilesPerTrigger", 1)
        sink = source.json(str(files)).writeStream.format("turnabout")
        sink = sink.options(url=place, queue="emails", checkpointLocation=str(checkpoint))
        query = sink.trigger(availableNow=True).start()
        query.awaitTermination()
        return [progress["batchId"] for progress in query.recentProgress]

    assert run() == [0, 1]
    shutil.rmtree(checkpoint / "commits")
    assert run() == [1]  # again, and nothing is sent
    assert payloads(mq, "emails") == [str(n) for n in range(10)]

    # A new checkpoint is another query: it sends what it is told to.
    shutil.rmtree(checkpoint)
    assert run() == [0, 1]
    assert Counter(payloads(mq, "emails")) == Counter([str(n) for n in range(10)] * 2)


def test_foreach_batch_with_a_run_for_each(
    spark: SparkSession, place: str, mq: turnabout.Turnabout, tmp_path: Path
) -> None:
    files, checkpoint = tmp_path / "files", tmp_path / "checkpoint"
    spark.range(0, 6, 1, 1).selectExpr("cast(id as string) as value").write.json(str(files))

    def send(frame: DataFrame, batch: int) -> None:
        writer(frame, place, queue="emails", runId=f"copy-{batch}").save()
        writer(frame, place, queue="reports", runId=f"copy-{batch}.reports").save()

    for _ in range(2):
        query = (
            spark.readStream.schema("value string")
            .json(str(files))
            .writeStream.foreachBatch(send)
            .option("checkpointLocation", str(checkpoint))
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()
        shutil.rmtree(checkpoint / "commits")
    assert payloads(mq, "emails") == payloads(mq, "reports") == [str(n) for n in range(6)]
