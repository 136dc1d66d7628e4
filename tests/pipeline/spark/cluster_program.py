"""What `test_clusters.py` runs on a cluster, as a program of its own: PROGRAM URL FOLDER MASTER
VICTIM [jobs].

A lease stream into the sink, during which the victim is killed, `executor` or `worker` with its
executor, unless it is `nobody`; then a read of the log. With `jobs` the log is archived and
replayed as well. It runs inside an event loop, as it would in a notebook. Prints what it saw, as
JSON.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import turnabout.pipeline.jobs.archive as archive_job
from turnabout.pipeline import archive, replay, session

UNLUCKY = b"17"


def parent_of(process: int) -> int:
    """The process that started that one."""
    stat = Path(f"/proc/{process}/stat").read_text()
    return int(stat.rpartition(")")[2].split()[1])


def killer(folder: str, victim: str) -> Any:
    """A step of a stream that kills its victim at the unlucky message, the first time."""

    def step(batches: Iterable[Any]) -> Iterator[Any]:
        for batch in batches:
            if victim != "nobody" and UNLUCKY in batch.column("value").to_pylist():
                try:
                    Path(folder, "killed").touch(exist_ok=False)
                except FileExistsError:
                    pass
                else:
                    executor = parent_of(os.getppid())
                    if victim == "worker":
                        os.kill(parent_of(executor), signal.SIGKILL)
                    os.kill(executor, signal.SIGKILL)
            yield batch

    return step


class Places:
    """How many tasks each executor has finished."""

    def __init__(self, spark: Any) -> None:
        self._store = spark.sparkContext._jsc.sc().statusStore()
        self._before = self._tasks()

    def fresh(self) -> int:
        """On how many executors tasks ended since this was asked last, as soon as two had some."""
        give_up = time.monotonic() + 20
        while True:  # Spark counts in a thread of its own
            now = self._tasks()
            found = sum(tasks > self._before.get(name, 0) for name, tasks in now.items())
            if found > 1 or time.monotonic() > give_up:
                self._before = now
                return found
            time.sleep(0.1)

    def _tasks(self) -> dict[str, int]:
        listed = self._store.executorList(False)
        executors = [listed.apply(n) for n in range(listed.size())]
        return {one.id(): one.completedTasks() for one in executors if one.id() != "driver"}


def jobs(spark: Any, url: str, folder: str) -> dict[str, Any]:
    """Archive the log into a folder and send it again; how many rows, and on how many executors."""
    archive_job._ROWS_EACH = 10  # so that each core gets a task
    lake, places = f"{folder}/lake", Places(spark)
    archived = archive(url, lake, spark=spark).rows
    on = [places.fresh()]
    sent = replay(url, lake, spark=spark, run_id="one", to="again", queues=["in"]).sent
    on.append(places.fresh())
    replay(url, lake, spark=spark, run_id="one", to="again", queues=["in"])
    return {"archived": archived, "replayed": sent, "executors": on}


async def main(url: str, folder: str, master: str, victim: str, *more: str) -> None:
    conf = {"spark.ui.liveUpdate.period": "0"}
    conf |= {"spark.executor.memory": "512m", "spark.sql.shuffle.partitions": "2"}
    conf["spark.executor.extraJavaOptions"] = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
    spark = session("turnabout cluster", master=master or None, conf=conf)
    reader = spark.readStream.format("turnabout").option("url", url).option("mode", "lease")
    reader = reader.option("subscribe", "in").option("subscription", "all")
    leased = reader.option("maxOffsetsPerTrigger", 20).load().select("value", "channel")
    stepped = leased.mapInArrow(killer(folder, victim), leased.schema)
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
    if more == ("jobs",):
        seen |= await asyncio.to_thread(jobs, spark, url, folder)
    sys.stdout.write(f"{json.dumps(seen)}\n")


if __name__ == "__main__":
    Path(sys.argv[2], "driver").write_text(str(os.getpid()))
    asyncio.run(main(*sys.argv[1:]))
