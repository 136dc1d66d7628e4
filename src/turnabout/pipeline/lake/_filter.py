"""Filters of an archive's rows, and reading them by DuckDB."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from turnabout.pipeline.lake._files import ROWS
from turnabout.pipeline.lake._storage import Storage
from turnabout.words.value import Value


class Filter(Value):
    """Rows that finished from `since` and before `until` (milliseconds), of these namespaces,
    queues, channels, outcomes and ids. None: any.
    """

    since: int | None = None
    until: int | None = None
    namespace: str | None = None
    queues: tuple[str, ...] | None = None
    channels: tuple[str, ...] | None = None
    outcomes: tuple[str, ...] | None = None
    ids: tuple[int, ...] | None = None


_WHOLE = "concat_ws('/', nullif(namespace, ''), queue)"
_INSTANT = "epoch_ms(finished_at)"


def matched(connection: Any, table: Storage, paths: Sequence[str], filter_: Filter) -> Any:
    """A relation of DuckDB's connection: those rows of the files that the filter lets pass. Nothing
    is read before it is asked for.
    """
    from pyarrow import dataset

    arrow: Any = dataset
    rows = arrow.dataset(list(paths), schema=ROWS, filesystem=table.files(), format="parquet")
    connection.execute("set timezone = 'UTC'")
    connection.register("archived", rows)
    queue = _WHOLE if filter_.namespace is None else "queue"
    wanted = {
        f"list_contains($queues, {queue})": ("queues", filter_.queues),
        "list_contains($channels, channel)": ("channels", filter_.channels),
        "list_contains($outcomes, outcome)": ("outcomes", filter_.outcomes),
        "list_contains($ids, message_id)": ("ids", filter_.ids),
        f"{_INSTANT} >= $since": ("since", filter_.since),
        f"{_INSTANT} < $until": ("until", filter_.until),
        "namespace = $namespace": ("namespace", filter_.namespace),
    }
    conditions = {text: one for text, one in wanted.items() if one[1] is not None}
    where = " and ".join(conditions) or "true"
    values = {name: list(v) if isinstance(v, tuple) else v for name, v in conditions.values()}
    text = f"select * from archived where {where}"  # noqa: S608 - conditions of ours, values bound
    return connection.sql(text, params=values or None)
