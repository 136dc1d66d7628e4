"""Results of tasks: from messages that wait or are leased, or from the history."""
# pyright: basic
# (Django has no types)

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import Any

from django.conf import settings
from django.utils import timezone
from django.utils.module_loading import import_string

from turnabout import Turnabout
from turnabout.django.api import Status, Task, TaskError, TaskResult, TaskResultDoesNotExist
from turnabout.words import limits
from turnabout.words.entities import Peeked
from turnabout.words.errors import QueueNotFound, UsageError
from turnabout.words.records import HistoryEntry

UNKNOWN_WORKER = "?"
"""Stands for each worker that a task was handed to: which ones they were is not kept."""

_FRAMES = re.compile(r"^(  .*\n)+", re.MULTILINE)
_RAISED = re.compile(r"^([A-Za-z_][\w.<>]*)(: |$)", re.MULTILINE)


class TaskStopped(Exception):
    """The exception class named by a result whose task raised nothing: it was cancelled or
    expired, or its workers crashed.
    """


def result_of(mq: Turnabout, backend: str, result_id: str) -> Any:
    """The result with that id. Raises: TaskResultDoesNotExist, which says why."""
    queue, _, number = result_id.rpartition(":")
    try:
        id_ = limits.whole(int(number), "an id", 1, limits.ID_MAX)
        message = waiting(mq, queue, id_) or ended(mq, queue, id_)
    except (QueueNotFound, UsageError, ValueError):
        message = None
    if message is None:
        raise TaskResultDoesNotExist(f"there is no task {result_id!r}, or no more")
    if message.payload is None:
        raise TaskResultDoesNotExist(
            f"the arguments of {result_id} were not kept: its queue needs history_payload=True"
        )
    body, path = message.json(), (message.headers or {}).get("task", "")
    made = new_result(task_of(path), result_id, backend, body, moment(message.sent_at))
    made.worker_ids.extend([UNKNOWN_WORKER] * message.attempt)
    if isinstance(message, Peeked):
        status = Status.RUNNING if message.state == "leased" else Status.READY
        made.errors.extend(error_of(one.error) for one in message.errors)
        return settle(made, status=status)
    letter = dead_letter(mq, queue, id_) if message.outcome == "dead" else None
    kept = letter.origin.errors if letter and letter.origin else ()
    texts = [one.error for one in kept] or [message.error]
    made.errors.extend(error_of(text) for text in texts if text)
    if message.outcome in ("cancelled", "expired") or message.crashes:
        why = f"outcome: {message.outcome}; attempts whose lease ran out: {message.crashes}"
        made.errors.append(_error("turnabout.django.TaskStopped", why))
    at = moment(message.leased_at)
    return settle(
        made,
        status=Status.SUCCESSFUL if message.outcome == "done" else Status.FAILED,
        started_at=at,
        last_attempted_at=at,
        finished_at=moment(message.finished_at),
        _return_value=message.result and message.result.json(),
    )


def waiting(mq: Turnabout, queue: str, id_: int) -> Peeked | None:
    """A message that has not ended in that queue."""
    some = mq.queue(queue).peek(1, after_id=id_ - 1)
    return next((one for one in some if one.id == id_), None)


def ended(mq: Turnabout, queue: str, id_: int) -> HistoryEntry | None:
    """The history's entry of a message. The history is asked by time, so: by its millisecond."""
    (ending,) = mq.queue(queue).endings([id_])
    if ending is None or ending.finished_at is None:
        return None
    entries = mq.queue(queue).history_entries(
        finished_from=ending.finished_at, finished_until=ending.finished_at + 1
    )
    return next((one for one in entries if one.id == id_), None)


def dead_letter(mq: Turnabout, queue: str, id_: int) -> Peeked | None:
    """A message that has died in a queue, while it is in the dead-letter queue of that."""
    try:
        return waiting(mq, dead_letters_of(mq, queue), id_)
    except QueueNotFound:
        return None


def dead_letters_of(mq: Turnabout, queue: str) -> str:
    """The name of a queue's dead-letter queue."""
    return mq.queue(queue).settings().dead_letter or f"{queue}{limits.DEAD_SUFFIX}"


def new_result(task: Any, result_id: str, backend: str, body: Any, sent_at: Any) -> Any:
    """A result that waits, for a call `{"args": […], "kwargs": {…}}`."""
    return TaskResult(
        task=task,
        id=result_id,
        status=Status.READY,
        enqueued_at=sent_at,
        started_at=None,
        finished_at=None,
        last_attempted_at=None,
        args=list(body["args"]),
        kwargs=dict(body["kwargs"]),
        backend=backend,
        errors=[],
        worker_ids=[],
    )


def settle(result: Any, **values: Any) -> Any:
    """The result with these values. It is frozen for its readers, and set like this by Django."""
    for name, value in values.items():
        object.__setattr__(result, name, value)
    return result


def task_of(path: str) -> Any:
    """The task that a message's header names. Raises: TaskResultDoesNotExist."""
    try:
        found = import_string(path)
    except ImportError as error:
        raise TaskResultDoesNotExist(f"the task {path!r} can't be imported: {error}") from error
    if not isinstance(found, Task):
        raise TaskResultDoesNotExist(f"{path} is not a task: it needs Django's @task")
    return found


def moment(ms: int | None) -> datetime | None:
    """An instant of the database's as Django has it."""
    at = None if ms is None else datetime.fromtimestamp(ms / 1000, UTC)
    return at if at is None or settings.USE_TZ else timezone.make_naive(at)


def error_of(text: str) -> Any:
    """An error by its kept text: a traceback, or what the task gave up with."""
    frames = list(_FRAMES.finditer(text))
    raised = _RAISED.search(text, frames[-1].end()) if frames else None
    if raised is None:
        return _error("turnabout.worker.GiveUp", text)
    return _error(raised[1] if "." in raised[1] else f"builtins.{raised[1]}", text)


def _error(path: str, text: str) -> Any:
    return TaskError(exception_class_path=path, traceback=text)
