"""hq's API: its queues and messages over HTTP. Source: github.com/ckampfe/hq, README and client.

hq's bugs are not copied. Facts that its answers cannot express are in headers, as its clients take
no other answer: `Turnabout-Fence` (see `answers`), `Turnabout-Error: queue_not_found`.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from math import ceil
from typing import Any
from uuid import UUID

import msgspec
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import BaseRoute

from turnabout.compat import answers
from turnabout.compat.answers import FENCE, CompatError, json
from turnabout.compat.unfenced import Unfenced, fence
from turnabout.server.auth.authorized_store import AuthorizedStore
from turnabout.server.context import ServerContext
from turnabout.server.http.delivery_response import DeliveryResponse, has_gone
from turnabout.server.uuids import message_uuid, parts_of, queue_hash
from turnabout.words.entities import Failure, Outgoing, QueueEntry
from turnabout.words.errors import QueueNotFound, UsageError
from turnabout.words.limits import DEAD_SUFFIX, INTEGER_MAX, LEASE_SECONDS_MAX
from turnabout.words.outcomes import AlreadyExists, Sent
from turnabout.words.payload import JSON
from turnabout.words.policy import QueueSettings
from turnabout.words.verbs import (
    Ack,
    Fail,
    QueueCreate,
    QueueDelete,
    QueueGet,
    QueueList,
    QueueUpdate,
    Receive,
    Send,
)

_BEFORE = "Something went wrong: "
"""The words that hq puts before the text of an error."""
_MOST = {"max_attempts": INTEGER_MAX, "visibility_timeout_seconds": LEASE_SECONDS_MAX}
PAYLOAD_BYTES = 2 * 1024 * 1024
"""The largest payload that hq takes; the default where the server's limit was not set."""
_NAMES_MAX = 10_000


def routes(context: ServerContext) -> Sequence[BaseRoute]:
    """The routes of hq."""
    hq = _Hq(context)
    found: list[BaseRoute] = []
    for path, handlers in (
        ("/queues", {"GET": hq.list, "POST": hq.create}),
        ("/queues/{queue}", {"GET": hq.show, "PUT": hq.update, "DELETE": hq.delete}),
        ("/queues/{queue}/enqueue", {"POST": hq.enqueue}),
        ("/queues/{queue}/receive", {"GET": hq.receive}),
        ("/messages/{id}/complete", {"PUT": hq.complete}),
        ("/messages/{id}/fail", {"PUT": hq.fail}),
    ):
        found += answers.on(context, path, handlers, before_text=_BEFORE)
    if context.options.dashboard:
        found += answers.open_to_all("/web", _web)
    return found


class _Hq:
    """An action for each of hq's routes."""

    def __init__(self, context: ServerContext) -> None:
        self._context = context
        self._unfenced = Unfenced()
        self._names = _HqNames()

    async def create(self, request: Request, caller: AuthorizedStore) -> Response:
        """POST /queues?name&max_attempts&visibility_timeout_seconds."""
        name = answers.one(request, "name")
        parameters = {field: _whole(request, field) for field in _MOST}
        if name is None:
            raise _missing("name")
        for field, value in parameters.items():
            if value is None:
                raise _missing(field)
        _check(parameters)
        settings = QueueSettings().changed(_settings(parameters))
        try:
            verb = QueueCreate(name, settings)
            outcome = await caller.run(verb)
        except UsageError as error:
            raise CompatError(422, str(error)) from error
        if isinstance(outcome, AlreadyExists):
            raise CompatError(409, "Error: queue name must be unique")
        return Response()

    async def list(self, request: Request, caller: AuthorizedStore) -> Response:
        """GET /queues. Dead-letter queues are not among them: no client of hq's made one."""
        entries = await caller.whole(QueueList())
        return json([_shown(e) for e in entries if not e.name.endswith(DEAD_SUFFIX)])

    async def show(self, request: Request, caller: AuthorizedStore) -> Response:
        """GET /queues/{name}; `null` if there is none."""
        try:
            return json(_shown(await caller.run(QueueGet(_name(request)))))
        except QueueNotFound as error:
            return json(None, answers.missing(error))

    async def update(self, request: Request, caller: AuthorizedStore) -> Response:
        """PUT /queues/{name}?max_attempts&visibility_timeout_seconds: one, both or neither."""
        parameters = {field: _whole(request, field) for field in _MOST}
        _check(parameters)
        try:
            await caller.run(QueueUpdate(_name(request), _settings(parameters)))
        except QueueNotFound as error:
            return Response(headers=answers.missing(error))
        return Response()

    async def delete(self, request: Request, caller: AuthorizedStore) -> Response:
        """DELETE /queues/{name}, with its messages; those that died earlier stay dead letters."""
        try:
            await caller.run(QueueDelete(_name(request)))
        except QueueNotFound as error:
            return Response(headers=answers.missing(error))
        return Response()

    async def enqueue(self, request: Request, caller: AuthorizedStore) -> Response:
        """POST /queues/{name}/enqueue: any JSON; the content type is ignored."""
        name = _name(request)
        body = await request.body()
        answers.check_payload(self._context, body, PAYLOAD_BYTES)
        answers.strict_json(body)
        caller.rights.need(Send, name)
        await caller.insider().run(QueueGet(name))  # a send makes a missing queue; hq tells of it
        outcome = await caller.run(Send(name, (Outgoing(body.strip(), JSON),)))
        if not isinstance(outcome, Sent):
            return answers.refuse_full(outcome)
        return json({"message_id": self._names.uuid(caller, name, outcome.id)})

    async def receive(self, request: Request, caller: AuthorizedStore) -> Response:
        """GET /queues/{name}/receive; `null` if there is nothing, or no such queue."""
        name = _name(request)
        try:
            received = await caller.receive(Receive(name, 1), 0.0, partial(has_gone, request))
        except QueueNotFound as error:
            return json(None, answers.missing(error))
        if not received.deliveries:
            return json(None)
        (message,) = received.deliveries
        self._unfenced.saw(received.deliveries)
        fields = {
            "id": self._names.uuid(caller, name, message.id),
            "args": answers.json_of(message.payload, message.content_type),
            "queue": name,
            "attempts": message.attempt,
        }
        return DeliveryResponse(caller, name, received, [msgspec.json.encode(fields)])

    async def complete(self, request: Request, caller: AuthorizedStore) -> Response:
        """PUT /messages/{id}/complete."""
        return await self._settle(request, caller, fails=False)

    async def fail(self, request: Request, caller: AuthorizedStore) -> Response:
        """PUT /messages/{id}/fail: the message is dead, even with attempts left."""
        return await self._settle(request, caller, fails=True)

    async def _settle(self, request: Request, caller: AuthorizedStore, *, fails: bool) -> Response:
        found = await self._names.place(caller, request.path_params["id"])
        if found is None:
            return Response(headers={FENCE: "no-lease"})
        queue, id_ = found
        settle = self._unfenced.settle
        try:
            if fails:
                outcomes = await settle(
                    caller, queue, [id_], lambda rs: Fail(queue, tuple(map(_final, rs)))
                )
            else:
                outcomes = await settle(caller, queue, [id_], lambda rs: Ack(queue, rs))
        except QueueNotFound:
            return Response(headers={FENCE: "no-lease"})
        return Response(headers={FENCE: fence(outcomes)})


