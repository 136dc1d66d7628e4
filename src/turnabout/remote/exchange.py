"""Verbs as requests and answers as outcomes: all that a client decides, without network.

The steps of a verb are a generator: it asks for a request to be carried to the server, and is given
what came of that, an `Answer` or the library's exception. Either colour of the store drives it.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, NoReturn, TypeVar, cast
from urllib.parse import quote

import httpx2

from turnabout import wire
from turnabout.remote.address import Address
from turnabout.remote.refusals import not_for_clients
from turnabout.words.errors import (
    Busy,
    Disconnected,
    Forbidden,
    TurnaboutError,
    Unavailable,
    Uncertain,
    UsageError,
    WrongVersion,
)
from turnabout.words.verb import Change
from turnabout.words.verbs import Endings, Verb

A = TypeVar("A")

ANSWER_BYTES_MAX = 512 * 1024 * 1024
"""Twice the longest payload; what sends more is not our server."""

NOT_SENT = (httpx2.ConnectError, httpx2.ConnectTimeout, httpx2.ProxyError)
"""No connection was made, so nothing was asked."""
FROM_BETWEEN = {502: True, 503: False, 504: True}
"""The answers of a proxy for a server that it cannot reach; True: it may have reached it before."""


class Endless(httpx2.TransportError):
    """An answer that does not end."""


@dataclass(slots=True)
class Answer:
    """The response."""

    status: int
    is_plain: bool
    """Neither compressed nor anything else than JSON; of what is not, the body is not read."""
    content_type: str
    parts: list[bytes] = field(default_factory=list[bytes])
    size: int = 0

    @classmethod
    def of(cls, response: httpx2.Response) -> Answer:
        """An answer whose body is still to come."""
        headers = response.headers
        content_type = headers.get("content-type", "")
        is_json = content_type.partition(";")[0].strip() == "application/json"
        is_plain = is_json and "content-encoding" not in headers
        return cls(response.status_code, is_plain, content_type)

    def add(self, part: bytes) -> None:
        """One more piece of the body. Raises: Endless."""
        self.size += len(part)
        if self.size > ANSWER_BYTES_MAX:
            raise Endless(f"it has over {ANSWER_BYTES_MAX:,} bytes")
        self.parts.append(part)

    @property
    def body(self) -> bytes:
        """Return the whole body."""
        return self.parts[0] if len(self.parts) == 1 else b"".join(self.parts)


Got = Answer | httpx2.TransportError
Steps = Generator[httpx2.Request, Got, A]


class ServerVersion(NamedTuple):
    """A server's version of a queue, which means nothing to another server."""

    version: int
    instance: str


