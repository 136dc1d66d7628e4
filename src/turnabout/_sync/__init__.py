"""For blocking callers. Generated from `_async/__init__.py` by `tools/unasync.py`: do not edit."""

from turnabout._sync.channel import Channel
from turnabout._sync.queue import JoinedQueue, Message, Queue
from turnabout._sync.schedules import Schedules
from turnabout._sync.turnabout import Turnabout

__all__ = [
    "Channel",
    "JoinedQueue",
    "Message",
    "Queue",
    "Schedules",
    "Turnabout",
]
