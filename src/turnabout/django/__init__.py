"""Django's tasks on Turnabout: committed with your rows, fair between channels, retried.

    INSTALLED_APPS += ["turnabout.django"]
    TASKS = {"default": {"BACKEND": "turnabout.django.TurnaboutBackend"}}

`manage.py migrate` brings the schema, `manage.py turnabout_worker` runs the tasks, and the admin
lists messages. With Django 6 the tasks are Django's own, before it those of `django-tasks`.

`backend.py` enqueues, `results.py` reads how a task stands, `runner.py` calls it in a worker,
`places.py` finds the database and prepares it, `admin.py` and `listing.py` are the admin's.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from turnabout.django.backend import TaskNotEnqueued as TaskNotEnqueued
    from turnabout.django.backend import TurnaboutBackend as TurnaboutBackend
    from turnabout.django.channels import channel as channel
    from turnabout.django.results import TaskStopped as TaskStopped

_MODULES = {
    "TaskNotEnqueued": "backend",
    "TaskStopped": "results",
    "TurnaboutBackend": "backend",
    "channel": "channels",
}


def __getattr__(name: str) -> Any:
    """Late: Django looks at the package before its apps are ready, and the core at each slice."""
    if name not in _MODULES:
        raise AttributeError(name)
    return getattr(import_module(f"turnabout.django.{_MODULES[name]}"), name)
