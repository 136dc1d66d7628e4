"""ToxMQ's API. Source: github.com/toxsickcoder/tox-mq, README and routes.

ToxMQ's bugs are not copied; facts that its answers cannot express are in headers (see `answers`).
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from functools import partial
from typing import Any, cast

import msgspec
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute

from turnabout.compat import answers, filters
from turnabout.compat.answers import FENCE, CompatError, json, text
from turnabout.compat.unfenced import Unfenced, fence
from turnabout.server.api.health import Health, problems
from turnabout.server.auth.authorized_store import AuthorizedStore
from turnabout.server.context import ServerContext
from turnabout.server.http.delivery_response import DeliveryResponse, has_gone
from turnabout.wire import listed
from turnabout.words import limits
from turnabout.words.entities import Delivery, Outgoing, Peeked
from turnabout.words.errors import QueueNotFound, UsageError
from turnabout.words.limits import ID_MAX, LEASE_SECONDS_MAX, RECEIVE_MESSAGES_MAX
from turnabout.words.outcomes import Extended, Received, Sent
from turnabout.words.payload import JSON
from turnabout.words.verbs import Ack, Extend, Peek, Receive, Send, Stats

EXPIRES_SECONDS = 300.0
"""ToxMQ's standard, for a lease and for a dedup window."""
PEEK_AMOUNT = 20
PEEK_LOOKED_MAX = 10_000
"""Messages that one peek looks at, at most."""
PEEK_BYTES_MAX = 4 * 1024 * 1024
"""Payload bytes in one answer; it ends after the message that passes this."""
CUT = "Turnabout-Cut"
"""Header of a peek that ended at one of these bounds: more messages may match."""

_PAGE = 100
_ID = re.compile(r"[0-9a-fA-F]{24}")
_SECONDS = re.compile(r"[0-9]{1,9}(\.[0-9]{1,9})?")


def routes(context: ServerContext) -> Sequence[BaseRoute]:
    """ToxMQ's routes, but for `/metrics`, which is ours on the same port."""
    toxmq = _ToxMq(context)
    found: list[BaseRoute] = []
    for path, handlers in (
        ("/queue/{queue}/push", {"POST": toxmq.push}),
        ("/queue/{queue}/pop", {"POST": toxmq.pop}),
        ("/queue/{queue}/pop/{amount}", {"POST": toxmq.pop_many}),
        ("/queue/{queue}/ack", {"POST": toxmq.ack}),
        ("/queue/{queue}/ping", {"POST": toxmq.ping}),
        ("/queue/{queue}/peek", {"GET": toxmq.peek}),
        ("/queue/{queue}/size", {"GET": toxmq.size}),
    ):
        found += answers.on(context, path, handlers)
    return [*found, *answers.open_to_all("/health", toxmq.health)]


