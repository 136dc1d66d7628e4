"""Penstock for asyncio: the same names as `penstock`, awaited.

async with penstock.aio.connect("sqlite:///app.db") as ps:
    await ps.queue("emails").send({"to": "ada@example.org"}, channel="customer-42")
"""

from penstock._async import AsyncChannel as Channel
from penstock._async import AsyncJoinedQueue as JoinedQueue
from penstock._async import AsyncMessage as Message
from penstock._async import AsyncPenstock as Penstock
from penstock._async import AsyncQueue as Queue
from penstock._async import AsyncSchedules as Schedules
from penstock._connect import connect_async as connect

__all__ = ["Channel", "JoinedQueue", "Message", "Penstock", "Queue", "Schedules", "connect"]
