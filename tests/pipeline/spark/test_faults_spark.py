"""Faults that Spark itself handles: batches that fail, executors that die, checkpoints that lose
files. From queue to queue; step by step in `test_faults`.
"""

import json
import os
import signal
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark import TaskContext
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession
from pyspark.sql.streaming import StreamingQuery

import turnabout
from tests.pipeline.spark.places import on_postgres

ORDERS = 20
Change = Callable[[Iterator[Any]], Iterator[Any]]


class Pipeline:
    """Orders are leased, changed by a function, and sent to `priced`."""

    def __init__(self, spark: SparkSession, place: str, checkpoint: Path) -> None:
        self.spark, self.place, self.checkpoint = spark, place, checkpoint

    def run(self, change: Change | None = None, **options: Any) -> list[int]:
        """What there is, in batches of ten: the numbers of those with rows."""
        query = self.start(change, options, availableNow=True)
        query.awaitTermination()
        return [p["batchId"] for p in query.recentProgress if p["numInputRows"]]

    def start(
        self, change: Change | None = None, options: Any = None, **trigger: Any
    ) -> StreamingQuery:
        """The query, running."""
        orders = (
            self.spark.readStream.format("turnabout")
            .options(url=self.place, mode="lease", subscribe="orders", subscription="pricing")
            .options(maxOffsetsPerTrigger=10, **(options or {}))
            .load()
            .select("value")
        )
        if change is not None:
            orders = orders.mapInArrow(change, "value binary")
        sink = orders.writeStream.format("turnabout").options(url=self.place, queue="priced")
        return sink.option("checkpointLocation", str(self.checkpoint)).trigger(**trigger).start()

    def lose(self, *files: str) -> None:
        """Remove files of the checkpoint, as if Spark had died before it wrote them."""
        for file in files:
            folder, name = file.split("/")
            (self.checkpoint / folder / name).unlink()
            (self.checkpoint / folder / f".{name}.crc").unlink(missing_ok=True)


@pytest.fixture
def pipeline(spark: SparkSession, place: str, mq: turnabout.Turnabout, tmp_path: Path) -> Pipeline:
    mq.queue("orders").send_many([turnabout.message(str(n)) for n in range(ORDERS)])
    return Pipeline(spark, place, tmp_path / "checkpoint")


def check(mq: turnabout.Turnabout, copies: Counter[str] | None = None) -> None:
    """Each order is done and priced once, and some, perhaps, once more."""
    stats = mq.queue("orders").stats()
    assert (stats.sent, stats.done, stats.ready, stats.leased) == (ORDERS, ORDERS, 0, 0)
    found = Counter(m.text() for m in mq.queue("priced").peek(1000))
    wanted = Counter(str(n) for n in range(ORDERS))
    assert found == wanted + (copies or Counter())


@on_postgres
def test_an_executor_dies_and_a_batch_fails(
    pipeline: Pipeline, mq: turnabout.Turnabout, tmp_path: Path
) -> None:
    failed = tmp_path / "failed"

    def die_once(batches: Iterator[Any]) -> Iterator[Any]:
        context = TaskContext.get()
        assert context is not None
        yield from batches
        if context.attemptNumber() == 0 and not failed.exists():
            os.kill(os.getpid(), signal.SIGKILL)  # the task is tried again
        if context.partitionId() == 1 and not failed.exists():
            failed.touch()
            raise OSError("the price list is away")

    with pytest.raises(StreamingQueryException, match="the price list is away"):
        pipeline.run(die_once)
    assert "priced" not in [entry.name for entry in mq.queues()]
    assert mq.queue("orders").stats().leased >= 10  # and perhaps those of the next batch
    assert pipeline.run(die_once) == [0, 1]
    check(mq)


@on_postgres
def test_a_driver_that_was_stopped_between_commit_log_and_acknowledgement(
    pipeline: Pipeline, mq: turnabout.Turnabout
) -> None:
    """Its last batch is leased still; it is known when the next run looks at the commit log."""
    query = pipeline.start(processingTime="1 hour")
    while not query.recentProgress:  # the first batch; the next one would be an hour later
        query.awaitTermination(0.05)
    told = json.loads(query.recentProgress[0]["sources"][0]["latestOffset"])
    assert (told["epoch"], told["unfinished"]) == (1, ORDERS)
    query.stop()
    assert mq.queue("orders").stats().done == 0
    assert mq.queue("priced").stats().sent == 10

    pipeline.lose("commits/0")  # or just before the commit log: the same batch, sent once
    assert pipeline.run() == [0, 1]
    check(mq)
