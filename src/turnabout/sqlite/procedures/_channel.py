"""Steps on the rows of limited channels that many procedures share.

A channel has a row if it has, or had, a policy, or its queue is FIFO or has a default policy.
While it has one, its leased messages are marked `limited`, and the row counts what is in it.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable, Mapping
from typing import Any, cast

from turnabout.sqlite._connection import Connection
from turnabout.sqlite._statements import statements
from turnabout.sqlite.procedures._queue import Queue
from turnabout.words.policy import Policy, own_policy_of

SQL = statements("channel")


def policy(row: sqlite3.Row) -> Policy:
    """The channel's own policy in its row."""
    return own_policy_of(cast("Mapping[str, Any]", row))


class ChannelChanges:
    """Changes of a queue's channels: how many messages and leases more or fewer."""

    __slots__ = ("_counts",)

    def __init__(self) -> None:
        self._counts: dict[str, list[int]] = {}

    def add(self, channel: str, *, size: int = 0, leased: int = 0) -> None:
        counts = self._counts.get(channel)
        if counts is None:
            self._counts[channel] = [size, leased]
        else:
            counts[0] += size
            counts[1] += leased

    def write(self, connection: Connection, queue: int) -> None:
        """Add the counts to existing rows, and wake their channels."""
        if self._counts:
            connection.executemany(
                SQL["change"],
                [(size, leased, queue, name) for name, (size, leased) in self._counts.items()],
            )


def rows(connection: Connection, queue: int, names: Iterable[str]) -> dict[str, sqlite3.Row]:
    """The rows of these channels, by name; most have none."""
    found = connection.execute(
        SQL["rows"], {"queue": queue, "names": json.dumps(list(names), ensure_ascii=False)}
    )
    return {row["name"]: row for row in found}


def limited(connection: Connection, queue: Queue, names: Iterable[str]) -> dict[str, sqlite3.Row]:
    """The rows of those of these channels that are limited. Missing ones are made."""
    everything = queue["is_limited"]
    if not everything and not queue["has_channels"]:
        return {}
    names = set(names)
    found = rows(connection, queue["id"], names)
    missing = names - found.keys() if everything else ()
    if missing:
        for name in missing:
            add(connection, queue["id"], name)
        found |= rows(connection, queue["id"], missing)
    return found


def add(connection: Connection, queue: int, name: str) -> None:
    """A channel becomes limited: what it holds already is counted, once."""
    parameters = {"queue": queue, "name": name}
    connection.execute(SQL["adopt_leases"], parameters)
    connection.execute(SQL["add"], parameters)
