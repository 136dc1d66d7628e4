"""Leases by the batch: an SQLite file gives none, as executors can't reach it."""

from __future__ import annotations

from typing import NoReturn

from turnabout.pipeline import verbs as p
from turnabout.sqlite._connection import Connection


def subscription_open(_connection: Connection, _verb: p.SubscriptionOpen, _now: int) -> NoReturn:
    """Refused, and with it all that a reader would go on with."""
    raise p.needs_postgresql("a stream of leases")


epoch_lease = epoch_plan = epoch_extend = subscription_open


def subscription_release(_connection: Connection, _verb: p.SubscriptionRelease, _now: int) -> int:
    """Nothing is held."""
    return 0


def subscription_list(
    _connection: Connection, _verb: p.SubscriptionList, _now: int
) -> tuple[p.Subscription, ...]:
    """Refuse: SQLite has no such streams."""
    return ()
