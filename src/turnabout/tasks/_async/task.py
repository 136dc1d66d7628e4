"""A task as its callers see it, the handle of a call, and chains of them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Generic, ParamSpec, Protocol, TypeVar

import msgspec

from turnabout._async import AsyncQueue, AsyncTurnabout
from turnabout.tasks import links
from turnabout.tasks.arguments import to_json
from turnabout.tasks.definition import CallOptions, Definition
from turnabout.tasks.errors import NotSent, TaskFailed
from turnabout.words.entities import Outgoing
from turnabout.words.errors import UsageError
from turnabout.words.outcomes import CancelOutcome, Sent
from turnabout.words.records import Ending

P = ParamSpec("P")
R = TypeVar("R")


class AsyncApplication(Protocol):
    """A task's view of its application."""

    @property
    def connection(self) -> AsyncTurnabout:
        """The connection that it is sent by."""
        ...

    async def sent(self, handle: AsyncHandle[Any]) -> None:
        """A call was enqueued."""
        ...


class AsyncHandle(Generic[R]):
    """A call that was enqueued. Any process can make one again: `task.handle(id)`."""

    def __init__(self, task: AsyncTask[Any, R], id_: int, *, is_duplicate: bool = False) -> None:
        self.task = task
        self.id = id_
        self.is_duplicate = is_duplicate
        """An earlier call stands for this one, by `unique`."""

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.id} of {self.task.name}>"

    async def ending(self, timeout_seconds: float = 0.0) -> Ending | None:
        """Wait for its ending; None: it has none after that time."""
        (ending,) = await self.task.queue.wait([self.id], timeout_seconds=timeout_seconds)
        return ending

    async def result(self, timeout_seconds: float = 10.0) -> R:
        """Wait for the task's return value, in its annotated type.

        Raises: TimeoutError, if it has not ended in time; TaskFailed, if it will have no result.
        """
        ending = await self.ending(timeout_seconds)
        if ending is None:
            raise TimeoutError(f"the task {self.task.name} has not ended in {timeout_seconds:g} s")
        if ending.outcome != "done":
            raise TaskFailed(self.task.name, ending.outcome, ending.error)
        data = b"null" if ending.result is None else ending.result.data
        return self.task.definition.arguments.result(data)

    async def cancel(self) -> CancelOutcome:
        """End it as cancelled; one that runs is told (see `Queue.cancel`)."""
        (outcome,) = await self.task.queue.cancel([self.id])
        return outcome


class AsyncTask(Generic[P, R]):
    """A function that can be enqueued. Calling it calls the function, here and now."""

    def __init__(
        self,
        app: AsyncApplication,
        definition: Definition,
        options: CallOptions,
        connection: object = None,
    ) -> None:
        self._app = app
        self.definition = definition
        self._options = options
        self._connection = connection
        self.__doc__ = definition.function.__doc__
        self.__wrapped__ = definition.function

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.name}{self.definition.arguments.signature}>"

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> Any:
        return self.definition.function(*args, **kwargs)

    @property
    def name(self) -> str:
        """The value of its messages' header `task`."""
        return self.definition.name

    @property
    def queue(self) -> AsyncQueue:
        """The queue that its calls go to."""
        return self._app.connection.queue(self.definition.queue)

    def options(self, **options: Any) -> AsyncTask[P, R]:
        """The same task, sent otherwise: with these fields of `CallOptions`."""
        try:
            changed = replace(self._options, **options)
        except TypeError as error:
            raise UsageError(f"options of the task {self.name}: {error}") from error
        return AsyncTask(self._app, self.definition, changed, self._connection)

    def within(self, connection: object) -> AsyncTask[P, R]:
        """The same task, enqueued in your own transaction: see `Queue.within`."""
        return AsyncTask(self._app, self.definition, self._options, connection)

    def message(self, *args: P.args, **kwargs: P.kwargs) -> Outgoing:
        """The message that stands for this call, for `send_many`, schedules and batches.

        Raises: UsageError for arguments that do not fit the function.
        """
        arguments = self.definition.arguments
        payload = arguments.encoded(arguments.bound(args, kwargs))
        return self.definition.message(self._options, payload)

    async def enqueue(self, *args: P.args, **kwargs: P.kwargs) -> AsyncHandle[R]:
        """Have it called with these arguments by a worker.

        Raises: UsageError for arguments that do not fit; NotSent, where its channel or queue is
                full; and as `Queue.send`.
        """
        arguments = self.definition.arguments
        return await self.send_payload(arguments.encoded(arguments.bound(args, kwargs)), {})

    async def send_payload(self, payload: bytes, headers: dict[str, str]) -> AsyncHandle[R]:
        """Enqueue a call whose arguments are written already."""
        message = self.definition.message(self._options, payload, headers)
        queue = self.queue
        if self._connection is not None:
            queue = queue.within(self._connection)
        outcome = await queue.send_many([message])
        if not isinstance(outcome, Sent):
            raise NotSent(self.name, outcome)
        handle = AsyncHandle(self, outcome.id, is_duplicate=bool(outcome.duplicates))
        await self._app.sent(handle)
        return handle

    def handle(self, id_: int) -> AsyncHandle[R]:
        """The handle of a call that was enqueued before, here or elsewhere."""
        return AsyncHandle(self, id_)

    def s(self, *args: Any, **kwargs: Any) -> AsyncStep:
        """Make a step of a chain, with the arguments that are known."""
        return AsyncStep(self, args, kwargs)


@dataclass(frozen=True)
class AsyncStep:
    """A task and some of its arguments."""

    task: AsyncTask[Any, Any]
    args: tuple[Any, ...]
    kwargs: dict[str, Any]

    def link(self, *, is_first: bool) -> links.Link:
        """Make part of a chain. Raises: UsageError for arguments that do not fit."""
        signature = self.task.definition.arguments.signature
        try:
            if is_first or not self.args:
                arguments = signature.bind_partial(*self.args, **self.kwargs).arguments
            else:  # the result before it comes first
                arguments = signature.bind_partial(None, *self.args, **self.kwargs).arguments
                del arguments[next(iter(arguments))]
        except TypeError as error:
            raise UsageError(f"the task {self.task.name}{signature}: {error}") from error
        known = {n: to_json(v, f"{n} of the task {self.task.name}") for n, v in arguments.items()}
        required = [n for n, p in signature.parameters.items() if p.default is p.empty]
        names = list(signature.parameters)
        return links.link_of(self.task.name, names, required, known, is_first=is_first)


class AsyncChain:
    """Tasks one after the other: each is sent in the transaction that acks the one before."""

    def __init__(self, steps: tuple[AsyncStep, ...]) -> None:
        if not steps:
            raise UsageError("a chain has at least one step: chain(task.s(…), other.s())")
        self._first = steps[0].task
        self._rest = [step.link(is_first=not i) for i, step in enumerate(steps)]

    async def enqueue(self) -> AsyncHandle[Any]:
        """Enqueue the first; its handle. Raises: as `AsyncTask.enqueue`."""
        first, *rest = self._rest
        arguments = self._first.definition.arguments
        payload = arguments.encoded(msgspec.json.decode(links.arguments(first, b"null")))
        headers = links.written(rest)
        return await self._first.send_payload(payload, headers)


def chain(*steps: AsyncStep) -> AsyncChain:
    """Tasks in a row: `chain(fetch.s(url), parse.s(), store.s()).enqueue()`. Each gets the result
    of the one before as its first argument that has no value.
    """
    return AsyncChain(steps)
