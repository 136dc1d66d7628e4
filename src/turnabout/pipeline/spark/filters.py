"""Filters of rows: conditions on columns, names of queues, and Spark's own filters.

A condition means in SQL exactly what it means in Spark, nulls and all; what cannot be said so is
left to Spark. Nothing of Spark is imported: its filters are known by their fields.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, Final, Literal

from turnabout.pipeline.schema import INT, LONG, STRING, TIMESTAMP, Column
from turnabout.words.value import Value

Op = Literal[
    "=", "<>", "<", "<=", ">", ">=", "in", "not in", "is null", "is not null", "starts", "mod"
]

_COMPARED: Final[Mapping[str, tuple[Op, Op]]] = {
    "EqualTo": ("=", "<>"),
    "LessThan": ("<", ">="),
    "LessThanOrEqual": ("<=", ">"),
    "GreaterThan": (">", "<="),
    "GreaterThanOrEqual": (">=", "<"),
}
"""Spark's filters by the names of their classes, and each with a `Not` before it."""

IN_MAX: Final = 10_000
"""Values in a list; a longer one is left to Spark."""

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_BIGINT: Final = 2**63


class Condition(Value):
    """A column of a view, compared with a literal. Instants are integer milliseconds."""

    column: str
    op: Op
    operand: Any = None
    """A str or int; a tuple of them for `in`, and for `mod` of divisor and remainder; None for
    null checks."""


class Names(Value):
    """The rows that are wanted, by queue. A field that is None does not matter.

    namespace  of this one only (`""`: of queues without one)
    queues     stored names
    pattern    a regular expression for whole names: plain ones in a namespace, else stored ones
    globs      patterns of plain names, with `*` for any characters: what a token allows
    """

    namespace: str | None = None
    queues: tuple[str, ...] | None = None
    pattern: str | None = None
    globs: tuple[str, ...] | None = None

    def by_namespace(self) -> dict[str, list[str]]:
        """The queues that are named, by namespace, as plain names."""
        found: dict[str, list[str]] = {}
        for name in self.queues or ():
            namespace, slash, queue = name.rpartition("/")
            found.setdefault(namespace if slash else "", []).append(queue)
        return found

    def matches(self, namespace: str, queue: str) -> bool:
        """Whether the pattern matches; the rest is for SQL."""
        if self.pattern is None:
            return True
        name = queue if self.namespace is not None or not namespace else f"{namespace}/{queue}"
        return re.fullmatch(self.pattern, name, re.DOTALL) is not None


def pushed(
    filters: Iterable[Any], columns: Mapping[str, Column]
) -> tuple[list[Condition], list[Any]]:
    """Spark's filters as conditions, and those that stay with Spark."""
    taken: list[Condition] = []
    left: list[Any] = []
    for one in filters:
        condition = _condition(one, columns)
        if condition is None:
            left.append(one)
        else:
            taken.append(condition)
    return taken, left


def _condition(predicate: Any, columns: Mapping[str, Column]) -> Condition | None:
    """The same condition; None for what is not known or cannot be said to the letter."""
    negated = type(predicate).__name__ == "Not"
    plain = predicate.child if negated else predicate
    path: tuple[str, ...] = plain.attribute
    if len(path) != 1 or path[0] not in columns:
        return None
    column, kind, name = path[0], columns[path[0]], type(plain).__name__
    if name in ("IsNull", "IsNotNull"):
        is_null = (name == "IsNull") is not negated
        return Condition(column, "is null" if is_null else "is not null")
    if name in _COMPARED:
        return _compared(column, kind, _COMPARED[name][negated], plain.value)
    if name == "EqualNullSafe" and not negated:
        if plain.value is None:
            return Condition(column, "is null")
        return _compared(column, kind, "=", plain.value)
    if name == "In":
        return _listed(column, kind, plain.value, negated=negated)
    if name == "StringStartsWith" and not negated and kind is STRING and _fits(plain.value, kind):
        return Condition(column, "starts", plain.value)
    return None


def _compared(column: str, kind: Column, op: Op, operand: Any) -> Condition | None:
    if not _fits(operand, kind):
        return None
    if kind is not TIMESTAMP:
        return Condition(column, op, operand)
    # A column of milliseconds compared with microseconds: rounded to the side that is the same.
    micros = _micros(operand)
    if op in ("=", "<>") and micros % 1000:
        return None
    up = op in (">=", "<")
    return Condition(column, op, -(-micros // 1000) if up else micros // 1000)


def _listed(column: str, kind: Column, operands: Any, *, negated: bool) -> Condition | None:
    values = tuple(operands)
    if not 1 <= len(values) <= IN_MAX or not all(_fits(one, kind) for one in values):
        return None
    if kind is TIMESTAMP:
        micros = [_micros(one) for one in values]
        if any(one % 1000 for one in micros):
            return None
        values = tuple(one // 1000 for one in micros)
    return Condition(column, "not in" if negated else "in", values)


def _fits(operand: Any, kind: Column) -> bool:
    """Whether the databases compare such a literal with the column as Spark does."""
    if kind is STRING:
        return isinstance(operand, str) and "\x00" not in operand
    if kind in (INT, LONG):
        is_int = isinstance(operand, int) and not isinstance(operand, bool)
        return is_int and -_BIGINT <= operand < _BIGINT
    # Without an offset it is a local time, not an instant.
    return kind is TIMESTAMP and isinstance(operand, datetime) and operand.tzinfo is not None


def _micros(when: datetime) -> int:
    return (when - _EPOCH) // timedelta(microseconds=1)
