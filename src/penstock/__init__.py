"""Penstock: a fair, multi-tenant message queue that lives in the database you already run.

    import penstock

    with penstock.connect("sqlite:///app.db") as ps:
        emails = ps.queue("emails")
        emails.send({"to": "ada@example.org"}, channel="customer-42")
        for message in emails.receive(max_messages=10):
            print(message.json(), message.channel)
            message.ack()

The same names for asyncio are in `penstock.aio`. Importing this loads the standard library only.
"""

from penstock._connect import connect
from penstock._sync import Channel, JoinedQueue, Message, Penstock, Queue, Schedules
from penstock.words.batch import Batch
from penstock.words.entities import (
    ChannelPolicy,
    ChannelStats,
    Deferral,
    Delivery,
    Failure,
    Origin,
    Outgoing,
    Peeked,
    QueueEntry,
    QueueStats,
    Receipt,
)
from penstock.words.errors import (
    BrokenInvariant,
    Busy,
    Disconnected,
    Forbidden,
    PenstockError,
    QueueNotFound,
    QuotaExceeded,
    StorageFull,
    TooManyRequests,
    Unauthorized,
    Unavailable,
    Uncertain,
    UsageError,
    WrongVersion,
)
from penstock.words.outcomes import (
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
from penstock.words.policy import Policy, QueueSettings, Rate
from penstock.words.prepare import outgoing as message
from penstock.words.records import (
    Ending,
    Event,
    HistoryEntry,
    HistoryPage,
    Redrive,
    RedriveFilter,
    Result,
)
from penstock.words.schedules import Schedule, ScheduledMessage, ScheduleEntry

__version__ = "0.1.0"

__all__ = [
    "Acked",
    "AlreadyExists",
    "Batch",
    "Blocked",
    "BrokenInvariant",
    "Busy",
    "CancelRequested",
    "Cancelled",
    "Channel",
    "ChannelFull",
    "ChannelPolicy",
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
    "Forbidden",
    "HistoryEntry",
    "HistoryPage",
    "JoinedQueue",
    "LeaseLost",
    "Message",
    "NotWaiting",
    "Origin",
    "Outgoing",
    "Peeked",
    "Penstock",
    "PenstockError",
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
    "Unauthorized",
    "Unavailable",
    "Uncertain",
    "UsageError",
    "WrongVersion",
    "connect",
    "message",
]