class _ToxMq:
    """An action for each of ToxMQ's routes."""

    def __init__(self, context: ServerContext) -> None:
        self._context = context
        self._unfenced = Unfenced()
        self._health = Health(context)
        context.lifecycle.on_close.append(self._health.close)

    async def push(self, request: Request, caller: AuthorizedStore) -> Response:
        """POST push?hashCode&expiresIn: an object is one message, a list many, all or none."""
        queue = _queue(request)
        key = answers.one(request, "hashCode")
        seconds = _expires_in(request, limits.DELAY_SECONDS_MAX)
        payloads = self._payloads(await request.body())
        if not payloads:
            return Response(status_code=204)
        messages = tuple(
            Outgoing(payload, JSON, **_dedup(key, place, seconds))
            for place, payload in enumerate(payloads)
        )
        outcome = await caller.run(Send(queue, messages))
        if not isinstance(outcome, Sent):
            return answers.refuse_full(outcome)
        return Response(status_code=204 if len(outcome.duplicates) == len(messages) else 201)

    async def pop(self, request: Request, caller: AuthorizedStore) -> Response:
        """POST pop?expiresIn: one message, or 204."""
        found = await self._pop(request, caller, 1)
        if not found.deliveries:
            return Response(status_code=204)
        return DeliveryResponse(caller, _queue(request), found, map(_popped, found.deliveries))

    async def pop_many(self, request: Request, caller: AuthorizedStore) -> Response:
        """POST pop/{amount}?expiresIn: a list of messages, or 204."""
        amount = answers.whole_number(request.path_params["amount"], "amount")
        if amount < 0:
            raise CompatError(400, f"amount is 0 or more, not {amount}")
        found = await self._pop(request, caller, amount) if amount else Received(())
        if not found.deliveries:
            return Response(status_code=204)
        pieces = listed(map(_popped, found.deliveries))
        return DeliveryResponse(caller, _queue(request), found, pieces)

    async def ack(self, request: Request, caller: AuthorizedStore) -> Response:
        """POST ack, a list of ids: 204, and a header that says whether they were leased."""
        queue = _queue(request)
        ids = self._ids(await request.body())
        try:
            outcomes = await self._unfenced.settle(caller, queue, ids, lambda rs: Ack(queue, rs))
        except QueueNotFound as error:
            return Response(None, 204, {FENCE: "no-lease", **answers.missing(error)})
        return Response(None, 204, {FENCE: fence(outcomes)})

    async def ping(self, request: Request, caller: AuthorizedStore) -> Response:
        """POST ping?expiresIn, a list of ids: until when all are held now; `null`: none is."""
        queue = _queue(request)
        lease_ms = _lease_ms(request)
        ids = self._ids(await request.body())
        try:
            outcomes = await self._unfenced.settle(
                caller, queue, ids, lambda rs: Extend(queue, rs, lease_ms)
            )
        except QueueNotFound as error:
            return json({"expiryDate": None}, {FENCE: "no-lease", **answers.missing(error)})
        until = [outcome.lease_until for outcome in outcomes if isinstance(outcome, Extended)]
        return json({"expiryDate": _date(min(until)) if until else None}, {FENCE: fence(outcomes)})

    async def peek(self, request: Request, caller: AuthorizedStore) -> Response:
        """GET peek?amount&offset&filter: messages by age, held ones too, or 204."""
        queue = _queue(request)
        amount = _count(request, "amount", PEEK_AMOUNT, 1, limits.PEEK_MESSAGES_MAX)
        offset = _count(request, "offset", 0, 0, PEEK_LOOKED_MAX)
        expression = answers.one(request, "filter")
        matches = None if expression is None else filters.parse(expression)
        found, is_cut = await self._find(caller, queue, offset, amount, matches)
        headers = {CUT: "yes"} if is_cut else {}
        return json(found, headers) if found else Response(None, 204, headers)

    async def size(self, request: Request, caller: AuthorizedStore) -> Response:
        """GET size: all messages, held ones too."""
        try:
            (stats,) = await caller.run(Stats(_queue(request)))
        except QueueNotFound as error:
            return json({"size": 0}, answers.missing(error))
        return json({"size": stats.scheduled + stats.ready + stats.leased})

    async def health(self, request: Request) -> Response:
        """GET /health, without a token: a word, and 500 where it is a bad one."""
        if problems(await self._health.checks()):
            return text(500, "UNHEALTHY")
        return text(200, "HEALTHY")

    async def _pop(self, request: Request, caller: AuthorizedStore, amount: int) -> Received:
        queue = _queue(request)
        most = min(amount, RECEIVE_MESSAGES_MAX, self._context.options.max_messages)
        verb = Receive(queue, most, _lease_ms(request))
        try:
            received = await caller.receive(verb, 0.0, partial(has_gone, request))
        except QueueNotFound:
            return Received(())
        self._unfenced.saw(received.deliveries)
        return received

    async def _find(
        self,
        caller: AuthorizedStore,
        queue: str,
        offset: int,
        amount: int,
        matches: filters.Matches | None,
    ) -> tuple[list[dict[str, Any]], bool]:
        """Matching messages, and whether the search ended at a bound."""
        found: list[dict[str, Any]] = []
        looked = skipped = size = after_id = 0
        while len(found) < amount:
            if looked >= PEEK_LOOKED_MAX or size >= PEEK_BYTES_MAX:
                return found, True
            try:
                page = await caller.run(Peek(queue, _PAGE, after_id=after_id))
            except QueueNotFound:
                return found, False
            looked += len(page)
            for message in page:
                after_id = message.id
                if matches is not None and not matches(_document(message)):
                    continue
                if skipped < offset:
                    skipped += 1
                elif len(found) < amount and size < PEEK_BYTES_MAX:
                    found.append(_peeked(message))
                    size += len(message.payload)
                elif len(found) < amount:
                    return found, True
            if len(page) < _PAGE:
                break
        return found, False

    def _payloads(self, body: bytes) -> Sequence[bytes]:
        value: object = answers.strict_json(body) if body.strip() else {}
        if isinstance(value, dict):
            payloads: Sequence[bytes] = (body.strip() or b"{}",)
        elif isinstance(value, list):
            payloads = [bytes(raw) for raw in msgspec.json.decode(body, type=list[msgspec.Raw])]
        else:
            raise UsageError("the body is one message (an object) or a list of them")
        self._check_number(len(payloads), "messages")
        for payload in payloads:
            answers.check_payload(self._context, payload)
        return payloads

    def _ids(self, body: bytes) -> list[int]:
        value: object = answers.strict_json(body)
        if not isinstance(value, list):
            raise UsageError("the body is a list of ids, as pop gave them")
        items = cast("list[object]", value)
        self._check_number(len(items), "ids")
        ids: list[int] = []
        for one in items:
            if not (isinstance(one, str) and _ID.fullmatch(one)):
                raise UsageError(f"{limits.shown(one)} is not an id: expected 24 hex digits")
            ids.append(int(one[8:], 16))
        return ids

    def _check_number(self, number: int, what: str) -> None:
        most = self._context.options.max_messages
        if number > most:
            raise CompatError(413, f"{number} {what} in one request, of at most {most}")


