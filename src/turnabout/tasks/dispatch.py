"""Running the task of a message, and turning its end into the message's."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Generator
from contextlib import AsyncExitStack, ExitStack, contextmanager
from typing import Any

import msgspec

from turnabout.tasks import links
from turnabout.tasks.arguments import to_json
from turnabout.tasks.context import running
from turnabout.tasks.definition import TASK, CallOptions, Definition
from turnabout.words.delivered import DeliveredMessage
from turnabout.words.entities import Outgoing
from turnabout.words.errors import Refused, UsageError
from turnabout.words.payload import JSON
from turnabout.words.records import Result
from turnabout.worker import Defer, GiveUp, TryAgain

Around = Callable[[DeliveredMessage], Any]
"""Gives a context manager around each run of a task; around those on asyncio, an async one too."""


class Dispatch:
    """Calls the tasks that were registered."""

    def __init__(self) -> None:
        self.tasks: dict[str, tuple[Definition, CallOptions]] = {}
        self.around: list[Around] = []
        self.loop: asyncio.AbstractEventLoop | None = None
        """The worker's event loop, for asyncio tasks in a queue that also has others."""

    def handle(self, message: Any) -> Any:
        """Call the task of a message. Returns: what the worker keeps as the result. Raises: what
        the task raised, as its `Retry` judges it.
        """
        definition, arguments, rest = self._call_of(message)
        with _running(definition, message):
            with ExitStack() as stack:
                for around in self.around:
                    stack.enter_context(around(message))
                value = definition.function(**arguments)
                if definition.is_async:
                    value = self._awaited(value)
            result = _result(definition, value)
            if rest:
                message.ack(result=result, then=self._next(result, rest))
        return result

    async def handle_async(self, message: Any) -> Any:
        """The same on asyncio."""
        definition, arguments, rest = self._call_of(message)
        with _running(definition, message):
            if self.around or definition.timeout_seconds is not None:
                value = await self._surrounded(definition, arguments, message)
            else:
                value = definition.function(**arguments)
                if definition.is_async:
                    value = await value
            result = _result(definition, value)
            if rest:
                await message.ack(result=result, then=self._next(result, rest))
        return result

    async def _surrounded(
        self, definition: Definition, arguments: dict[str, Any], message: Any
    ) -> object:
        async with AsyncExitStack() as stack, asyncio.timeout(definition.timeout_seconds):
            for around in self.around:
                await entered(stack, around(message))
            value = definition.function(**arguments)
            return await value if definition.is_async else value

    def _call_of(
        self, message: DeliveredMessage
    ) -> tuple[Definition, dict[str, Any], tuple[links.Link, ...]]:
        """The task of a message, what to call it with, and what its chain goes on with."""
        headers = message.headers  # read out of JSON at each look
        name = headers.get(TASK)
        found = self.tasks.get(name or "")
        if found is None:
            known = ", ".join(sorted(self.tasks)) or "none"
            fault = f"names the task {name!r}" if name else f"has no header `{TASK}`"
            raise GiveUp(f"the message {fault}; this worker knows: {known}")
        definition, _ = found
        rest = links.read(headers)
        if rest and rest[0].task not in self.tasks:
            raise GiveUp(
                f"the next task of the chain, {rest[0].task!r}, is not known to this worker"
            )
        try:
            return definition, definition.arguments.decoded(message.payload), rest
        except (msgspec.MsgspecError, UsageError, UnicodeDecodeError, RecursionError) as error:
            signature = f"{definition.name}{definition.arguments.signature}"
            raise GiveUp(f"the payload does not fit {signature}: {error}") from error

    def _awaited(self, work: Any) -> Any:
        if self.loop is None:
            return asyncio.run(work)
        return asyncio.run_coroutine_threadsafe(work, self.loop).result()

    def _next(
        self, result: Result | None, rest: tuple[links.Link, ...]
    ) -> dict[str, tuple[Outgoing]]:
        """The next task of a chain, which is sent with the ack of this one. Where it can't be, its
        queue being full, this attempt fails, and is tried again.
        """
        link, *others = rest
        following, options = self.tasks[link.task]
        payload = links.arguments(link, b"null" if result is None else result.data)
        return {following.queue: (following.message(options, payload, links.written(others)),)}


@contextmanager
def _running(definition: Definition, message: DeliveredMessage) -> Generator[None]:
    """A block that runs the task of a message. An error is raised as the worker reads it: see
    `turnabout.worker.endings`.
    """
    token = running.set(message)
    try:
        yield
    except Exception as error:
        judged = _judged(definition, message, error)
        if judged is error:
            raise
        raise judged from error
    finally:
        running.reset(token)


def _result(definition: Definition, value: object) -> Result | None:
    if value is None:
        return None
    return Result(to_json(value, f"the result of {definition.name}"), JSON)


def _judged(definition: Definition, message: DeliveredMessage, error: Exception) -> Exception:
    if isinstance(error, (Defer, GiveUp, TryAgain, Refused)):
        return error
    retry = definition.retry
    if not retry.allows(error, message.failures + message.crashes):
        return GiveUp()
    pause = retry.pause(message.failures)
    return error if pause is None else TryAgain(delay_seconds=pause)


async def entered(stack: AsyncExitStack, block: Any) -> None:
    """Enter a context manager of either colour."""
    if hasattr(block, "__aenter__"):
        await stack.enter_async_context(block)
    else:
        stack.enter_context(block)
