"""Totals of queues, from their counters."""

from __future__ import annotations

import sqlite3

from turnabout.sqlite._connection import Connection
from turnabout.sqlite._statements import statements
from turnabout.words.administration import QueueTotals, Totals

_TOTALS = statements("totals")


def totals(connection: Connection, verb: Totals, now: int) -> tuple[QueueTotals, ...]:
    """Counts of queues, from their rows; the bytes of payloads if they are asked for."""
    step = "all" if verb.namespace is None else "of_namespace"
    parameters = {"namespace": verb.namespace, "now": now}
    found = connection.execute(_TOTALS[step], parameters).fetchall()
    return tuple(_totals(connection, row, now, measure=verb.bytes) for row in found)


def _totals(connection: Connection, row: sqlite3.Row, now: int, *, measure: bool) -> QueueTotals:
    heads = [row[name] for name in ("plain", "limited", "due") if row[name] is not None]
    size = None
    if measure:
        (size,) = connection.execute(_TOTALS["bytes"], {"queue": row["id"]}).fetchone()
    return QueueTotals(
        row["name"],
        row["sent"],
        row["done"],
        row["dead"],
        row["cancelled"] - row["expired"],
        row["expired"],
        max(0, now - min(heads)) if heads else None,
        row["ran_out"],
        size,
    )
