"""Apache Spark on the queue's database: streams out of it and into it, the archive, reports.

    from turnabout.spark import session
    spark = session()
    spark.readStream.format("turnabout").option("subscribe", "mail")…

Needs the extra `spark` and Java 17 or later; the extra `spark-jre` brings a Java.
A session of your own does as well: `register(spark)` teaches it the format.
"""

from __future__ import annotations

from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from turnabout.words.extras import install_hint

if TYPE_CHECKING:
    from turnabout.spark.jobs.archive import archive
    from turnabout.spark.jobs.compact import compact
    from turnabout.spark.jobs.purge import purge
    from turnabout.spark.jobs.replay import replay
    from turnabout.spark.jobs.report import report
    from turnabout.spark.jobs.status import status
    from turnabout.spark.lakes import read_lake
    from turnabout.spark.sessions import beside, register, session

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
    "beside": "sessions",
    "compact": "jobs.compact",
    "purge": "jobs.purge",
    "read_lake": "lakes",
    "register": "sessions",
    "replay": "jobs.replay",
    "report": "jobs.report",
    "session": "sessions",
    "status": "jobs.status",
}

_missing = [name for name in ("pyspark", "pandas", "pyarrow") if find_spec(name) is None]
if _missing:
    raise ImportError(
        f"turnabout.spark needs {' and '.join(_missing)}: {install_hint('spark')} "
        "(or '.[spark-jre]', which brings a Java)",
        name=_missing[0],
    )


def __getattr__(name: str) -> Any:
    if name not in _FROM:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    value = getattr(import_module(f"{__name__}.{_FROM[name]}"), name)
    globals()[name] = value
    return value
