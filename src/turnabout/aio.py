"""Turnabout for asyncio: the same names as `turnabout`, awaited.

async with turnabout.aio.connect("sqlite:///app.db") as mq:
    await mq.queue("emails").send({"to": "ada@example.org"}, channel="customer-42")
"""

from turnabout._async import AsyncChannel as Channel
from turnabout._async import AsyncJoinedQueue as JoinedQueue
from turnabout._async import AsyncMessage as Message
from turnabout._async import AsyncQueue as Queue
from turnabout._async import AsyncSchedules as Schedules
from turnabout._async import AsyncTurnabout as Turnabout
from turnabout._connect import connect_async as connect

__all__ = ["Channel", "JoinedQueue", "Message", "Queue", "Schedules", "Turnabout", "connect"]
