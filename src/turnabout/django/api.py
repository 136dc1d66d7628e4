"""Django's interface for tasks: Django 6's own, or `django-tasks`, its backport, before that."""

from importlib import import_module
from importlib.util import find_spec
from typing import Any

PACKAGE = "django.tasks" if find_spec("django.tasks") else "django_tasks"
if find_spec(PACKAGE) is None:
    raise ImportError("before Django 6, tasks need a package: pip install 'django-tasks>=0.12'")

_base: Any = import_module(f"{PACKAGE}.base")
_exceptions: Any = import_module(f"{PACKAGE}.exceptions")
signals: Any = import_module(f"{PACKAGE}.signals")

BaseTaskBackend: Any = import_module(f"{PACKAGE}.backends.base").BaseTaskBackend
Task: Any = _base.Task
TaskContext: Any = _base.TaskContext
TaskError: Any = _base.TaskError
TaskResult: Any = _base.TaskResult
Status: Any = _base.TaskResultStatus
TaskException: Any = _exceptions.TaskException
TaskResultDoesNotExist: Any = _exceptions.TaskResultDoesNotExist
normalize_json: Any = _base.normalize_json
task_backends: Any = import_module(PACKAGE).task_backends
