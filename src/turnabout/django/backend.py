"""The backend of Django's tasks: what is enqueued in `atomic()` commits or rolls back with it."""
# pyright: basic
# (Django has no types)

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from datetime import datetime
from functools import partial
from typing import Any

from django.core import checks
from django.core.exceptions import ImproperlyConfigured
from django.db import DEFAULT_DB_ALIAS, connections, transaction
from django.utils import timezone
from django.utils.module_loading import import_string

import turnabout
from turnabout.django.api import BaseTaskBackend, TaskException, normalize_json, signals
from turnabout.django.channels import channel_of
from turnabout.django.places import close_all, is_in_memory, opened, url_of
from turnabout.django.results import new_result, result_of
from turnabout.words import limits
from turnabout.words.entities import Outgoing
from turnabout.words.errors import QueueNotFound, UsageError
from turnabout.words.outcomes import ChannelFull, QueueFull, SendOutcome
from turnabout.words.policy import QueueSettings

OPTIONS = {"channel", "database", "settings", "url"}

_there: set[tuple[str, str]] = set()
"""Queues that were there when this process last looked, by URL."""


class TaskNotEnqueued(TaskException):
    """The task's channel or queue is full, and nothing was sent. `outcome` says which."""

    def __init__(self, task: str, outcome: ChannelFull | QueueFull) -> None:
        super().__init__(f"the task {task} was not enqueued: {outcome}")
        self.outcome = outcome


class TurnaboutBackend(BaseTaskBackend):
    """Enqueues tasks as messages, in the database of the rows that they are about.

    OPTIONS:
    database: the alias of the database where the queues live, and whose transactions are joined.
    url:      where they live instead; without `database`, no transaction is joined.
    channel:  a function of (task, args, kwargs) that gives the channel, or its dotted path, for
              tasks without a rule of their own (`turnabout.django.channel`).
    settings: of queues that are missing; fields of `QueueSettings`, such as max_attempts.
    """

    supports_defer = supports_async_task = supports_get_result = supports_priority = True

    def __init__(self, alias: str, params: dict[str, Any]) -> None:
        super().__init__(alias, params)
        if unknown := sorted(self.options.keys() - OPTIONS):
            raise ImproperlyConfigured(
                f"TASKS[{alias!r}] has unknown OPTIONS: {', '.join(unknown)}; there are "
                + ", ".join(sorted(OPTIONS))
            )
        self._url: str | None = self.options.get("url")
        default = None if self._url else DEFAULT_DB_ALIAS
        self.database: str | None = self.options.get("database", default)
        # Results are told with their arguments, which history has once a task has ended.
        self.settings = {"history_payload": True, **self.options.get("settings", {})}
        rule = self.options.get("channel")
        self._channel: Callable[..., str] | None = (
            import_string(rule) if isinstance(rule, str) else rule
        )

    @property
    def url(self) -> str:
        """The queues' database. Looked up each time, as tests have databases of their own."""
        return self._url or url_of(connections[self.database])

    @property
    def connection(self) -> turnabout.Turnabout:
        """Turnabout itself: to pause a channel, look into a dead-letter queue, set a schedule."""
        return opened(self.url)

    def enqueue(self, task: Any, args: Sequence[Any], kwargs: Any) -> Any:
        """Send a task. Raises: TaskNotEnqueued where its channel or queue is full."""
        self.validate_task(task)
        body = normalize_json({"args": list(args), "kwargs": kwargs})
        message = turnabout.message(
            body,
            channel=channel_of(task, args, kwargs, self._channel),
            priority=-task.priority,  # Django's higher ones are sooner, ours later
            due_at=_instant(task.run_after),
            headers={"task": task.module_path},
        )
        outcome = self._send(task.queue_name, message)
        if isinstance(outcome, (ChannelFull, QueueFull)):
            raise TaskNotEnqueued(task.module_path, outcome)
        where = f"{task.queue_name}:{outcome.ids[0]}"
        result = new_result(task, where, self.alias, body, timezone.now())
        signals.task_enqueued.send(type(self), task_result=result)
        return result

    def _send(self, name: str, message: Outgoing) -> SendOutcome:
        queue = self.connection.queue(name)
        mine: Any = None if self.database is None else connections[self.database]
        is_open = mine and (mine.in_atomic_block or not mine.get_autocommit())
        # A transaction on SQLite may hold the file: there the send makes a queue that is missing.
        self._prepare(name, make=not (is_open and self.url.startswith("sqlite:")))
        if mine is None or not is_open:
            return queue.send_many((message,))
        joined = queue.within(mine)
        outcome = joined.send_many((message,))
        if mine.in_atomic_block:
            transaction.on_commit(joined.wake, using=mine.alias, robust=True)
        return outcome

    def _prepare(self, name: str, *, make: bool) -> None:
        if (self.url, name) in _there:
            return
        try:
            self.connection.queue(name).settings()
        except QueueNotFound:
            if not make:
                return
            self.connection.queue(name).create(**self.settings)
        _there.add((self.url, name))

    def install(self) -> None:
        """Make the queues that are missing. One that a transaction has made, with the usual
        settings, gets those of the backend.
        """
        with turnabout.connect(self.url) as mq:
            for name in sorted(self.queues):
                queue = mq.queue(name)
                queue.create(**self.settings)
                if queue.settings() == QueueSettings():
                    queue.update(**self.settings)

    def get_result(self, result_id: str) -> Any:
        """Look up a task's result. Raises: TaskResultDoesNotExist."""
        return result_of(self.connection, self.alias, result_id)

    def check(self, **_: Any) -> Iterable[checks.CheckMessage]:
        """Check the settings, for `manage.py check`."""
        looks = [self._check_place, *(partial(limits.queue_name, q) for q in self.queues)]
        for look in [*looks, partial(QueueSettings().changed, self.settings)]:
            try:
                look()
            except (UsageError, ImproperlyConfigured) as error:
                yield checks.Error(f"TASKS[{self.alias!r}]: {error}", id="turnabout.E001")

    def _check_place(self) -> None:
        # Tests are checked, too: a database in memory is refused only where it is used.
        if self._url is None and not is_in_memory(connections[self.database]):
            url_of(connections[self.database])

    def close(self) -> None:
        """Close this process's connections to Turnabout: a test database can be dropped then."""
        close_all()
        _there.clear()


def _instant(moment: datetime | None) -> datetime | None:
    """Add a time zone: where USE_TZ is off, Django's times are in the current one."""
    naive = moment is not None and timezone.is_naive(moment)
    return timezone.make_aware(moment) if naive else moment
