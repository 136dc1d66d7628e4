"""Parts of PySpark's API for data sources that its older releases lack, and what is done without.

4.0 and 4.1 give a stream no limit for its batches and don't say where the last one ended: the log
is read up to its end, and leases, which are acknowledged by that, are refused. 4.0 hands a stream's
sink rows, and no filters to a source.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import TYPE_CHECKING, Any, Final, cast

import pyarrow as pa
import pyspark
from pyspark.sql import datasource as api

from turnabout.words.errors import UsageError

if TYPE_CHECKING:
    from pyspark.sql.datasource import DataSourceStreamArrowWriter, Filter
    from pyspark.sql.streaming.datasource import ReadLimit, ReadMaxRows, SupportsTriggerAvailableNow
    from pyspark.sql.types import StructType

    HAS_LIMITS = True
else:
    try:
        from pyspark.sql.streaming.datasource import (
            ReadLimit,
            ReadMaxRows,
            SupportsTriggerAvailableNow,
        )

        HAS_LIMITS = True
    except ImportError:
        ReadLimit = ReadMaxRows = SupportsTriggerAvailableNow = type("Missing", (), {})
        HAS_LIMITS = False
    Filter = getattr(api, "Filter", object)
    DataSourceStreamArrowWriter = getattr(
        api, "DataSourceStreamArrowWriter", api.DataSourceStreamWriter
    )

__all__ = [
    "DataSourceStreamArrowWriter",
    "Filter",
    "ReadLimit",
    "ReadMaxRows",
    "SupportsTriggerAvailableNow",
    "arrow_batches",
    "need_limits",
    "push_filters",
]

_ROWS: Final = 1_000
_arrow: Any = pa

push_filters: Any = getattr(api.DataSourceReader, "pushFilters", None)
"""`DataSourceReader.pushFilters`, where there is one."""


def need_limits(what: str) -> None:
    """Refuse what needs to know where a stream's last batch ended. Raises: UsageError."""
    if not HAS_LIMITS:
        raise UsageError(
            f"{what} needs PySpark 4.2 or later, and this is {pyspark.__version__}: only those "
            "tell a stream where its last batch ended"
        )


def arrow_batches(iterator: Iterable[Any], schema: StructType | None) -> Iterator[Any]:
    """Batches of Arrow's, as they came, or made of rows."""
    from pyspark.sql.pandas import types

    if api.DataSourceStreamWriter is not DataSourceStreamArrowWriter:
        yield from iterator
        return
    rows, kind = iter(iterator), cast("Any", types).to_arrow_schema(schema)
    while some := list(islice(rows, _ROWS)):
        turned = zip(*some, strict=True)
        columns = [_column(cells, field.type) for cells, field in zip(turned, kind, strict=True)]
        yield _arrow.RecordBatch.from_arrays(columns, schema=kind)


def _column(cells: Iterable[Any], kind: Any) -> Any:
    """Arrow takes pairs for a map."""
    return _arrow.array([list(c.items()) if hasattr(c, "items") else c for c in cells], kind)
