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
from penstock._sync import Channel, Message, Penstock, Queue
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
    StorageFull,
    Unavailable,
    Uncertain,
    UsageError,
    WrongVersion,
)
from penstock.words.outcomes import (
    Acked,
    AlreadyExists,
    ChannelFull,
    Created,
    Dead,
    Deferred,
    Deleted,
    Extended,
    LeaseLost,
    Purged,
    Released,
    Retrying,
    Sent,
)
from penstock.words.policy import Policy, QueueSettings, Rate
from penstock.words.prepare import outgoing as message

__version__ = "0.1.0"

__all__ = [
    "Acked",
    "AlreadyExists",
    "Batch",
    "BrokenInvariant",
    "Busy",
    "Channel",
    "ChannelFull",
    "ChannelPolicy",
    "ChannelStats",
    "Created",
    "Dead",
    "Deferral",
    "Deferred",
    "Deleted",
    "Delivery",
    "Disconnected",
    "Extended",
    "Failure",
    "Forbidden",
    "LeaseLost",
    "Message",
    "Origin",
    "Outgoing",
    "Peeked",
    "Penstock",
    "PenstockError",
    "Policy",
    "Purged",
    "Queue",
    "QueueEntry",
    "QueueNotFound",
    "QueueSettings",
    "QueueStats",
    "Rate",
    "Receipt",
    "Released",
    "Retrying",
    "Sent",
    "StorageFull",
    "Unavailable",
    "Uncertain",
    "UsageError",
    "WrongVersion",
    "connect",
    "message",
]
