"""The data pipeline: streams out of the queue and into it, the archive, reports; on Apache Spark.

    from turnabout.pipeline import session
    spark = session()
    spark.readStream.format("turnabout").option("subscribe", "mail")…

Streams of leases and the sink take PostgreSQL; of an SQLite file what has finished is read.
Needs the extra `spark` and Java 17 or later; the extra `spark-jre` brings a Java. Jobs on one
machine (archive, compact, purge, replay, report) do without both: the extra `lake`.
A session of your own does as well: `register(spark)` teaches it the format.

A slice: `verbs` and what the stores do for them (`sqlite`, `postgres`), `spark` with the format,
`lake` for archives as Delta tables, `jobs` and `reports` that work on it, `commands`. What is
exported here is loaded when it is asked for, so that the verbs need no Spark.
"""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from turnabout.pipeline.jobs.archive import archive
    from turnabout.pipeline.jobs.compact import compact
    from turnabout.pipeline.jobs.purge import purge
    from turnabout.pipeline.jobs.replay import replay
    from turnabout.pipeline.jobs.status import status
    from turnabout.pipeline.reports import report
    from turnabout.pipeline.spark.lakes import read_lake
    from turnabout.pipeline.spark.sessions import beside, register, session

__all__ = [
    "archive",
    "beside",
    "compact",
    "purge",
    "read_lake",
    "register",
    "replay",
    "report",
    "session",
    "status",
]

_FROM = {
    "archive": "jobs.archive",
    "beside": "spark.sessions",
    "compact": "jobs.compact",
    "purge": "jobs.purge",
    "read_lake": "spark.lakes",
    "register": "spark.sessions",
    "replay": "jobs.replay",
    "report": "reports",
    "session": "spark.sessions",
    "status": "jobs.status",
}


_ON_SPARK = frozenset({"beside", "read_lake", "register", "session"})
_LAKE = ("pyarrow", "deltalake", "duckdb")
_SPARK = ("pyspark", "pandas", *_LAKE)


def need_lake() -> None:
    """Raise an ImportError that says what to install, if the lake's packages are missing."""
    _need(_LAKE, _hint("lake"))


def need_spark() -> None:
    """Raise an ImportError that says what to install, if Spark's packages are missing."""
    _need(_SPARK, f"{_hint('spark')} (or '.[spark-jre]', which brings a Java)")


def _hint(extra: str) -> str:
    from turnabout.words.extras import install_hint

    return install_hint(extra)


def _need(packages: tuple[str, ...], hint: str) -> None:
    missing = [name for name in packages if find_spec(name) is None]
    if missing:
        raise ImportError(
            f"turnabout.pipeline needs {' and '.join(missing)}: {hint}", name=missing[0]
        )


def __getattr__(name: str) -> Any:
    if name not in _FROM:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    if name in _ON_SPARK:
        need_spark()
    else:
        need_lake()
    value = getattr(import_module(f"{__name__}.{_FROM[name]}"), name)
    globals()[name] = value
    return value
