"""Tasks for asyncio: what enqueues is awaited. `_sync` is generated from it."""

from turnabout.tasks._async.app import AsyncTasks
from turnabout.tasks._async.task import AsyncHandle, AsyncStep, AsyncTask, chain

__all__ = ["AsyncHandle", "AsyncStep", "AsyncTask", "AsyncTasks", "chain"]
