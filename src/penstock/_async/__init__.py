"""The face for asyncio. `_sync`, the blocking one, is generated from it by `tools/unasync.py`.

Each method makes a verb, has the store run it, and gives back the outcome. Checks of arguments
live in `words.limits`; what a verb means lives in the stores. No method decides anything else.
"""

from penstock._async.channel import AsyncChannel
from penstock._async.joined import AsyncJoinedQueue
from penstock._async.message import AsyncMessage
from penstock._async.penstock import AsyncPenstock
from penstock._async.queue import AsyncQueue
from penstock._async.schedules import AsyncSchedules

__all__ = [
    "AsyncChannel",
    "AsyncJoinedQueue",
    "AsyncMessage",
    "AsyncPenstock",
    "AsyncQueue",
    "AsyncSchedules",
]
