"""The place of a request: its caller, and the addresses and ARNs of queues as he knows them."""

from __future__ import annotations

import re
import time
from dataclasses import dataclass
from hashlib import sha256
from urllib.parse import urlsplit

from starlette.requests import Request

from turnabout.server.auth.authorized_store import AuthorizedStore
from turnabout.sqs.errors import SqsError, no_queue
from turnabout.words.entities import QueueEntry
from turnabout.words.errors import QueueNotFound, UsageError
from turnabout.words.limits import plain_name
from turnabout.words.namespaces import NO_NAMESPACE
from turnabout.words.verbs import QueueGet

REGION = "us-east-1"
KNOWN_SECONDS = 1.0
"""Time for which a queue's settings are believed. So long after another process has deleted it, a
message may make it anew. (SQS takes up to a minute.)
"""
KNOWN_MAX = 10_000


class KnownQueues:
    """Queues that were looked up a moment ago, by namespace and name."""

    def __init__(self) -> None:
        self._known: dict[tuple[str, str], tuple[float, QueueEntry]] = {}

    async def find(self, caller: AuthorizedStore, name: str) -> QueueEntry:
        """The queue. Raises: SqsError if there is none; as `AsyncStore.run`."""
        key = caller.namespace, name
        until, entry = self._known.get(key, (0.0, None))
        if entry is not None and time.monotonic() < until:
            return entry
        try:
            # Whoever may do something to the queue learns what it is; the rest is his rights'.
            entry = await caller.insider().run(QueueGet(name))
        except QueueNotFound as error:
            raise no_queue() from error
        if len(self._known) >= KNOWN_MAX:
            self._known.clear()
        self._known[key] = time.monotonic() + KNOWN_SECONDS, entry
        return entry

    def forget(self, caller: AuthorizedStore, name: str) -> None:
        """Look it up anew."""
        self._known.pop((caller.namespace, name), None)


@dataclass(frozen=True)
class SqsPlace:
    """A request's caller, and the names of things for him."""

    request: Request
    caller: AuthorizedStore
    region: str
    prefix: str
    """The path of the API: `/sqs`, or nothing."""
    known: KnownQueues
    attempts: dict[tuple[str, str, str], tuple[float, bytes]]
    """Answers of receives from FIFO queues that name their attempt."""

    @property
    def account(self) -> str:
        """The number of the account: of the namespace."""
        if self.caller.namespace == NO_NAMESPACE:
            return "0" * 12
        digest = sha256(self.caller.namespace.encode()).digest()
        return str(int.from_bytes(digest[:8], "big"))[-12:].rjust(12, "1")

    def url(self, name: str) -> str:
        """The address of a queue, by the name of the host that the client uses."""
        asked = self.request.url
        return f"{asked.scheme}://{asked.netloc}{self.prefix}/{self.account}/{name}"

    def arn(self, name: str) -> str:
        """The ARN of a queue."""
        return f"arn:aws:sqs:{self.region}:{self.account}:{name}"

    def name(self, url: str) -> str:
        """The queue that an address names, whatever the host. Raises: SqsError."""
        name = urlsplit(url).path.rpartition("/")[2] if url.isprintable() else ""
        try:
            return plain_name(name)
        except UsageError as error:
            if re.fullmatch(r"[A-Za-z0-9_.-]{1,85}", name):
                raise no_queue() from error
            text = f"The address {url[:200]} is not valid for this endpoint."
            raise SqsError("InvalidAddress", text, 404) from error

    async def queue(self, url: str) -> QueueEntry:
        """The queue at an address. Raises: as `KnownQueues.find`."""
        return await self.known.find(self.caller, self.name(url))
