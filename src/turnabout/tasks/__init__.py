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

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from turnabout.tasks.public import (
        AsyncHandle as AsyncHandle,
    )
    from turnabout.tasks.public import (
        AsyncTask as AsyncTask,
    )
    from turnabout.tasks.public import (
        AsyncTasks as AsyncTasks,
    )
    from turnabout.tasks.public import (
        CallOptions as CallOptions,
    )
    from turnabout.tasks.public import (
        Defer as Defer,
    )
    from turnabout.tasks.public import (
        GiveUp as GiveUp,
    )
    from turnabout.tasks.public import (
        Handle as Handle,
    )
    from turnabout.tasks.public import (
        NotSent as NotSent,
    )
    from turnabout.tasks.public import (
        Pause as Pause,
    )
    from turnabout.tasks.public import (
        Retry as Retry,
    )
    from turnabout.tasks.public import (
        Task as Task,
    )
    from turnabout.tasks.public import (
        TaskFailed as TaskFailed,
    )
    from turnabout.tasks.public import (
        Tasks as Tasks,
    )
    from turnabout.tasks.public import (
        TryAgain as TryAgain,
    )
    from turnabout.tasks.public import (
        chain as chain,
    )
    from turnabout.tasks.public import (
        chain_async as chain_async,
    )
    from turnabout.tasks.public import (
        current as current,
    )


def __getattr__(name: str) -> Any:
    """Late: the core looks at each slice, and loads none (see `turnabout.slices`)."""
    if name.startswith("_"):
        raise AttributeError(name)
    return getattr(import_module("turnabout.tasks.public"), name)
