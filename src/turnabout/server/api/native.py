"""Our own API, `/v1`: every verb at its route, in JSON.

One handler serves all verbs, driven by the table of routes. Beside it are features of HTTP alone:
waiting, a payload as the body, several verbs in one request, the signal. Errors are raised; the app
turns them into answers.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from typing import Any, TypeVar, cast

import msgspec
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.routing import BaseRoute, Route
from starlette.types import Receive, Scope, Send

from turnabout import wire
from turnabout._async.schedules import AsyncSchedules
from turnabout._async.shared import Shared
from turnabout.server.api import openapi
from turnabout.server.api.waiting import PollQuery, Waiting
from turnabout.server.auth.authorized_store import AuthorizedStore
from turnabout.server.context import ServerContext
from turnabout.server.http.delivery_response import (
    LARGE_BYTES,
    answer,
    answer_in_pieces,
    deliver,
    has_gone,
)
from turnabout.server.options import ServerOptions
from turnabout.words import limits
from turnabout.words import verbs as v
from turnabout.words.entities import Outgoing
from turnabout.words.errors import UsageError
from turnabout.words.outcomes import Received
from turnabout.words.payload import BYTES
from turnabout.words.value import replace

A = TypeVar("A")

Handler = Callable[[Request], Awaitable[None]]
"""The handler of one path and method: it answers by itself."""

KEY_BYTES_MAX = 200
"""Longest `Idempotency-Key`, in bytes: it becomes part of a dedup key."""
LARGE_BODY_BYTES = 256 * 1024
"""Reading a body this large takes too long to make others wait."""
_HEADER = b"turnabout-header-"


def routes(context: ServerContext) -> Sequence[BaseRoute]:
    """The routes of this API, the busiest first."""
    native = Native(context)
    places: dict[str, dict[str, Handler]] = {}
    for row in wire.ROUTES:
        handler = native.handlers.get(row.verb) or partial(native.verb, row.verb)
        for path in filter(None, (row.path, row.also)):
            places.setdefault(path, {})[row.method] = handler
    for method, path, handler in native.beside():
        places.setdefault(path, {})[method] = handler
    made: list[BaseRoute] = [Route(path, PathApp(handlers)) for path, handlers in places.items()]
    return [*made, Route("/v1/{rest:path}", PathApp({}, status=404))]


class PathApp:
    """The ASGI app of one path."""

    def __init__(self, handlers: Mapping[str, Handler], status: int = 405) -> None:
        """`status`: of a request by another method."""
        self.handlers = dict(handlers)
        self._status = status
        if "GET" in handlers:
            self.handlers["HEAD"] = handlers["GET"]
        self._allow = {"Allow": ", ".join(sorted(self.handlers))} if handlers else None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer the request."""
        handler = self.handlers.get(scope["method"])
        if handler is None:
            raise HTTPException(self._status, headers=self._allow)
        await handler(Request(scope, receive, send))


