"""Server-sent events: a queue's events as they happen, and endings as they come.

Source: https://html.spec.whatwg.org/multipage/server-sent-events.html
"""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import aclosing
from typing import Any

import msgspec
from starlette.requests import Request

from turnabout import wire
from turnabout._async.events import EventReader
from turnabout._async.shared import Shared
from turnabout.pacing import Patience
from turnabout.server.api.waiting import Waiting
from turnabout.server.auth.authorized_store import AuthorizedStore
from turnabout.wire.shapes import shape_of
from turnabout.words import limits
from turnabout.words import verbs as v
from turnabout.words.errors import Busy, TurnaboutError, Unavailable, UsageError
from turnabout.words.records import Ending, Event
from turnabout.words.verb import Change

ALIVE_SECONDS = 15.0
"""A comment this often keeps proxies from closing a silent stream."""
STAY_SECONDS = 5.0
"""After this long, something is sent only if the token is still valid."""
_HEADERS = [
    (b"content-type", b"text/event-stream; charset=utf-8"),
    (b"cache-control", b"no-store"),
    (b"x-accel-buffering", b"no"),
]
_BEGIN = b"retry: 2000\n\n"
_ALIVE = b": alive\n\n"


async def stream_events(waiting: Waiting, request: Request) -> None:
    """The events of a queue after `Last-Event-ID` or `cursor`; without one, from now on."""
    context = waiting.context
    caller = await context.caller(request)
    queue = limits.queue_name(request.path_params["queue"])
    asked = wire.load_query(request.scope["query_string"])
    _only(asked, "cursor")
    cursor = request.headers.get("last-event-id") or asked.get("cursor")
    # Asked for by the caller, so that rights and cursor are refused before anything is answered.
    page = await caller.run(v.Events(queue, cursor, 1))
    inner = caller.insider()  # it may read the queue's settings, which the caller may not
    await _check_level(inner, queue)
    with waiting.shared(inner, queue) as shared:
        listener = EventReader(shared, queue, cursor or page.cursor)
        await _stream(request, caller, _said(listener.events(None)))


async def stream_endings(waiting: Waiting, request: Request) -> None:
    """An event for each of these messages as it ends, and one more when all have."""
    context = waiting.context
    caller = await context.caller(request)
    queue = limits.queue_name(request.path_params["queue"])
    asked = wire.load_query(request.scope["query_string"])
    _only(asked, "ids")
    ids = _ids(asked.get("ids", ""), context.options.max_messages)
    await caller.run(v.Endings(queue, ids))
    with waiting.shared(caller, queue) as shared:
        await _stream(request, caller, _endings(shared, caller, queue, ids))


# --- what is sent --------------------------------------------------------------------------------


async def _said(events: AsyncIterator[Event]) -> AsyncGenerator[bytes]:
    async for event in events:
        yield _event(event.kind, _data(Event, event), event.cursor)


async def _endings(
    shared: Shared, caller: AuthorizedStore, queue: str, ids: tuple[int, ...]
) -> AsyncGenerator[bytes]:
    poller, store = shared.poller(queue), shared.store
    patience = Patience(time.monotonic(), None, hint_seconds_max=1.0)
    left = set(ids)
    with poller.waiting():
        while left and not shared.is_closed:
            seen = await store.signal(queue, Change.ENDED)
            patience.looked(time.monotonic())
            ended = tuple(await poller.look(sorted(left)))
            left.difference_update(ended)
            while ended:  # a part of the results at a time
                part = await caller.run(v.Endings(queue, ended))
                ended = ended[len(part) :]
                for ending in filter(None, part):
                    yield _event("ending", _data(Ending, ending))
            if left:
                pause = patience.for_hint(time.monotonic())
                await store.wait(queue, seen, pause, Change.ENDED)
                await asyncio.sleep(patience.before_look(time.monotonic()))
    if not left:
        yield _event("end", b"{}")


def _event(kind: str, data: bytes, cursor: str | None = None) -> bytes:
    head = f"event: {kind}\n" if cursor is None else f"id: {cursor}\nevent: {kind}\n"
    lines = b"\ndata: ".join(data.splitlines())  # what a payload holds may have line breaks
    return b"%sdata: %s\n\n" % (head.encode(), lines)


def _data(kind: type[Any], value: object) -> bytes:
    dump = shape_of(kind).dump
    assert dump is not None
    return msgspec.json.encode(dump(value))


def _only(asked: Mapping[str, str], name: str) -> None:
    for other in asked:
        if other != name:
            raise UsageError(f"{limits.shown(other)} is not a field of the query: it has {name}")


def _ids(text: str, most: int) -> tuple[int, ...]:
    ids = text.split(",")
    if not 1 <= len(ids) <= most or not all(re.fullmatch(r"[0-9]{1,19}", one) for one in ids):
        raise UsageError(f"ids: 1 to {most:,} ids of messages with commas between, such as 1,2")
    return limits.message_ids([int(one) for one in ids])


async def _check_level(caller: AuthorizedStore, queue: str) -> None:
    entry = await caller.run(v.QueueGet(queue))
    if entry.settings.events == "off":
        raise UsageError(
            f"the queue {queue!r} has no events: set its `events` to all, or to hints to be told "
            "that something has changed"
        )


# --- how it is sent ------------------------------------------------------------------------------


async def _stream(request: Request, caller: AuthorizedStore, parts: AsyncGenerator[bytes]) -> None:
    """Write what comes until it ends, or the client has gone. One that has to give its place up
    breaks off: its client comes back.
    """
    begun = False
    try:
        async with caller.waiter():
            begun = True
            await _write(request, parts)
    except Busy:
        if not begun:
            raise


async def _write(request: Request, parts: AsyncGenerator[bytes]) -> None:
    send = request._send

    async def write(part: bytes) -> None:
        await send({"type": "http.response.body", "body": part, "more_body": True})

    await request.body()  # then all that is still to be received is the end of the connection
    gone = asyncio.ensure_future(request.receive())
    checked_at = time.monotonic()
    try:
        await send({"type": "http.response.start", "status": 200, "headers": _HEADERS})
        await write(_BEGIN)
        try:
            async with aclosing(_kept_alive(parts, gone)) as all_parts:
                async for part in all_parts:
                    if (now := time.monotonic()) - checked_at >= STAY_SECONDS:
                        if not await _may_stay(request):
                            break
                        checked_at = now
                    await write(part)
        except TurnaboutError as error:
            await write(_event("error", wire.error_body(error)[1]))
        await send({"type": "http.response.body", "body": b""})
    finally:
        gone.cancel()
        await parts.aclose()


async def _may_stay(request: Request) -> bool:
    """Whether the token that the stream was opened with still is good."""
    caller: AuthorizedStore = request.state.caller
    try:
        return await caller.services.authenticator.still_opens(caller.rights)
    except Unavailable:
        return True  # nobody knows now


async def _kept_alive(
    parts: AsyncGenerator[bytes], gone: asyncio.Future[Any]
) -> AsyncGenerator[bytes]:
    """The parts, and a comment where none comes for a while."""
    coming: asyncio.Future[bytes | None] | None = None
    try:
        while not gone.done():
            coming = coming or asyncio.ensure_future(anext(parts, None))
            await asyncio.wait(
                {coming, gone}, timeout=ALIVE_SECONDS, return_when=asyncio.FIRST_COMPLETED
            )
            part = _ALIVE
            if coming.done():
                found, coming = coming.result(), None
                if found is None:
                    return
                part = found
            yield part
    finally:
        if coming is not None:
            coming.cancel()
            await asyncio.wait({coming})
