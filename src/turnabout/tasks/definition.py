"""A task's definition, apart from sending: its name, its function, its options."""

from __future__ import annotations

import hashlib
import inspect
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from turnabout.tasks.arguments import Arguments
from turnabout.tasks.retry import RetryPolicy
from turnabout.words import limits
from turnabout.words.entities import Outgoing
from turnabout.words.errors import UsageError
from turnabout.words.payload import JSON
from turnabout.words.policy import DEDUP_MODES, DedupMode
from turnabout.words.prepare import outgoing

if TYPE_CHECKING:
    from datetime import datetime  # slow to load

TASK = "task"
"""The header with the task's name."""


def name_of(function: Callable[..., Any]) -> str:
    """Module and function; where its module is the program itself, as a worker imports that."""
    module = function.__module__
    if module == "__main__":
        main = sys.modules[module]
        if main.__spec__ is not None:  # python -m
            module = main.__spec__.name
        elif file := getattr(main, "__file__", None):
            module = Path(file).stem
    return f"{module}.{function.__qualname__}"


@dataclass(frozen=True, slots=True)
class CallOptions:
    """Options of sending a task.

    channel:       a name, or a function of the task's arguments that gives it.
    priority, delay_seconds, due_at, ttl_seconds: as of `Queue.send`.
    unique:        a mode of dedup: another call with the same arguments is suppressed for so long.
    unique_seconds: the window, for the modes that have one.
    key:           instead of all arguments: what has to be the same; a text, or a function of them.
    """

    channel: str | Callable[..., str] = ""
    priority: int = 0
    delay_seconds: float | None = None
    due_at: datetime | int | None = None
    ttl_seconds: float | None = None
    unique: DedupMode | None = None
    unique_seconds: float | None = None
    key: str | Callable[..., str] | None = None

    def __post_init__(self) -> None:
        if self.unique is not None:
            limits.choice(self.unique, "unique", DEDUP_MODES)
        elif self.unique_seconds is not None or self.key is not None:
            raise UsageError("unique_seconds and key need `unique`, the mode")


@dataclass(frozen=True, slots=True)
class Definition:
    """A function that was registered as a task."""

    name: str
    queue: str
    function: Callable[..., Any]
    retry: RetryPolicy
    timeout_seconds: float | None = None
    arguments: Arguments = field(init=False)
    is_async: bool = field(init=False)

    def __post_init__(self) -> None:
        limits.queue_name(self.queue)
        object.__setattr__(self, "arguments", Arguments(self.name, self.function))
        object.__setattr__(self, "is_async", inspect.iscoroutinefunction(self.function))

    def message(
        self, options: CallOptions, payload: bytes, headers: Mapping[str, str] | None = None
    ) -> Outgoing:
        """The message that stands for a call with these arguments. Raises: UsageError."""
        arguments: dict[str, Any] | None = None
        if callable(options.channel) or callable(options.key):
            arguments = self._with_defaults(self.arguments.decoded(payload))
        unique = options.unique is not None
        return outgoing(
            payload,
            content_type=JSON,
            headers={TASK: self.name, **(headers or {})},
            channel=_of(options.channel, arguments),
            priority=options.priority,
            delay_seconds=options.delay_seconds,
            due_at=options.due_at,
            ttl_seconds=options.ttl_seconds,
            dedup_key=self._key(options, payload, arguments) if unique else None,
            dedup_mode=options.unique,
            dedup_window_seconds=options.unique_seconds,
        )

    def _key(self, options: CallOptions, payload: bytes, arguments: dict[str, Any] | None) -> str:
        """The task's name, and a digest: a key has a limit, arguments have none."""
        what = payload if options.key is None else _of(options.key, arguments).encode()
        return f"{self.name[:200]}:{hashlib.sha256(what).hexdigest()[:32]}"

    def _with_defaults(self, arguments: dict[str, Any]) -> dict[str, Any]:
        bound = self.arguments.signature.bind(**arguments)
        bound.apply_defaults()
        return bound.arguments


def _of(what: str | Callable[..., str], arguments: dict[str, Any] | None) -> str:
    return what if isinstance(what, str) else what(**(arguments or {}))
