"""A step of a store's schema, and how far a database has come."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Migration:
    """One numbered step; steps run in order, each in a transaction, each once."""

    number: int
    name: str
    sql: str


@dataclass(frozen=True, slots=True)
class SchemaStatus:
    """current: the last step that ran (0: none); wanted: the library's last step."""

    current: int
    wanted: int
    pending: tuple[str, ...]
