"""Functions as tasks: typed calls that a worker carries out, fair between channels.

    from turnabout.tasks import Retry, Tasks, chain

    tasks = Tasks("env:TURNABOUT_URL")

    @tasks.task(queue="emails", channel=lambda to, customer: customer,
                retry=Retry(on=(ConnectionError,), attempts=5))
    def send_email(to: str, customer: str) -> int: ...

    send_email.enqueue("ada@example.org", customer="acme").result(timeout_seconds=10)

`turnabout worker app:tasks` runs them. For asyncio: `AsyncTasks`, whose calls are awaited.
Functions may be of either kind in both.

`definition.py` and `arguments.py` say what a task is, `dispatch.py` calls it, `links.py` goes on
with a chain.
"""

from turnabout.tasks._async import AsyncHandle, AsyncTask, AsyncTasks
from turnabout.tasks._async import chain as chain_async
from turnabout.tasks._sync import Handle, Task, Tasks, chain
from turnabout.tasks.context import current
from turnabout.tasks.definition import CallOptions
from turnabout.tasks.errors import NotSent, TaskFailed
from turnabout.tasks.retry import RetryPolicy as Retry
from turnabout.worker import Defer, GiveUp, TryAgain

__all__ = [
    "AsyncHandle",
    "AsyncTask",
    "AsyncTasks",
    "CallOptions",
    "Defer",
    "GiveUp",
    "Handle",
    "NotSent",
    "Retry",
    "Task",
    "TaskFailed",
    "Tasks",
    "TryAgain",
    "chain",
    "chain_async",
    "current",
]
