"""Apache Spark on the queue's database: streams out of it and into it, the archive, reports.

    from penstock.spark import session
    spark = session()
    spark.readStream.format("penstock").option("subscribe", "mail")…

Needs `pip install 'penstock[spark]'` and Java 17 or later; with `penstock[spark-jre]` a Java comes
along. A session of your own does as well: `register(spark)` teaches it the format.
"""

from __future__ import annotations

from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from penstock.spark.jobs.archive import archive
    from penstock.spark.jobs.compact import compact
    from penstock.spark.jobs.purge import purge
    from penstock.spark.jobs.replay import replay
    from penstock.spark.jobs.report import report
    from penstock.spark.jobs.status import status
    from penstock.spark.lakes import read_lake
    from penstock.spark.sessions import beside, register, session

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
        f"penstock.spark needs {' and '.join(_missing)}: pip install 'penstock[spark]' "
        "(or 'penstock[spark-jre]', which brings a Java along)",
        name=_missing[0],
    )


def __getattr__(name: str) -> Any:
    if name not in _FROM:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    value = getattr(import_module(f"{__name__}.{_FROM[name]}"), name)
    globals()[name] = value
    return value
