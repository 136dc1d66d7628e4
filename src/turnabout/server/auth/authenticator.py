"""Authentication: by the token of a request; with `auth=none`, by its coming from this machine.
A token comes in the header `Authorization`, never in the address, and is not kept: only its id and
the digest that the database has. No text of an error, no log and no repr holds a secret.
"""

from __future__ import annotations

import asyncio
import binascii
import ipaddress
import time
from base64 import b64decode
from collections.abc import Callable, Sequence
from hashlib import sha256
from hmac import compare_digest
from typing import Any, TypeVar

from starlette.types import Scope

from turnabout.server.auth.rights import Rights
from turnabout.server.options import ServerOptions, is_loopback
from turnabout.server.tenants.quotas import Bucket, Quotas
from turnabout.server.verbs import (
    SIGN,
    FoundToken,
    TokenCreate,
    TokenFind,
    TokenList,
    new_token,
    parse_token,
    scopes,
    token_text,
)
from turnabout.store import AsyncStore
from turnabout.words.errors import TooManyRequests, Unauthorized
from turnabout.words.namespaces import NO_NAMESPACE
from turnabout.words.urls import TOKEN_PREFIX

K = TypeVar("K")
V = TypeVar("V")

FOUND_SECONDS = 5.0
"""Cache time of a valid token; a revocation takes effect after it."""
UNKNOWN_SECONDS = 1.0
"""Cache time of an unknown id."""
UNKNOWN_PER_SECOND = 100
"""Lookups of unknown ids in the database. Each made-up id costs one."""
UNKNOWN_PER_CLIENT = UNKNOWN_PER_SECOND // 2
"""Such lookups for one client: one that makes ids up leaves some for tokens that are new here."""
CACHED_MAX = 10_000
"""Tokens, and unknown ids, that are kept in mind."""

MAKE_ONE = "`turnabout token create`"
REFUSED = (
    "this needs a token that is known, not revoked and not expired, in the header "
    f"`Authorization: Bearer {TOKEN_PREFIX}…`: {MAKE_ONE} makes one, and Turnabout's own clients "
    "find it in TURNABOUT_TOKEN"
)
FIRST_LABEL = "first"
FIRST_SCOPES = ("operate", "totals")


class _Known:
    """A token that was found, for some seconds; None in its place is an unknown id."""

    __slots__ = ("digest", "rights", "until")

    def __init__(self, digest: bytes, rights: Rights, until: float) -> None:
        self.digest = digest
        self.rights = rights
        self.until = until


