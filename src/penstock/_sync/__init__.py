"""The blocking face. Generated from `_async/__init__.py` by `tools/unasync.py`: do not edit."""

from penstock._sync.channel import Channel
from penstock._sync.joined import JoinedQueue
from penstock._sync.message import Message
from penstock._sync.penstock import Penstock
from penstock._sync.queue import Queue
from penstock._sync.schedules import Schedules

__all__ = [
    "Channel",
    "JoinedQueue",
    "Message",
    "Penstock",
    "Queue",
    "Schedules",
]
