"""The public names of `turnabout.tasks`; loaded on first use."""

from turnabout.tasks._async import AsyncHandle, AsyncTask, AsyncTasks
from turnabout.tasks._async import chain as chain_async
from turnabout.tasks._sync import Handle, Task, Tasks, chain
from turnabout.tasks.context import current
from turnabout.tasks.definition import CallOptions
from turnabout.tasks.errors import NotSent, TaskFailed
from turnabout.tasks.retry import RetryPolicy as Retry
from turnabout.worker import Defer, GiveUp, Pause, TryAgain

__all__ = [
    "AsyncHandle",
    "AsyncTask",
    "AsyncTasks",
    "CallOptions",
    "Defer",
    "GiveUp",
    "Handle",
    "NotSent",
    "Pause",
    "Retry",
    "Task",
    "TaskFailed",
    "Tasks",
    "TryAgain",
    "chain",
    "chain_async",
    "current",
]