class Authenticator:
    """Turns the credential of a request into the rights that it has."""

    def __init__(
        self, store: AsyncStore, options: ServerOptions, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.store = store
        self._options = options
        self._clock = clock
        self.quotas = Quotas(store, self._now)
        """Quotas of all namespaces."""
        self._seen: dict[bytes, _Known] = {}
        """Tokens by the digest of the whole header, so that most requests cost one lookup."""
        self._known: dict[str, _Known] = {}
        """Tokens by id."""
        self._unknown: dict[str, float] = {}
        """Unknown token ids, with their cache expiry."""
        self._strangers = Bucket(UNKNOWN_PER_SECOND, clock())
        self._strangers_of: dict[str, Bucket] = {}
        """Buckets of unknown ids, by the client's address."""
        self._finding: dict[str, asyncio.Task[_Known | None]] = {}
        self._everybody = Rights()

    def _now(self) -> float:
        return self._clock()

    async def authenticate(self, scope: Scope) -> Rights:
        """The rights of the caller; counts a request of its namespace.

        Raises: Unauthorized, TooManyRequests, and like `AsyncStore.run` where a token has to be
        looked up.
        """
        rights = await self._rights(scope)
        if rights.token is not None:
            self.quotas.request(rights.namespace)
        return rights

    async def _rights(self, scope: Scope) -> Rights:
        header = _authorization(scope)
        if header is not None:
            seen = sha256(header).digest()  # no secret is kept, not even in memory
            known = self._seen.get(seen)
            if known is not None and known.until > self._clock():
                return known.rights
            shown = _token_in(header)
            if shown is not None and shown.startswith(TOKEN_PREFIX):
                known = await self._found(shown, (scope.get("client") or ("",))[0])
                _keep(self._seen, seen, known)
                return known.rights
        if self._needs_token(scope):
            raise Unauthorized(REFUSED)
        return self._everybody

    def believed(self, scope: Scope) -> Rights | None:
        """The rights of a token that was valid when the database was last asked, at any time
        before: for requests that can be answered while the database is away. None for any other.
        """
        header = _authorization(scope)
        seen = None if header is None else self._seen.get(sha256(header).digest())
        if seen is None or seen.rights.token is None or seen.rights.token.id not in self._known:
            return None
        return seen.rights

    async def check(self, rights: Rights) -> None:
        """Check that the token of a long request is still valid.

        Raises: Unauthorized, and as `AsyncStore.run`.
        """
        token = rights.token
        if token is None or rights.good_until > self._clock():
            return
        known = self._known.get(token.id)
        if known is None or known.until <= self._clock():
            known = await self._find(token.id)
        if known is None:
            raise Unauthorized(REFUSED)

    async def signer(self, id_: str, scope: Scope) -> tuple[Rights, bytes] | None:
        """The rights and the digest of a token that may sign requests, by its id; None: there is no
        such token. The caller has to check the signature, then `count` the request.

        Raises: TooManyRequests, and as `AsyncStore.run`.
        """
        if parse_token(f"{TOKEN_PREFIX}{id_}_x") is None:
            return None
        known = self._known.get(id_)
        if known is None or known.until <= self._clock():
            known = await self._find(id_, (scope.get("client") or ("",))[0])
        may = known is not None and any(one.verbs == SIGN for one in known.rights.scopes or ())
        return (known.rights, known.digest) if known is not None and may else None

    def count(self, rights: Rights) -> None:
        """Count a request of the namespace. Raises: TooManyRequests."""
        self.quotas.request(rights.namespace)

    # --- with a token -----------------------------------------------------------------------------

    async def _found(self, text: str, client: str) -> _Known:
        presented = parse_token(text)
        if presented is None:
            raise Unauthorized(REFUSED)
        id_, digest = presented
        known = self._known.get(id_)
        if known is None or known.until <= self._clock():
            known = await self._find(id_, client)
        if known is None or not compare_digest(known.digest, digest):
            raise Unauthorized(REFUSED)
        return known

    async def _find(self, id_: str, client: str = "") -> _Known | None:
        """Look the token up; requests for the same one meanwhile get the same answer."""
        if self._unknown.get(id_, float("-inf")) > self._clock():
            return None
        task = self._finding.get(id_)
        if task is None:
            # Tokens that were here before are not kept out by strangers.
            buckets = [] if id_ in self._known else self._buckets(client)
            for bucket in buckets:
                if wait := bucket.take(self._clock()):
                    raise TooManyRequests(
                        "this server has been sent too many unknown tokens: repeat later", wait
                    )
            task = self._finding[id_] = asyncio.ensure_future(self._ask(id_, buckets))
            task.add_done_callback(lambda done: self._end_lookup(id_, done))
        return await asyncio.shield(task)

    def _buckets(self, client: str) -> list[Bucket]:
        """The client's own first: when it is empty, nothing is taken from the shared one."""
        bucket = self._strangers_of.get(client)
        if bucket is None:
            bucket = Bucket(UNKNOWN_PER_CLIENT, self._clock())
            _keep(self._strangers_of, client, bucket)
        return [bucket, self._strangers]

    async def _ask(self, id_: str, buckets: Sequence[Bucket]) -> _Known | None:
        began = self._clock()
        found = await self.store.run(TokenFind(id_))
        known = None if found is None else self._judged(id_, found, began)
        if known is None:
            old = self._known.pop(id_, None)
            if old is not None:
                old.rights.good_until = began
            _keep(self._unknown, id_, began + UNKNOWN_SECONDS)
        else:
            for bucket in buckets:
                bucket.put_back()
            known.rights.good_until = known.until
            _keep(self._known, id_, known)
        return known

    def _judged(self, id_: str, found: FoundToken, began: float) -> _Known | None:
        token = found.token
        if not token.is_live(found.now):
            return None
        until = began + FOUND_SECONDS
        if token.expires_at is not None:
            until = min(until, began + (token.expires_at - found.now) / 1000)
        self.quotas.learn(found.namespace)
        old = self._known.get(id_)
        if old is not None and old.rights.token == token:
            return _Known(found.digest, old.rights, until)
        return _Known(found.digest, Rights(token.namespace, token), until)

    def _end_lookup(self, id_: str, task: asyncio.Task[Any]) -> None:
        del self._finding[id_]
        if not task.cancelled():
            task.exception()  # its waiters get the error

    # --- without one ------------------------------------------------------------------------------

    def _needs_token(self, scope: Scope) -> bool:
        if self._options.auth != "none":
            return True
        client = scope.get("client")
        # The app may have been bound elsewhere than it was told.
        return client is not None and not _is_here(client[0])


async def first_token(store: AsyncStore) -> str | None:
    """A token that may do everything to the queues without a namespace, if there never was one.

    Servers that start at the same moment may make one each; all are shown to their operators.
    Raises: as `AsyncStore.run`.
    """
    if await store.run(TokenList()):
        return None
    id_, secret, digest = new_token()
    allowed = scopes(FIRST_SCOPES)
    await store.run(TokenCreate(id_, digest, NO_NAMESPACE, FIRST_LABEL, allowed))
    return token_text(id_, secret)


def _is_here(host: str) -> bool:
    """Whether a client is on this machine; a transport without addresses is."""
    if host in ("127.0.0.1", "::1"):
        return True
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return True
    return is_loopback(host)


def _authorization(scope: Scope) -> bytes | None:
    """The header. Raises: Unauthorized if there are two."""
    header: bytes | None = None
    for name, value in scope["headers"]:
        if name == b"authorization":
            if header is not None:
                raise Unauthorized(REFUSED)
            header = value
    return header


def _token_in(header: bytes) -> str | None:
    """The token in the header: after `Bearer`, or as the password after `Basic`."""
    scheme, _, rest = header.partition(b" ")
    scheme, rest = scheme.lower(), rest.strip()
    if scheme == b"basic":
        try:
            rest = b64decode(rest, validate=True).partition(b":")[2]
        except binascii.Error:
            return None
    elif scheme != b"bearer":
        return None
    return rest.decode("latin-1")


def _keep(cache: dict[K, V], key: K, value: V) -> None:
    """Add as the newest, and drop the oldest if there are too many."""
    cache.pop(key, None)
    if len(cache) >= CACHED_MAX:
        del cache[next(iter(cache))]
    cache[key] = value