class Native:
    """The handlers of this API's paths."""

    def __init__(self, context: ServerContext) -> None:
        self.context = context
        self.waiting = Waiting(context)
        self._reading = asyncio.Lock()
        self.handlers: Mapping[type[v.Verb[Any]], Handler] = {
            v.Send: self.send,
            v.Receive: self.receive,
            v.Endings: self.endings,
            v.Events: self.events,
            v.ScheduleSet: self.schedule_set,
        }
        self._document = openapi.document(context.options.max_messages)

    def beside(self) -> Sequence[tuple[str, str, Handler]]:
        """The routes that are not verbs."""
        queue = "/v1/queues/{queue}"
        return (
            ("POST", f"{queue}/send", self.send_raw),
            ("POST", "/v1/transaction", self.transaction),
            ("GET", f"{queue}/signal", self.signal),
            ("GET", "/v1", partial(answer, body=_INDEX)),
            ("GET", "/v1/openapi.json", partial(answer, body=self._document)),
        )

    # --- verbs ------------------------------------------------------------------------------------

    async def verb(self, kind: type[v.Verb[Any]], request: Request) -> None:
        """Any verb that needs nothing else."""
        caller, call = await self._call(kind, request)
        if kind.pages is None:
            await self._done(request, kind, await caller.run(call.verb))
        else:
            await answer(request, wire.dump_answer(kind, *await caller.part(call.verb)))

    async def send(self, request: Request) -> None:
        """`send`, once for each `Idempotency-Key`."""
        caller, call = await self._call(v.Send, request)
        verb = _once(cast("v.Send", call.verb), request)
        await self._done(request, v.Send, await caller.run(verb))

    async def send_raw(self, request: Request) -> None:
        """Send one message whose payload is the body."""
        caller = await self.context.caller(request)
        fields = wire.load_query(request.scope["query_string"])
        headers, content_type = _headers_of(request)
        message = wire.load_fields(
            Outgoing,
            fields,
            payload=await request.body(),
            content_type=content_type,
            headers=headers or None,
        )
        queue = limits.queue_name(request.path_params["queue"])
        verb = v.Send(queue, (message,))
        check_limits(verb, self.context.options)
        await self._done(request, v.Send, await caller.run(_once(verb, request)))

    async def receive(self, request: Request) -> None:
        """`receive`, which may wait. Messages of a client that has gone are released."""
        caller, call = await self._call(v.Receive, request)
        verb = cast("v.Receive", call.verb)
        wait_seconds = self._wait_seconds(call)
        if "turn" in call.left_out or wait_seconds:
            received = await caller.receive(verb, wait_seconds, partial(has_gone, request))
        else:
            received = await caller.run(verb)
        pieces = wire.answer_pieces(v.Receive, received)
        await deliver(request, caller, verb.queue, received, pieces)

    async def endings(self, request: Request) -> None:
        """`endings`, which may wait until all have ended."""
        caller, call = await self._call(v.Endings, request)
        verb = cast("v.Endings", call.verb)
        seconds = self._wait_seconds(call)
        found, place = await caller.part(verb)
        if seconds and any(ending is None for ending in found):
            await self.waiting.endings(caller, verb, seconds, request)
            found, place = await caller.part(verb)
        await answer(request, wire.dump_answer(v.Endings, found, place))

    async def events(self, request: Request) -> None:
        """`events`, which may wait for one."""
        caller, call = await self._call(v.Events, request)
        verb = cast("v.Events", call.verb)
        seconds = self._wait_seconds(call)
        page = await caller.run(verb)
        if seconds and verb.cursor is not None and not page.events:
            waited = await self.waiting.events(caller, verb, seconds, request)
            page = page if waited is None else waited
        await self._done(request, v.Events, page)

    async def schedule_set(self, request: Request) -> None:
        """`schedule_set`; unless it says when the schedule is due, that is worked out here."""
        caller, call = await self._call(v.ScheduleSet, request)
        verb = cast("v.ScheduleSet", call.verb)
        if "next_at" in call.left_out:
            schedules = AsyncSchedules(Shared(caller))
            entry = await schedules._set(verb.schedule, keeps_pause="paused" in call.left_out)
        else:
            entry = await caller.run(verb)
        await self._done(request, v.ScheduleSet, entry)

    async def transaction(self, request: Request) -> None:
        """Run several verbs in one transaction."""
        caller = await self.context.caller(request)
        body = await request.body()
        verbs, all_or_none = await self._read(body, partial(wire.load_transaction, body))
        for verb in verbs:
            check_limits(verb, self.context.options)
        check_sum(verbs, self.context.options)
        answers = await caller.run_transaction(verbs, all_or_none=all_or_none) if verbs else []
        pieces = wire.transaction_pieces(verbs, answers)
        size = sum(one.size for one in answers if isinstance(one, Received))
        if size > LARGE_BYTES:
            await answer_in_pieces(request, caller, size, pieces)
        else:
            await answer(request, b"".join(pieces))

    async def signal(self, request: Request) -> None:
        """The queue's version, which changes with it, as soon as it differs from `seen`."""
        caller = await self.context.caller(request)
        poll = wire.load_fields(PollQuery, wire.load_query(request.scope["query_string"]))
        queue = limits.queue_name(request.path_params["queue"])
        wait_seconds = min(poll.wait_seconds, self.context.options.max_wait_seconds)
        number = await self.waiting.signal(caller, queue, poll, wait_seconds, request)
        body = msgspec.json.encode({"signal": number, "instance": self.waiting.instance})
        await answer(request, body)

    # --- steps ------------------------------------------------------------------------------------

    async def _call(
        self, kind: type[v.Verb[Any]], request: Request
    ) -> tuple[AuthorizedStore, wire.VerbItem]:
        """The caller and the call. A caller without access is refused before the body is read."""
        caller = await self.context.caller(request)
        scope = request.scope
        parameters: dict[str, Any] = dict(scope["path_params"])
        if scope["query_string"]:
            query = wire.load_query(scope["query_string"])
            for name in query.keys() & parameters.keys():
                raise UsageError(f"{name}: appears twice, in the path and in the query")
            parameters |= query
        body = await request.body()
        call = await self._read(body, partial(wire.load_call, kind, body, **parameters))
        check_limits(call.verb, self.context.options)
        return caller, call

    async def _read(self, body: bytes, load: Callable[[], A]) -> A:
        """The body, read. A large one is read off the loop, one at a time."""
        if len(body) <= LARGE_BODY_BYTES:
            return load()
        async with self._reading:
            return await asyncio.to_thread(load)

    def _wait_seconds(self, call: wire.VerbItem) -> float:
        return min(call.wait_seconds, self.context.options.max_wait_seconds)

    @staticmethod
    async def _done(request: Request, kind: type[v.Verb[Any]], outcome: Any) -> None:
        await answer(request, wire.dump_answer(kind, outcome), wire.status_of(outcome))


