"""The place of a request: its caller, and the addresses and ARNs of queues as he knows them."""

from __future__ import annotations

import re
import time
from dataclasses import dataclass
from hashlib import sha256
from typing import Any

from starlette.requests import Request

from turnabout.server.auth.authorized_store import AuthorizedStore
from turnabout.sqs.errors import SqsError, no_queue
from turnabout.words.entities import QueueEntry, Receipt
from turnabout.words.errors import QueueNotFound, UsageError
from turnabout.words.limits import plain_name
from turnabout.words.namespaces import NO_NAMESPACE
from turnabout.words.verbs import QueueGet, Verb

REGION = "us-east-1"
KNOWN_SECONDS = 1.0
"""Time for which a queue's settings are believed. So long after another process has deleted it, a
message may make it anew. (SQS takes up to a minute.)
"""
KEPT_MAX = 10_000


@dataclass(frozen=True, slots=True)
class NamedReceive:
    """A receive that named itself, so that it can be repeated: its answer, and its receipts."""

    until: float
    answer: dict[str, Any]
    receipts: tuple[Receipt, ...]


class SqsMemory:
    """Things that one process remembers, all of them by namespace and queue."""

    def __init__(self) -> None:
        self._queues: dict[tuple[str, str], tuple[float, QueueEntry]] = {}
        self.attempts: dict[tuple[str, str, str], NamedReceive] = {}
        self.first: dict[tuple[str, str, int], int] = {}
        """Times at which messages were received first."""

    async def find(self, caller: AuthorizedStore, name: str, *, fresh: bool = False) -> QueueEntry:
        """The queue, as it was a moment ago unless `fresh`.

        Raises: SqsError if there is none, and as `AsyncStore.run`.
        """
        key = caller.namespace, name
        until, entry = self._queues.get(key, (0.0, None))
        if entry is not None and time.monotonic() < until and not fresh:
            return entry
        try:
            # The caller's rights were checked: to act on a queue is to learn what it is.
            entry = await caller.insider().run(QueueGet(name))
        except QueueNotFound as error:
            raise no_queue() from error
        keep(self._queues, key, (time.monotonic() + KNOWN_SECONDS, entry))
        return entry

    def forget(self, caller: AuthorizedStore, name: str) -> None:
        """Look a queue up anew."""
        self._queues.pop((caller.namespace, name), None)


def keep(memory: dict[Any, Any], key: Any, value: Any, most: int = KEPT_MAX) -> None:
    """Remember something, and forget the oldest if that is too much."""
    while len(memory) >= most:
        del memory[next(iter(memory))]
    memory[key] = value


@dataclass(frozen=True)
class SqsPlace:
    """A request's caller, and the names of things for him."""

    request: Request
    caller: AuthorizedStore
    region: str
    prefix: str
    """The path of the API: `/sqs`, or nothing."""
    memory: SqsMemory
    payload_bytes_max: int
    """The server's limit, under which a queue's may be."""

    @property
    def account(self) -> str:
        """The number of the account: of the namespace."""
        if self.caller.namespace == NO_NAMESPACE:
            return "0" * 12
        digest = sha256(self.caller.namespace.encode()).digest()
        return str(int.from_bytes(digest[:8], "big"))[-12:].rjust(12, "1")

    def url(self, name: str) -> str:
        """The address of a queue, by the name of the host that the client uses."""
        url = self.request.url
        return f"{url.scheme}://{url.netloc}{self.prefix}/{self.account}/{name}"

    def arn(self, name: str) -> str:
        """The ARN of a queue."""
        return f"arn:aws:sqs:{self.region}:{self.account}:{name}"

    def name(self, url: str) -> str:
        """The queue that an address names, whatever the host. Raises: SqsError."""
        name = url.partition("?")[0].rpartition("/")[2]
        try:
            return plain_name(name)
        except UsageError as error:
            if re.fullmatch(r"[A-Za-z0-9_.-]{1,85}", name):
                raise no_queue() from error
            text = f"The address {url[:200]} is not valid for this endpoint."
            raise SqsError("InvalidAddress", text, 404) from error

    async def queue(self, name: str, verb: type[Verb[Any]], *, fresh: bool = False) -> QueueEntry:
        """The queue, for a caller who may do that to it. `name`: or its address.

        Raises: Forbidden, and as `SqsMemory.find`.
        """
        plain = self.name(name)
        self.caller.rights.need(verb, plain)
        return await self.memory.find(self.caller, plain, fresh=fresh)
