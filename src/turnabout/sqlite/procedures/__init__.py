"""What each verb does: one procedure per verb, `(connection, verb, now_ms) -> outcome`.

A procedure runs inside a transaction that its caller opened, on a connection that nobody else
uses. It decides; every statement is in `sql/`. Those of `READS` change nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

from turnabout import slices
from turnabout.sqlite._connection import Connection
from turnabout.sqlite.procedures.credentials import (
    namespace_delete,
    namespace_list,
    namespace_set,
    token_create,
    token_find,
    token_list,
    token_revoke,
    totals,
)
from turnabout.sqlite.procedures.endings import clear, endings, history
from turnabout.sqlite.procedures.events import events
from turnabout.sqlite.procedures.look import (
    peek,
    policy_get,
    policy_list,
    queue_get,
    queue_list,
    stats,
    stats_of_channels,
)
from turnabout.sqlite.procedures.messages import cancel, retry
from turnabout.sqlite.procedures.policies import channel_delete, policy_set
from turnabout.sqlite.procedures.queues import (
    purge,
    queue_create,
    queue_delete,
    queue_update,
)
from turnabout.sqlite.procedures.receive import receive
from turnabout.sqlite.procedures.redrives import (
    redrive_cancel,
    redrive_list,
    redrive_start,
    redrive_step,
)
from turnabout.sqlite.procedures.schedules import (
    schedule_delete,
    schedule_fire,
    schedule_list,
    schedule_set,
)
from turnabout.sqlite.procedures.send import repeats, send
from turnabout.sqlite.procedures.settle import ack, defer, extend, fail, release
from turnabout.sqlite.procedures.tending import tend
from turnabout.words.credentials import (
    NamespaceDelete,
    NamespaceList,
    NamespaceSet,
    Repeats,
    TokenCreate,
    TokenFind,
    TokenList,
    TokenRevoke,
    Totals,
)
from turnabout.words.verbs import (
    Ack,
    Cancel,
    ChannelDelete,
    Clear,
    Defer,
    Endings,
    Events,
    Extend,
    Fail,
    History,
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
    RedriveCancel,
    RedriveList,
    RedriveStart,
    RedriveStep,
    Release,
    Retry,
    ScheduleDelete,
    ScheduleFire,
    ScheduleList,
    ScheduleSet,
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
    Endings: endings,
    History: history,
    Events: events,
    RedriveList: redrive_list,
    ScheduleList: schedule_list,
    NamespaceList: namespace_list,
    TokenFind: token_find,
    TokenList: token_list,
    Totals: totals,
    Repeats: repeats,
}

WRITES: Mapping[type[Verb[Any]], Procedure] = {
    Send: send,
    Receive: receive,
    Ack: ack,
    Defer: defer,
    Fail: fail,
    Extend: extend,
    Release: release,
    Cancel: cancel,
    Retry: retry,
    Clear: clear,
    RedriveStart: redrive_start,
    RedriveStep: redrive_step,
    RedriveCancel: redrive_cancel,
    ScheduleSet: schedule_set,
    ScheduleDelete: schedule_delete,
    ScheduleFire: schedule_fire,
    Purge: purge,
    QueueCreate: queue_create,
    QueueUpdate: queue_update,
    QueueDelete: queue_delete,
    PolicySet: policy_set,
    ChannelDelete: channel_delete,
    Tend: tend,
    NamespaceSet: namespace_set,
    NamespaceDelete: namespace_delete,
    TokenCreate: token_create,
    TokenRevoke: token_revoke,
}

NEWS = frozenset(WRITES) - {
    *(Receive, Extend, Tend, Clear),
    *(RedriveStep, RedriveCancel, ScheduleSet, ScheduleDelete, ScheduleFire),
    *(NamespaceSet, NamespaceDelete, TokenCreate, TokenRevoke),
}
"""Verbs that are news of their queue for who waits. What others ended or moved all the same, they
say in the connection's `news`."""


@cache
def of_slices(table: str) -> Mapping[type[Verb[Any]], Procedure]:
    """`READS` or `WRITES` of all slices: their procedures for verbs that the core doesn't know."""
    return slices.merged("sqlite", table)
