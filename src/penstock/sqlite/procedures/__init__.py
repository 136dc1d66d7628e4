"""What each verb does: one procedure per verb, `(connection, verb, now_ms) -> outcome`.

A procedure runs inside a transaction that its caller opened, on a connection that nobody else
uses. It decides; every statement is in `sql/`. Those of `READS` change nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from penstock.sqlite._connection import Connection
from penstock.sqlite.procedures.look import (
    peek,
    policy_get,
    policy_list,
    queue_get,
    queue_list,
    stats,
    stats_of_channels,
)
from penstock.sqlite.procedures.policies import policy_set
from penstock.sqlite.procedures.queues import (
    purge,
    queue_create,
    queue_delete,
    queue_update,
    tend,
)
from penstock.sqlite.procedures.receive import receive
from penstock.sqlite.procedures.send import send
from penstock.sqlite.procedures.settle import ack, defer, extend, fail, release
from penstock.words.verbs import (
    Ack,
    Defer,
    Extend,
    Fail,
    Peek,
    PolicyGet,
    PolicyList,
    PolicySet,
    Purge,
    QueueCreate,
    QueueDelete,
    QueueGet,
    QueueList,
    QueueUpdate,
    Receive,
    Release,
    Send,
    Stats,
    StatsOfChannels,
    Tend,
    Verb,
)

Procedure = Callable[[Connection, Any, int], Any]

READS: Mapping[type[Verb[Any]], Procedure] = {
    Peek: peek,
    Stats: stats,
    StatsOfChannels: stats_of_channels,
    QueueGet: queue_get,
    QueueList: queue_list,
    PolicyGet: policy_get,
    PolicyList: policy_list,
}

WRITES: Mapping[type[Verb[Any]], Procedure] = {
    Send: send,
    Receive: receive,
    Ack: ack,
    Defer: defer,
    Fail: fail,
    Extend: extend,
    Release: release,
    Purge: purge,
    QueueCreate: queue_create,
    QueueUpdate: queue_update,
    QueueDelete: queue_delete,
    PolicySet: policy_set,
    Tend: tend,
}

QUIET: frozenset[type[Verb[Any]]] = frozenset((Receive, Extend, Tend))
"""Verbs that write, and yet are no news for a waiting receiver."""
