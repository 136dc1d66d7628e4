"""A Spark session that is small and quiet, and one's own session made ready for Turnabout.

Settings of the machine (`spark-submit`, `spark-defaults.conf`) win over ours, and those that are
given win over all.
"""

from __future__ import annotations

import contextlib
import os
import sys
import sysconfig
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from pyspark import SparkConf, SparkContext
from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession
from pyspark.sql.utils import is_remote

from turnabout.pipeline.spark import home, java
from turnabout.pipeline.spark.options import PARTITIONS_MAX
from turnabout.words.errors import UsageError

HERE: Final = Path(__file__).resolve().parent
LOG_SETTINGS: Final = HERE / "log4j2.properties"
JAVA_OPTIONS: Final = "spark.driver.extraJavaOptions"
SMALL_CORES: Final = 4
"""Up to here Java is told to start quickly, which on many cores would cost more than it saves."""

PATIENCE: Final = {
    "InvocationThreshold": 50_000,
    "MinInvocationThreshold": 6_000,
    "CompileThreshold": 150_000,
    "BackEdgeThreshold": 400_000,
}
"""Ten times Java's own numbers of calls before it compiles code again, for the best speed: what is
used as often as that is worth it; at a start it would take a core for ten seconds."""

RUNTIME: Final = {
    "spark.sql.python.filterPushdown.enabled": "true",
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
}
"""The settings of every session that reads or writes with Turnabout."""

OWN: Final = {
    **RUNTIME,
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.parquet.compression.codec": "zstd",
}
"""The other settings of a session that is ours alone."""


def session(
    app_name: str = "turnabout", *, master: str | None = None, conf: Mapping[str, str] | None = None
) -> SparkSession:
    """The Spark session of this process, with `format("turnabout")`; a new one if there is none.

    `master` is `local[*]` unless it is given, or `spark-submit` has one. `conf` adds settings of
    Spark. A session that is there already stays as it is, but for what can be set while it runs:
    what Turnabout needs, and `conf`; its time zone, for one, is not touched. What was asked for
    and cannot be set any more is a warning.

    Raises `JavaNotFound`; UsageError under Spark Connect.
    """
    _need_java_here("session()")
    conf = conf or {}
    there = SparkSession.getActiveSession()
    if there is None and SparkContext._active_spark_context is None:
        there = _start(app_name, master, conf)
    else:
        there = there or SparkSession.builder.getOrCreate()  # another thread's
        _set(there, RUNTIME)
        _change(there, {**conf, "spark.master": master} if master else conf)
    register(there)
    return there


def beside(spark: SparkSession) -> SparkSession:
    """A session in the same Spark with our settings, UTC among them, for a job's own work.

    Settings, names of views and the current database of `spark` stay as they are.
    """
    _need_java_here("a job")
    new = spark.newSession()
    for key, value in OWN.items():
        new.conf.set(key, value)
    _add_format(new)
    return new


def register(spark: SparkSession) -> None:
    """Teach a session `format("turnabout")`, reading and writing.

    Spark finds the format on its own as well; this saves it the search. Filters are only handed to
    the source where `spark.sql.python.filterPushdown.enabled` is on.
    """
    _add_format(spark)
    if is_remote():  # Spark Connect has no Java here
        return
    # `df.write` looks in the session that is active in this thread, which Spark sets in few calls.
    sessions: Any = SparkSession
    in_java = sessions._get_j_spark_session_class(spark._jvm)
    in_java.setActiveSession(spark._jsparkSession)


def _need_java_here(what: str) -> None:
    """Raise a UsageError under Spark Connect, where Java runs elsewhere."""
    if is_remote():
        raise UsageError(
            f'{what} can\'t use Spark Connect: register(spark) is enough for format("turnabout"), '
            "and jobs run on this machine with --engine local"
        )


def _add_format(spark: SparkSession) -> None:
    from turnabout.pipeline.spark.source import TurnaboutSource

    source = TurnaboutSource
    if not is_remote():
        # A class of `__main__`'s travels by value, and so with what this process knows.
        known = {"parallelism": min(spark.sparkContext.defaultParallelism, PARTITIONS_MAX)}
        source = type("TurnaboutSource", (source,), {**known, "__module__": "__main__"})
    with contextlib.suppress(AnalysisException):  # 4.0 refuses what it has found on its own
        spark.dataSource.register(source)


