"""The channel that a task is sent to, which decides its turn and its limits."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

T = TypeVar("T")

_ATTRIBUTE = "turnabout_channel"


def channel(rule: str | Callable[..., str]) -> Callable[[T], T]:
    """Say which channel a task is sent to: a name, or a function of the task's arguments.

        @channel(lambda customer, **_: customer)
        @task
        def send_email(to, customer): ...

    Other backends take no notice of it. It may stand above or below `@task`.
    """

    def mark(task: T) -> T:
        # A task is a frozen value: what is said of it has to be said of its function.
        setattr(getattr(task, "func", task), _ATTRIBUTE, rule)
        return task

    return mark


def channel_of(
    task: Any, args: Sequence[Any], kwargs: Mapping[str, Any], default: Callable[..., str] | None
) -> str:
    """The channel for a call: as the task says, else as the backend's option does."""
    rule = getattr(task.func, _ATTRIBUTE, None)
    if rule is None:
        return "" if default is None else default(task, args, kwargs)
    return rule if isinstance(rule, str) else rule(**_named(task, args, kwargs))


def _named(task: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> dict[str, Any]:
    """A call's arguments by their names, with defaults. Raises: TypeError if they don't fit."""
    context = (None,) if task.takes_context else ()
    signature = inspect.signature(task.func)
    bound = signature.bind(*context, *args, **kwargs)
    bound.apply_defaults()
    named = dict(bound.arguments)
    if task.takes_context:
        del named[next(iter(signature.parameters))]
    for one in signature.parameters.values():
        if one.kind is inspect.Parameter.VAR_KEYWORD:
            named |= named.pop(one.name)
    return named
