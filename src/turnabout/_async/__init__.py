"""The face for asyncio. `_sync`, the blocking one, is generated from it by `tools/unasync.py`.

Each method makes a verb, has the store run it, and gives back the outcome. Checks of arguments
live in `words.limits`; what a verb means lives in the stores. No method decides anything else.
"""

from turnabout._async.channel import AsyncChannel
from turnabout._async.queue import AsyncJoinedQueue, AsyncMessage, AsyncQueue
from turnabout._async.schedules import AsyncSchedules
from turnabout._async.turnabout import AsyncTurnabout

__all__ = [
    "AsyncChannel",
    "AsyncJoinedQueue",
    "AsyncMessage",
    "AsyncQueue",
    "AsyncSchedules",
    "AsyncTurnabout",
]