class Exchange:
    """Talks with one server."""

    def __init__(self, address: Address) -> None:
        self.address = address
        try:
            self._base = httpx2.URL(address.base)
        except httpx2.InvalidURL as error:
            raise UsageError(f"the URL of the server cannot be read: {error}") from None
        self._headers = [
            (b"host", self._base.netloc),
            (b"accept", b"application/json"),
            (b"accept-encoding", b"identity"),
            (b"user-agent", b"turnabout-python"),
        ]
        if address.token is not None:
            self._headers.append((b"authorization", f"Bearer {address.token}".encode()))
        self.context: Callable[[], Mapping[str, str]] | None = None
        """Headers that hand a trace's context on, where there are spans."""
        self._urls: dict[str, httpx2.URL] = {}
        self._patience = _timeouts(address, address.timeout_seconds)

    def run(self, verb: Verb[A]) -> Steps[A]:
        """A verb."""
        kind: type[Verb[A]] = type(verb)
        if kind not in wire.ROUTE_OF:
            raise not_for_clients(verb)
        answer, place = yield from self._part(verb)
        if kind.pages is not None:
            items = cast("Any", answer)
            while place is not None and (rest := kind.pages.rest(verb, items, place)) is not None:
                more, place = yield from self._part(rest)
                items += more
            return items
        return answer

    def _part(self, verb: Verb[A]) -> Steps[tuple[A, Any]]:
        """One answer, and where a list goes on that is too long for it."""
        wire_request = wire.request_of(verb)
        request = self._request(wire_request.method, wire_request.path, wire_request.body)
        reads = wire_request.method == "GET" or verb.name == Endings.name
        answer = yield from self._ask(request, verb.name, reads=reads)
        kind: type[Verb[A]] = type(verb)
        return self._read(answer, verb.name, lambda body: wire.load_part(kind, body), reads=reads)

    def transaction(self, verbs: Sequence[Verb[Any]], *, all_or_none: bool) -> Steps[list[Any]]:
        """Some verbs in one transaction."""
        if len(verbs) > wire.TRANSACTION_VERBS_MAX:
            raise UsageError(
                f"a server runs at most {wire.TRANSACTION_VERBS_MAX} verbs in one transaction, not "
                f"{len(verbs):,}: send many messages to a queue by one `send_many`"
            )
        for verb in verbs:
            if type(verb) not in wire.ROUTE_OF:
                raise not_for_clients(verb)
        body = wire.dump_transaction(verbs, all_or_none=all_or_none)
        request = self._request("POST", "/v1/transaction", body)
        name = "a batch"
        answer = yield from self._ask(request, name, reads=False)
        return self._read(
            answer, name, lambda body: wire.load_transaction_answer(verbs, body), reads=False
        )

    def version(
        self, queue: str, change: Change, seen: ServerVersion | None, seconds: float
    ) -> Steps[ServerVersion]:
        """The version of a queue, as far as these changes go, as soon as it differs from `seen`, or
        after `seconds`.
        """
        target = f"/v1/queues/{quote(queue, safe='')}/signal?change={_word(change)}"
        if seen is not None:
            target += (
                f"&seen={seen.version}&instance={quote(seen.instance, safe='')}"
                f"&wait_seconds={seconds:g}"
            )
        request = self._request("GET", target, None)
        request.extensions["timeout"] = _timeouts(
            self.address, seconds + self.address.timeout_seconds
        )
        answer = yield from self._ask(request, "signal", reads=True)
        return self._read(answer, "signal", _version, reads=True)

    # --- requests --------------------------------------------------------------------------------

    def _request(self, method: str, target: str, body: bytes | None) -> httpx2.Request:
        headers = list(self._headers)
        if self.context is not None:
            headers += [(name.encode(), text.encode()) for name, text in self.context().items()]
        if method != "GET":
            body = body or b""
            headers.append((b"content-length", b"%d" % len(body)))
            headers.append((b"content-type", b"application/json"))
        return httpx2.Request(
            method,
            self._url(target),
            headers=headers,
            stream=httpx2.ByteStream(body or b""),
            extensions={"timeout": self._patience},
        )

    def _url(self, target: str) -> httpx2.URL:
        """Reading a URL costs more than all the rest: those of verbs on a queue are kept."""
        url = self._urls.get(target)
        if url is None:
            path = self._base.raw_path.rstrip(b"/") + target.encode("ascii")
            url = self._base.copy_with(raw_path=path)
            if "?" not in target:
                if len(self._urls) >= 1_000:
                    self._urls.clear()
                self._urls[target] = url
        return url

    # --- answers ---------------------------------------------------------------------------------

    def _ask(self, request: httpx2.Request, name: str, *, reads: bool) -> Steps[Answer]:
        got = yield request
        if reads and isinstance(got, (httpx2.ReadError, httpx2.RemoteProtocolError)):
            # A server that was restarted leaves dead connections behind: once more, on a new one.
            got = yield request
        if isinstance(got, Answer):
            return got
        raise self._lost(got, name, reads=reads) from got

    def _lost(self, error: httpx2.TransportError, name: str, *, reads: bool) -> TurnaboutError:
        """No answer: did it happen?"""
        at = self.address
        what = str(error) or type(error).__name__
        if isinstance(error, httpx2.PoolTimeout):
            return Busy(
                f"all {at.max_connections} connections to {at} were busy for "
                f"{at.timeout_seconds:g} seconds: nothing happened, repeat the call"
            )
        if isinstance(error, NOT_SENT):
            return Disconnected(f"no server can be reached at {at} ({what}): nothing happened")
        if isinstance(error, httpx2.TimeoutException):
            what = f"none came in {at.timeout_seconds:g} seconds"
        if reads:
            return Disconnected(f"no answer from {at} to {name} ({what}): it only reads, repeat it")
        return Uncertain(f"no answer from {at} to {name} ({what}): it may have happened")

    def _read(self, answer: Answer, name: str, load: Callable[[bytes], A], *, reads: bool) -> A:
        """The outcome. Raises: what the server says, or that it is not ours."""
        status = answer.status
        if not answer.is_plain:
            self._stranger(answer, name, reads=reads)
        is_outcome = status == 200 or (status == 409 and b'"error"' not in answer.body[:20])
        if not is_outcome:
            if not _is_error(answer.body):
                self._stranger(answer, name, reads=reads)
            raise wire.load_error(status, answer.body)
        try:
            return load(answer.body)
        except (Uncertain, ValueError) as error:
            reason = (
                f"{self.address} answered {name} with JSON that this version of turnabout does not "
                f"know ({error}): is it a Turnabout server, and no newer one than this?"
            )
            raise (WrongVersion(reason) if reads else Uncertain(reason)) from error

    def _stranger(self, answer: Answer, name: str, *, reads: bool) -> NoReturn:
        """The answer of a proxy in front of our server, or of a server of another kind."""
        status, at = answer.status, self.address
        kind = answer.content_type.partition(";")[0].strip() or "no content type"
        reason = f"{at} answered {name} with status {status} and {kind}"
        if status in FROM_BETWEEN:
            if FROM_BETWEEN[status] and not reads:
                raise Uncertain(f"{reason}, so the server behind it may have done it")
            raise Disconnected(f"{reason}: the server behind it cannot be reached; repeat it later")
        if status == 429:
            raise Unavailable(f"{reason}: something in front of the server wants fewer requests")
        if status in (401, 403, 407):
            raise Forbidden(f"{reason}: something in front of the server wants other credentials")
        if status == 413:
            raise UsageError(f"{reason}: something in front of the server wants shorter requests")
        if status >= 500 and not reads:
            raise Uncertain(f"{reason}: it may have happened")
        raise UsageError(
            f"{reason}: that is not a Turnabout server; check host, port and path of the URL"
        )


def _timeouts(address: Address, seconds: float) -> dict[str, float]:
    return {
        "connect": address.connect_seconds,
        "read": seconds,
        "write": address.timeout_seconds,
        "pool": address.timeout_seconds,
    }


def _word(change: Change) -> str:
    return str(change.name).lower()


def _is_error(body: bytes) -> bool:
    """Whether it is the one form that our errors have."""
    try:
        match json.loads(body):
            case {"error": {"code": str(), "message": str()}}:
                return True
            case _:
                return False
    except (ValueError, RecursionError):
        return False


def _version(body: bytes) -> ServerVersion:
    match json.loads(body):
        case {"signal": int(version), "instance": str(instance)}:
            return ServerVersion(version, instance)
        case _:
            raise ValueError("no number and no instance")