def _set(spark: SparkSession, settings: Mapping[str, str]) -> None:
    """Set what nobody has set."""
    known: Mapping[str, str] = spark.conf.getAll
    for key, value in settings.items():
        if key not in known:
            spark.conf.set(key, value)


def _change(spark: SparkSession, wanted: Mapping[str, str]) -> None:
    """Set what can be set while Spark runs, and warn of the rest unless it is so already."""
    fixed = spark.sparkContext.getConf()
    for key, value in wanted.items():
        if spark.conf.isModifiable(key):
            spark.conf.set(key, value)
        elif fixed.get(key) != value:
            text = f"{key} stays {fixed.get(key)}: Spark is already running; restart it for that"
            warnings.warn(text, stacklevel=3)


def _start(app_name: str, master: str | None, conf: Mapping[str, str]) -> SparkSession:
    """A new session, and the Java below it unless `spark-submit` has started that."""
    _share_source()
    master = master or conf.get("spark.master")
    if "PYSPARK_GATEWAY_PORT" in os.environ:
        SparkContext._ensure_initialized()
        configured = {key for key, _ in SparkConf().getAll()}
    else:
        os.environ["JAVA_HOME"] = str(java.find().home)
        configured = _defaults_of_machine()
        if JAVA_OPTIONS not in configured:
            theirs = conf.get(JAVA_OPTIONS, "")
            conf = {**conf, JAVA_OPTIONS: f"{java_options()} {theirs}".strip()}
    if master is None and "spark.master" not in configured:
        master = "local[*]"
    is_local = master is not None and master.startswith("local")
    if is_local:
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    ours = {"spark.app.name": app_name, **OWN, **_settings(is_local=is_local)}
    settings = {key: value for key, value in ours.items() if key not in configured} | dict(conf)
    if master is not None:
        settings["spark.master"] = master
    builder: Any = SparkSession.builder
    with home.in_use() if is_local else contextlib.nullcontext():
        return builder.config(map=settings).getOrCreate()


def _settings(*, is_local: bool) -> dict[str, str]:
    """The settings of our own session, and those that it adds on one machine."""
    settings = {"spark.ui.showConsoleProgress": "false"}
    if is_local:
        cores = str(min(os.cpu_count() or 2, 8))
        settings |= {
            "spark.ui.enabled": "false",
            "spark.driver.host": "127.0.0.1",
            "spark.driver.bindAddress": "127.0.0.1",
            "spark.sql.shuffle.partitions": cores,
            "spark.default.parallelism": cores,
            "spark.sql.catalogImplementation": "in-memory",
        }
    return settings


def java_options() -> str:
    """Settings of the driver's Java: which messages to log, and on a small machine to be quick."""
    options = [f"-Dlog4j2.configurationFile={LOG_SETTINGS.as_uri()}"]
    if (os.cpu_count() or 1) <= SMALL_CORES:
        options.append("-XX:+UseSerialGC")
        options += [f"-XX:Tier4{name}={calls}" for name, calls in PATIENCE.items()]
    return " ".join(options)


def _share_source() -> None:
    """Let Spark's Python workers import this very package: they start with our environment."""
    root = str(HERE.parents[2])
    if root in (sysconfig.get_path("purelib"), sysconfig.get_path("platlib")):
        return
    path = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    if root not in path:
        os.environ["PYTHONPATH"] = os.pathsep.join([root, *filter(None, path)])


def _defaults_of_machine() -> set[str]:
    """The settings that the machine's `spark-defaults.conf` makes."""
    folder = os.environ.get("SPARK_CONF_DIR")
    if folder is None and (home := os.environ.get("SPARK_HOME")):
        folder = f"{home}/conf"
    try:
        text = Path(folder or "", "spark-defaults.conf").read_text() if folder else ""
    except OSError:
        return set()
    words = (line.replace("=", " ").split() for line in text.splitlines())
    return {line[0] for line in words if line and not line[0].startswith("#")}
