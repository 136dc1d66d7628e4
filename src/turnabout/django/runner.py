"""Calls tasks in a worker, one message after another in each thread."""
# pyright: basic
# (Django has no types)

from __future__ import annotations

import os
import socket
from typing import Any

import msgspec
from django.db import close_old_connections
from django.utils import timezone

from turnabout.django.api import (
    Status,
    TaskContext,
    TaskResultDoesNotExist,
    normalize_json,
    signals,
)
from turnabout.django.backend import TurnaboutBackend
from turnabout.django.results import UNKNOWN_WORKER, error_of, moment, new_result, settle, task_of
from turnabout.words.errors import TurnaboutError, UsageError
from turnabout.words.payload import JSON
from turnabout.words.records import Result
from turnabout.worker import Defer, GiveUp, Message, Worker
from turnabout.worker.endings import traceback_of


class TaskRunner:
    """A worker's handler for the tasks of a backend: Django's connections are as in a request."""

    def __init__(self, backend: TurnaboutBackend) -> None:
        self._backend = backend
        self._worker_id = f"{socket.gethostname()}:{os.getpid()}"

    def __call__(self, message: Message) -> Result | None:
        """Call the task of a message; what it raises decides what becomes of that."""
        close_old_connections()
        try:
            return self._run(message)
        finally:
            close_old_connections()

    def _run(self, message: Message) -> Result | None:
        result = self._result_of(message)
        task = result.task
        signals.task_started.send(type(self._backend), task_result=result)
        context = (TaskContext(task_result=result),) if task.takes_context else ()
        try:
            value = normalize_json(task.call(*context, *result.args, **result.kwargs))
        except BaseException as error:
            if _is_last(message, error):
                result.errors.append(error_of(traceback_of(error)))
                self._finished(result, status=Status.FAILED)
            raise
        self._finished(result, status=Status.SUCCESSFUL, _return_value=value)
        return None if value is None else Result(msgspec.json.encode(value), JSON)

    def _result_of(self, message: Message) -> Any:
        """The result, as its context has it. Raises: GiveUp: trying again won't help a message that
        names no task, or whose payload is not of one.
        """
        try:
            task = task_of(message.headers.get("task", ""))
            at, where = moment(message.sent_at), f"{message.queue.name}:{message.id}"
            result = new_result(task, where, self._backend.alias, message.json(), at)
        except TaskResultDoesNotExist as error:
            raise GiveUp(f"{error} (header `task`)") from error
        except (UsageError, KeyError, TypeError, ValueError) as error:
            why = f'the payload is not {{"args": […], "kwargs": {{…}}}}: {error!r}'
            raise GiveUp(why) from error
        result.worker_ids.extend([UNKNOWN_WORKER] * (message.attempt - 1) + [self._worker_id])
        now = timezone.now()
        return settle(result, status=Status.RUNNING, started_at=now, last_attempted_at=now)

    def _finished(self, result: Any, **values: Any) -> None:
        settle(result, finished_at=timezone.now(), **values)
        signals.task_finished.send(type(self._backend), task_result=result)


def _is_last(message: Message, error: BaseException) -> bool:
    """Whether the task has failed for good, which the queue's settings decide as they are now."""
    if isinstance(error, (Defer, GiveUp)):
        return isinstance(error, GiveUp)
    try:
        most = message.queue.settings().max_attempts
    except TurnaboutError:  # the database is away: the task's own error is what counts
        return False
    return most is not None and message.failures + message.crashes + 1 >= most


def worker_of(
    backend: TurnaboutBackend, queues: list[str], concurrency: int, **options: Any
) -> Worker:
    """A worker for some queues of a backend; options as of `Worker`."""
    backend.install()
    worker = Worker(backend.url, **options)
    for queue in queues:
        handler = worker.handler(queue, concurrency=concurrency, settings=backend.settings)
        handler(TaskRunner(backend))
    return worker
