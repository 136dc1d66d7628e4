"""What `test_old_spark.py` runs with an older PySpark, in a process of its own: PROGRAM URL FOLDER.

Each thing that the source and the sink do; prints what came of it, as JSON.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from typing import Any

from pyspark.errors import AnalysisException

from turnabout.pipeline import session


def main(url: str, folder: str) -> None:
    spark = session("old")
    seen: dict[str, Any] = {"version": spark.version, "batches": []}

    def reading(reader: Any, **options: Any) -> Any:
        return reader.format("turnabout").options(url=url, **options).load()

    def run(name: str, frame: Any) -> None:
        """All there is, of the log, into a queue."""
        sink = frame.writeStream.format("turnabout").options(url=url, queue=name)
        query = sink.option("checkpointLocation", f"{folder}/{name}").trigger(availableNow=True)
        query.start().awaitTermination()

    def refused(what: Callable[[], Any]) -> str:
        try:
            what()
        except AnalysisException as error:
            return str(error)
        return ""

    rows = spark.range(10).selectExpr("string(id) value", "concat('c', id % 3) channel")
    rows.write.format("turnabout").options(url=url, queue="sent").mode("append").save()
    history = reading(spark.read, mode="history", subscribe="in")
    seen["history"] = history.where("outcome = 'done'").count()
    log = reading(spark.readStream, mode="log", subscribe="in", includeHeaders="true")
    columns = log.select("value", "channel", "headers")
    run("copied", columns)
    sys.stdout.write("more\n")  # the test handles more messages meanwhile
    sys.stdout.flush()
    sys.stdin.readline()
    run("copied", columns)
    seen["lease"] = refused(
        lambda: reading(spark.readStream, mode="lease", subscribe="in", subscription="s")
    )
    seen["limit"] = refused(lambda: reading(spark.readStream, maxOffsetsPerTrigger="5"))
    sys.stdout.write(f"{json.dumps(seen)}\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