class _HqNames:
    """Maps a message in a queue to hq's id for it, a UUID (`server.uuids`), and back: the queue is
    looked up here.
    """

    def __init__(self) -> None:
        self._known: dict[tuple[str, int], str] = {}

    def uuid(self, caller: AuthorizedStore, queue: str, id_: int) -> str:
        """The id that hq's clients know a message by."""
        self._note(caller.namespace, queue)
        return message_uuid(id_, queue)

    async def place(self, caller: AuthorizedStore, text_: str) -> tuple[str, int] | None:
        """The queue and id in a UUID; None if the id isn't one of ours, or its queue is gone."""
        try:
            parts = parts_of(UUID(text_))
        except ValueError as error:
            raise CompatError(400, f"Invalid URL: UUID parsing failed: {error}") from error
        if parts is None:
            return None
        id_, hashed = parts
        key = caller.namespace, hashed
        if key not in self._known:
            # It came from another process, or is invented. The list is asked for on our own
            # account: the caller's scopes are for the queue, and the answer names none of the list.
            for entry in await caller.insider().whole(QueueList()):
                self._note(caller.namespace, entry.name)
        queue = self._known.get(key)
        return None if queue is None else (queue, id_)

    def _note(self, namespace: str, queue: str) -> None:
        self._known[namespace, queue_hash(queue)] = queue
        while len(self._known) > _NAMES_MAX:
            del self._known[next(iter(self._known))]


async def _web(_: Request) -> Response:
    return RedirectResponse("/dashboard/", 307)


def _final(receipt: Any) -> Failure:
    return Failure(receipt, retry=False)


def _name(request: Request) -> str:
    return request.path_params["queue"]


def _shown(entry: QueueEntry) -> dict[str, object]:
    """A queue as hq tells it: whole numbers, -1 for no limit."""
    made, changed = [
        answers.moment(at).strftime("%Y-%m-%d %H:%M:%S.%f")[:-3]
        for at in (entry.created_at, entry.modified_at)
    ]
    attempts = entry.settings.max_attempts
    return {
        "name": entry.name,
        "max_attempts": -1 if attempts is None else attempts,
        "visibility_timeout_seconds": ceil(entry.settings.lease_seconds),
        "inserted_at": made,
        "updated_at": changed,
    }


def _whole(request: Request, field: str) -> int | None:
    value = answers.one(request, field)
    return None if value is None else answers.whole_number(value, field)


def _missing(field: str) -> CompatError:
    return CompatError(400, f"Failed to deserialize query string: missing field `{field}`")


def _check(parameters: dict[str, int | None]) -> None:
    for field, value in parameters.items():
        if value is not None and value < 1:
            raise CompatError(422, f"{field} must be >= 1")
        if value is not None and value > _MOST[field]:
            raise CompatError(422, f"{field} must be <= {_MOST[field]}")


def _settings(parameters: dict[str, int | None]) -> dict[str, Any]:
    changes: dict[str, Any] = {}
    if (attempts := parameters["max_attempts"]) is not None:
        changes["max_attempts"] = attempts
    if (seconds := parameters["visibility_timeout_seconds"]) is not None:
        changes["lease_seconds"] = float(seconds)
    return changes
