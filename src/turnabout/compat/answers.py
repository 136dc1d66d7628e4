"""Parts that both compatibility APIs share: JSON, refusals, and payloads as JSON values."""

from __future__ import annotations

import base64
from collections.abc import Awaitable, Callable, Mapping
from datetime import UTC, datetime
from typing import Any

import msgspec
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Route

from turnabout.server.auth.authorized_store import AuthorizedStore
from turnabout.server.context import ServerContext
from turnabout.wire import error_body, retry_after
from turnabout.words.errors import QueueNotFound, TurnaboutError, Unauthorized, UsageError
from turnabout.words.limits import PAYLOAD_BYTES_MAX, shown
from turnabout.words.outcomes import ChannelFull, QueueFull
from turnabout.words.payload import encode

Handler = Callable[[Request, AuthorizedStore], Awaitable[Response]]

FENCE = "Turnabout-Fence"
"""`none`: the request carried no proof of a lease, and acted on the message's current lease.
`no-lease`: the message was not leased, so nothing happened.
"""
ERROR = "Turnabout-Error"
"""The error's code, in a header only: where a client takes no other status."""


class CompatError(Exception):
    """Ends a request with a status and a text in the words of the system that is spoken."""

    def __init__(self, status: int, text: str) -> None:
        super().__init__(text)
        self.status = status
        self.text = text


def on(
    context: ServerContext, path: str, handlers: Mapping[str, Handler], *, before_text: str = ""
) -> list[Route]:
    """The routes of a path: a handler for each method, with and without a slash at its end.

    `before_text` stands before the text of every error.
    """
    endpoint = _guarded(context, handlers, before_text)
    return _routes(path, frozenset(handlers), endpoint)


def open_to_all(path: str, endpoint: Callable[[Request], Awaitable[Response]]) -> list[Route]:
    """The routes of a path that anybody may GET, without a token."""
    return _routes(path, frozenset({"GET"}), endpoint)


def json(value: Any, headers: dict[str, str] | None = None) -> Response:
    """200 with a value as JSON."""
    return Response(msgspec.json.encode(value), 200, headers, "application/json")


def text(status: int, words: str, headers: dict[str, str] | None = None) -> Response:
    """A status with plain text."""
    return Response(words, status, headers, "text/plain")


def missing(error: QueueNotFound) -> dict[str, str]:
    """The header of an answer that the system gives for unknown queues, too."""
    return {ERROR: error.code}


def refuse_full(outcome: ChannelFull | QueueFull) -> Response:
    """Answer 409, the status that makes a client retry: neither system has limits of its own."""
    if isinstance(outcome, QueueFull):
        return text(409, f"the queue is full: {outcome.size} of {outcome.max_messages} messages")
    return text(409, f"the channel is full: {outcome.size} of {outcome.max_size} messages")


def one(request: Request, name: str) -> str | None:
    """The query's only value of that name, if there is one."""
    values = request.query_params.getlist(name)
    if len(values) > 1:
        raise CompatError(400, f"{name} is given more than once")
    return values[0] if values else None


def strict_json(body: bytes) -> Any:
    """The value of a JSON body. Raises: UsageError unless it is strict JSON."""
    try:
        value = msgspec.json.decode(body)
        encode(value)  # refuses what is nested too deep, and numbers beyond a double
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise UsageError(f"the body is not JSON: {error}") from error
    return value


def json_of(payload: bytes, content_type: str) -> msgspec.Raw:
    """A payload as a JSON value: JSON as it is, text as a string, other bytes as base64."""
    kind = content_type.partition(";")[0].strip().lower()
    if kind == "application/json" or kind.endswith("+json"):
        try:
            msgspec.json.decode(payload)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            pass  # its sender said so; it is text or bytes all the same
        else:
            return msgspec.Raw(payload)
    try:
        return msgspec.Raw(msgspec.json.encode(payload.decode()))
    except UnicodeDecodeError:
        return msgspec.Raw(msgspec.json.encode(base64.b64encode(payload).decode()))


def check_payload(context: ServerContext, payload: bytes, usual: int = PAYLOAD_BYTES_MAX) -> None:
    """Refuse, with 413, a payload over the server's limit; `usual`: unless that was set."""
    most = context.options.max_payload_bytes
    most = usual if most == PAYLOAD_BYTES_MAX else most
    if len(payload) > most:
        raise CompatError(413, f"length limit exceeded: {len(payload)} bytes of at most {most}")


def moment(ms: int) -> datetime:
    """An instant; `ms` since 1970, capped at the latest that a datetime can hold."""
    return datetime.fromtimestamp(min(ms, 253_402_300_799_999) / 1000, UTC)


def whole_number(value: str, name: str) -> int:
    """A whole number out of a path or query."""
    digits = value.removeprefix("-")
    if not (digits.isascii() and digits.isdigit() and len(digits) <= 18):
        raise CompatError(400, f"{name} is a whole number, not {shown(value)}")
    return int(value)


def _routes(
    path: str, methods: frozenset[str], endpoint: Callable[[Request], Awaitable[Response]]
) -> list[Route]:
    # The one without a slash stands last: it is the name of both in logs and metrics.
    found = [Route(where, endpoint) for where in (f"{path}/", path)]
    for route in found:
        # A HEAD must not do what GET does here, as it would beside it: hq's GET leases a message.
        route.methods = set(methods)
    return found


def _guarded(
    context: ServerContext, handlers: Mapping[str, Handler], before_text: str
) -> Callable[[Request], Awaitable[Response]]:
    async def endpoint(request: Request) -> Response:
        try:
            return await handlers[request.method](request, await context.caller(request))
        except CompatError as refused:
            return text(refused.status, refused.text)
        except TurnaboutError as error:
            return _refusal(error, before_text)
        except ClientDisconnect:
            return Response(status_code=400)  # nobody reads it

    return endpoint


def _refusal(error: TurnaboutError, before_text: str) -> Response:
    status, body = error_body(error)
    details = msgspec.json.decode(body)["error"]
    headers = {ERROR: details["code"]}
    if (seconds := retry_after(error)) is not None:
        headers["Retry-After"] = seconds
    if isinstance(error, Unauthorized):
        headers["WWW-Authenticate"] = "Bearer"
    return text(status, before_text + details["message"], headers)