def check_limits(verb: v.Verb[Any], options: ServerOptions) -> None:
    """Raises: UsageError for a verb that exceeds this server's limits for one request."""
    if verb.items is not None and len(many := verb.items.of(verb)) > options.max_messages:
        raise UsageError(
            f"$.{verb.items.field}: at most {options.max_messages:,} in one request to this "
            f"server, not {len(many):,} (max_messages)"
        )
    if isinstance(verb, v.Send):
        for message in verb.messages:
            limits.payload(message.payload, options.max_payload_bytes)
    elif isinstance(verb, v.ScheduleSet):
        limits.payload(verb.schedule.message.payload, options.max_payload_bytes)
    elif isinstance(verb, v.Receive) and verb.max_messages > options.max_messages:
        raise UsageError(
            f"$.max_messages: at most {options.max_messages:,} in one request to this server"
        )


def check_sum(verbs: Sequence[v.Verb[Any]], options: ServerOptions) -> None:
    """Raises: UsageError for verbs that together answer with more than one may."""
    most = sum(verb.max_messages for verb in verbs if isinstance(verb, v.Receive))
    if most > options.max_messages:
        raise UsageError(
            f"$.verbs: at most {options.max_messages:,} messages are received in one request to "
            f"this server, not {most:,} (max_messages)"
        )


def _once(verb: v.Send, request: Request) -> v.Send:
    """Add a dedup key from `Idempotency-Key`: repeats of the send get the first one's ids."""
    keys = [one for name, one in request.scope["headers"] if name == b"idempotency-key"]
    if not keys:
        return verb
    if len(keys) > 1:
        raise UsageError("the header Idempotency-Key appears twice")
    (key,) = keys
    if not 1 <= len(key) <= KEY_BYTES_MAX:
        raise UsageError(f"an Idempotency-Key has 1 to {KEY_BYTES_MAX} bytes, not {len(key)}")
    text = _utf8(key, "Idempotency-Key")
    messages = [
        message
        if message.dedup_key is not None
        else replace(message, dedup_key=f"{text}:{place}", dedup_mode="window")
        for place, message in enumerate(verb.messages)
    ]
    return v.Send(verb.queue, tuple(messages))


def _headers_of(request: Request) -> tuple[dict[str, str], str]:
    """The message's headers and its content type, out of the request's."""
    headers: dict[str, str] = {}
    content_type = BYTES
    for name, one in request.scope["headers"]:
        if name == b"content-type":
            content_type = _utf8(one, "Content-Type")
        elif name.startswith(_HEADER):
            plain = _utf8(name[len(_HEADER) :], "a header's name")
            if plain in headers:
                raise UsageError(f"the header Turnabout-Header-{plain} appears twice")
            headers[plain] = _utf8(one, f"Turnabout-Header-{plain}")
    return headers, content_type


def _utf8(value: bytes, name: str) -> str:
    try:
        return value.decode()
    except UnicodeDecodeError as error:
        raise UsageError(f"the header {name} is not UTF-8") from error


_INDEX = msgspec.json.encode(
    {
        "service": "turnabout",
        "openapi": "/v1/openapi.json",
        "verbs": [
            {"verb": row.verb.name, "method": row.method, "path": row.path} for row in wire.ROUTES
        ],
    }
)
