"""Turnabout: a fair, multi-tenant message queue that lives in the database you already run.

    import turnabout

    with turnabout.connect("sqlite:///app.db") as mq:
        emails = mq.queue("emails")
        emails.send({"to": "ada@example.org"}, channel="customer-42")
        for message in emails.receive(max_messages=10):
            print(message.json(), message.channel)
            message.ack()

The same names for asyncio are in `turnabout.aio`. Importing this loads the standard library only.
"""

from turnabout._connect import connect
from turnabout._sync import Channel, JoinedQueue, Message, Queue, Schedules, Turnabout
from turnabout.words.batch import Batch
from turnabout.words.entities import (
    AttemptError,
    ChannelPolicy,
    ChannelStats,
    Deferral,
    Delivery,
    Failure,
    Note,
    Origin,
    Outgoing,
    Peeked,
    QueueEntry,
    QueueStats,
    Receipt,
)
from turnabout.words.errors import (
    BrokenInvariant,
    Busy,
    Disconnected,
    Forbidden,
    QueueNotFound,
    QuotaExceeded,
    Refused,
    StorageFull,
    TooManyRequests,
    TurnaboutError,
    Unauthorized,
    Unavailable,
    Uncertain,
    UsageError,
    WrongVersion,
)
from turnabout.words.fairness import ChannelShare, FairShares
from turnabout.words.outcomes import (
    Acked,
    AlreadyExists,
    Blocked,
    Cancelled,
    CancelRequested,
    ChannelFull,
    Cleared,
    Created,
    Dead,
    Deferred,
    Deleted,
    Extended,
    LeaseLost,
    NotWaiting,
    Purged,
    QueueFull,
    Released,
    Retried,
    Retrying,
    Sent,
)
from turnabout.words.policy import Policy, QueueSettings, Rate
from turnabout.words.prepare import outgoing as message
from turnabout.words.records import (
    Ending,
    Event,
    HistoryEntry,
    HistoryPage,
    Redrive,
    RedriveFilter,
    Result,
)
from turnabout.words.schedules import Schedule, ScheduledMessage, ScheduleEntry
from turnabout.words.workers import LeasedMessage, WorkerEntry, WorkerState

__version__ = "0.1.0"

__all__ = [
    "Acked",
    "AlreadyExists",
    "AttemptError",
    "Batch",
    "Blocked",
    "BrokenInvariant",
    "Busy",
    "CancelRequested",
    "Cancelled",
    "Channel",
    "ChannelFull",
    "ChannelPolicy",
    "ChannelShare",
    "ChannelStats",
    "Cleared",
    "Created",
    "Dead",
    "Deferral",
    "Deferred",
    "Deleted",
    "Delivery",
    "Disconnected",
    "Ending",
    "Event",
    "Extended",
    "Failure",
    "FairShares",
    "Forbidden",
    "HistoryEntry",
    "HistoryPage",
    "JoinedQueue",
    "LeaseLost",
    "LeasedMessage",
    "Message",
    "NotWaiting",
    "Note",
    "Origin",
    "Outgoing",
    "Peeked",
    "Policy",
    "Purged",
    "Queue",
    "QueueEntry",
    "QueueFull",
    "QueueNotFound",
    "QueueSettings",
    "QueueStats",
    "QuotaExceeded",
    "Rate",
    "Receipt",
    "Redrive",
    "RedriveFilter",
    "Refused",
    "Released",
    "Result",
    "Retried",
    "Retrying",
    "Schedule",
    "ScheduleEntry",
    "ScheduledMessage",
    "Schedules",
    "Sent",
    "StorageFull",
    "TooManyRequests",
    "Turnabout",
    "TurnaboutError",
    "Unauthorized",
    "Unavailable",
    "Uncertain",
    "UsageError",
    "WorkerEntry",
    "WorkerState",
    "WrongVersion",
    "connect",
    "message",
]