def _dedup(key: str | None, place: int, seconds: float) -> dict[str, Any]:
    """A key for each message of a list, by its place in it. One hash stands for one content, so a
    repeated list meets the keys of all its messages.
    """
    if not key or seconds == 0:  # a window of no length suppresses nothing
        return {}
    whole = f"{key}:{place}"
    if len(limits.utf8(whole, "hashCode")) > limits.DEDUP_KEY_BYTES_MAX:
        whole = f"{hashlib.sha256(key.encode()).hexdigest()}:{place}"
    window = limits.window_ms(max(seconds, 0.001))
    return {"dedup_key": whole, "dedup_mode": "window", "dedup_window_ms": window}


def _queue(request: Request) -> str:
    return request.path_params["queue"]


def _expires_in(request: Request, most: float) -> float:
    seconds = answers.one(request, "expiresIn")
    if seconds is None or not seconds:
        return EXPIRES_SECONDS
    if not _SECONDS.fullmatch(seconds) or float(seconds) > most:
        raise CompatError(400, f"expiresIn is 0 to {most:.0f} seconds, not {limits.shown(seconds)}")
    return float(seconds)


def _lease_ms(request: Request) -> int:
    return limits.lease_ms(max(_expires_in(request, LEASE_SECONDS_MAX), 0.001))


def _count(request: Request, name: str, usual: int, least: int, most: int) -> int:
    parameter = answers.one(request, name)
    value = usual if parameter is None else answers.whole_number(parameter, name)
    if not least <= value <= most:
        raise CompatError(400, f"{name} is {least} to {most}, not {value}")
    return value


def _id(id_: int, sent_at: int) -> str:
    """24 hex digits that begin with the second of sending, as MongoDB's do, and end with our id."""
    return f"{sent_at // 1000 & 0xFFFFFFFF:08x}{id_ & ID_MAX:016x}"


def _date(ms: int) -> str:
    return answers.moment(ms).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _popped(message: Delivery) -> bytes:
    return msgspec.json.encode(
        {
            "_id": _id(message.id, message.sent_at),
            "payload": answers.json_of(message.payload, message.content_type),
            "attempts": message.attempt,
            "expiryDate": _date(message.lease_until),
        }
    )


def _peeked(message: Peeked) -> dict[str, Any]:
    """A message in ToxMQ's form: no attempts before the first; error history of a dead one."""
    fields: dict[str, Any] = {
        "_id": _id(message.id, message.sent_at),
        "payload": answers.json_of(message.payload, message.content_type),
    }
    if message.attempt:
        fields["attempts"] = message.attempt
    if message.state == "leased":
        fields["expiryDate"] = _date(message.due_at)
    if (origin := message.origin) is not None:
        fields["origin"] = {
            "queue": origin.queue,
            "reason": origin.reason,
            "failures": origin.failures,
            "crashes": origin.crashes,
            "diedAt": _date(origin.died_at),
            "firstError": origin.first_error,
            "lastError": origin.last_error,
        }
    return fields


def _document(message: Peeked) -> dict[str, Any]:
    payload = msgspec.json.decode(answers.json_of(message.payload, message.content_type))
    return {"payload": payload, "attempts": message.attempt}
