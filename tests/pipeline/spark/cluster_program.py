"""What `test_clusters.py` runs on a cluster, as a program of its own: PROGRAM URL FOLDER MASTER.

A lease stream into the sink, during which an executor is killed, then a read of the log. It runs
inside an event loop, as it would in a notebook. Prints what it saw, as JSON.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from turnabout.pipeline import session

UNLUCKY = b"17"


def parent_of(process: int) -> int:
    """The process that started that one."""
    stat = Path(f"/proc/{process}/stat").read_text()
    return int(stat.rpartition(")")[2].split()[1])


def killer(folder: str, *, with_worker: bool) -> Any:
    """A step of a stream that kills its executor at the unlucky message, the first time."""

    def step(batches: Iterable[Any]) -> Iterator[Any]:
        for batch in batches:
            if UNLUCKY in batch.column("value").to_pylist():
                try:
                    Path(folder, "killed").touch(exist_ok=False)
                except FileExistsError:
                    pass
                else:
                    executor = parent_of(os.getppid())
                    if with_worker:
                        os.kill(parent_of(executor), signal.SIGKILL)
                    os.kill(executor, signal.SIGKILL)
            yield batch

    return step


async def main(url: str, folder: str, master: str) -> None:
    conf = {"spark.executor.memory": "512m", "spark.sql.shuffle.partitions": "2"}
    conf["spark.executor.extraJavaOptions"] = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
    spark = session("turnabout cluster", master=master or None, conf=conf)
    reader = spark.readStream.format("turnabout").option("url", url).option("mode", "lease")
    reader = reader.option("subscribe", "in").option("subscription", "all")
    leased = reader.option("maxOffsetsPerTrigger", 20).load().select("value", "channel")
    stepped = leased.mapInArrow(killer(folder, with_worker=not master), leased.schema)
    writer = stepped.writeStream.format("turnabout").option("url", url).option("queue", "out")
    writer = writer.option("checkpointLocation", f"{folder}/checkpoint").trigger(availableNow=True)
    query = writer.start()
    assert await asyncio.to_thread(query.awaitTermination, 150)
    log = spark.read.format("turnabout").option("url", url).option("mode", "log")
    rows = log.option("subscribe", "in").load().groupBy("queue", "outcome").count().collect()
    seen = {
        "master": spark.sparkContext.master,
        "batches": [progress["numInputRows"] for progress in query.recentProgress],
        "log": [list(row) for row in rows],
        "java": os.environ.get("JAVA_HOME", ""),
    }
    sys.stdout.write(f"{json.dumps(seen)}\n")


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
