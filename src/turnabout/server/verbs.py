"""Namespaces, tokens and their scopes, and the verbs that manage them.

These verbs are for the owner of the database (`turnabout token`, `turnabout namespace`, the server
itself). No API has them, so no token can make another one.

Instants are milliseconds since 1970.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import re
import secrets
from base64 import urlsafe_b64encode
from collections.abc import Iterable
from contextlib import suppress
from fnmatch import fnmatchcase
from typing import Any

from turnabout.words import limits
from turnabout.words import verbs as v
from turnabout.words.administration import Totals
from turnabout.words.errors import UsageError
from turnabout.words.namespaces import NO_NAMESPACE, namespace_name
from turnabout.words.urls import TOKEN_PREFIX
from turnabout.words.value import Value

Verb = v.Verb

LABEL_CHARS_MAX = 64
SIGN = "sign"
"""The scope of tokens that may sign requests, as SQS's clients do, instead of being shown."""
WEIGHT_MAX = 1_000
SCOPES_MAX = 32
_PATTERN = re.compile(r"[A-Za-z0-9_.*-]{1,128}")
_ALPHABET = "abcdefghijklmnopqrstuvwxyz234567"
_ID_CHARS = 12
_ID = re.compile(rf"[{_ALPHABET}]{{{_ID_CHARS}}}")


class Scope(Value):
    """A kind of verbs (`produce`, `consume`, `operate`) or one verb, and the queues it is for.

    In text `consume:emails`, `send:report-*`, `operate:*`; `*` stands for any characters.
    `totals:*` is for a server's metrics, which show the queues of all namespaces; `sign:*` lets the
    token sign requests.
    """

    verbs: str
    queues: str = "*"

    def __post_init__(self) -> None:
        others = (Totals.name, SIGN)
        if self.verbs not in v.KINDS and self.verbs not in v.VERBS and self.verbs not in others:
            raise UsageError(
                f"{limits.shown(self.verbs)} is neither a kind of verbs nor a verb: "
                f"use {', '.join(v.KINDS)}, or a verb such as send or peek"
            )
        if not _PATTERN.fullmatch(self.queues):
            raise UsageError(
                f"{limits.shown(self.queues)} is not a pattern for queues: "
                "write a name, with * for any part"
            )

    def __str__(self) -> str:
        return f"{self.verbs}:{self.queues}"

    @classmethod
    def parse(cls, text: object) -> Scope:
        """The scope in its text form; without a colon it holds for all queues."""
        if not isinstance(text, str):
            raise UsageError(f"a scope is a str such as consume:emails, not {type(text).__name__}")
        verbs, _, queues = text.partition(":")
        return cls(verbs, queues or "*")

    def allows(self, verb: type[Verb[Any]], queue: str | None) -> bool:
        """Whether the scope allows that verb at that queue; None: at all queues."""
        kind = v.KINDS.get(self.verbs)
        if verb not in kind if kind is not None else verb.name != self.verbs:
            return False
        return self.queues == "*" if queue is None else fnmatchcase(queue, self.queues)


class Namespace(Value):
    """A tenant of a server, and its quotas; None: not limited.

    max_messages         unfinished messages
    max_bytes            bytes of their payloads, and of those of schedules
    requests_per_second  over all its tokens, for each server process; a verb of a transaction
                         counts as one
    max_queues           dead-letter queues included
    max_policies         channels with a policy of their own
    max_schedules
    max_history_bytes    payloads, results and errors that history keeps
    max_polls            requests that wait at once, for each server process
    weight               its share of the server's time beside others; None is 1
    """

    name: str
    max_messages: int | None = None
    max_bytes: int | None = None
    requests_per_second: int | None = None
    max_queues: int | None = None
    max_policies: int | None = None
    max_schedules: int | None = None
    max_history_bytes: int | None = None
    max_polls: int | None = None
    weight: int | None = None
    created_at: int | None = None
    """Time of creation; None before it is stored."""

    def __post_init__(self) -> None:
        if self.name != NO_NAMESPACE:
            namespace_name(self.name)
        for name in ("max_messages", "max_bytes", "max_history_bytes"):
            limits.optional_whole(getattr(self, name), name, 1, limits.ID_MAX)
        for name in ("max_queues", "max_policies", "max_schedules", "max_polls"):
            limits.optional_whole(getattr(self, name), name, 0, limits.INTEGER_MAX)
        limits.optional_whole(self.weight, "weight", 1, WEIGHT_MAX)
        limits.optional_whole(self.requests_per_second, "requests_per_second", 1, 1_000_000)


class Token(Value):
    """A token without its secret, of which only a digest is stored, and that not in here."""

    id: str
    namespace: str
    label: str
    scopes: tuple[Scope, ...]
    created_at: int
    expires_at: int | None = None
    revoked_at: int | None = None

    def is_live(self, now_ms: int) -> bool:
        """Whether the token is still valid."""
        return self.revoked_at is None and (self.expires_at is None or now_ms < self.expires_at)


class FoundToken(Value):
    """A token, the digest that a secret has to match, and its namespace's quotas."""

    token: Token
    digest: bytes
    namespace: Namespace
    now: int
    """The database's clock."""


# --- verbs ---------------------------------------------------------------------------------------


class NamespaceSet(Verb[Namespace]):
    """Make a namespace, or set its quotas anew."""

    namespace: Namespace


class NamespaceList(Verb[tuple[Namespace, ...]]):
    """All namespaces by name; the unnamed one only if quotas or tokens were set for it."""

    reads = True


class Holdings(Value):
    """Other contents of a namespace than messages. history_bytes: 0 unless it was asked for."""

    policies: int
    schedules: int
    schedule_bytes: int
    history_bytes: int


class NamespaceHoldings(Verb[Holdings]):
    """Measure a namespace. `history`: its history, too, which reads all of it."""

    reads = True
    namespace: str
    history: bool = False


class NamespaceDelete(Verb[bool]):
    """Remove a namespace and its tokens; whether it was there. UsageError while it has queues."""

    namespace: str


class TokenCreate(Verb[Token]):
    """Keep a new token; its namespace is made if it is missing."""

    id: str
    digest: bytes
    namespace: str
    label: str
    scopes: tuple[Scope, ...]
    lifetime_ms: int | None = None
    """Lifetime from now, by the database's clock; None: until it is revoked."""

    def __post_init__(self) -> None:
        if not _ID.fullmatch(self.id) or len(self.digest) != 32:
            raise UsageError("a token's id and digest come from `new_token()`")
        if self.namespace != NO_NAMESPACE:
            namespace_name(self.namespace)
        if len(limits.utf8(self.label, "a label")) > LABEL_CHARS_MAX:
            raise UsageError(f"a label has at most {LABEL_CHARS_MAX} bytes")
        if not 1 <= len(self.scopes) <= SCOPES_MAX:
            raise UsageError(f"a token has 1 to {SCOPES_MAX} scopes")
        limits.optional_whole(self.lifetime_ms, "lifetime_ms", 1, limits.DELAY_SECONDS_MAX * 10_000)


class TokenFind(Verb[FoundToken | None]):
    """The token of that id, live or not; None if there never was one."""

    reads = True
    id: str


class TokenList(Verb[tuple[Token, ...]]):
    """Tokens of all namespaces or of one, the newest first, expired and revoked ones too."""

    reads = True
    namespace: str | None = None


class TokenRevoke(Verb[Token | None]):
    """End a token now; an earlier revocation stays as it is. None: no token has that id."""

    id: str


VERBS: tuple[type[Verb[Any]], ...] = (
    NamespaceSet,
    NamespaceList,
    NamespaceHoldings,
    NamespaceDelete,
    TokenCreate,
    TokenFind,
    TokenList,
    TokenRevoke,
)


# --- scopes and secrets --------------------------------------------------------------------------


def scopes(texts: Iterable[object]) -> tuple[Scope, ...]:
    """Scopes from their text forms."""
    return tuple(Scope.parse(text) for text in texts)


def scopes_text(granted: Iterable[Scope]) -> str:
    """Scopes as a store keeps them: a JSON list of their text forms."""
    return json.dumps([str(scope) for scope in granted])


def kept_scopes(text: str) -> tuple[Scope, ...]:
    """The scopes in a text of `scopes_text`. Verbs that only a newer library knows are passed over:
    here they allow nothing.
    """
    kept: list[Scope] = []
    for one in json.loads(text):
        with suppress(UsageError):
            kept.append(Scope.parse(one))
    return tuple(kept)


def new_token() -> tuple[str, str, bytes]:
    """Id, secret and digest of a new token: 60 and 256 random bits."""
    token_id = "".join(secrets.choice(_ALPHABET) for _ in range(_ID_CHARS))
    secret = secrets.token_urlsafe(32)
    return token_id, secret, digest(secret)


def token_text(token_id: str, secret: str) -> str:
    """A token as its holder keeps it."""
    return f"{TOKEN_PREFIX}{token_id}_{secret}"


def parse_token(text: str) -> tuple[str, bytes] | None:
    """Id and digest of a presented token; None for text that cannot be one."""
    head, _, secret = text.removeprefix(TOKEN_PREFIX).partition("_")
    if not text.startswith(TOKEN_PREFIX) or not _ID.fullmatch(head) or not secret:
        return None
    return head, digest(secret)


def signing_secret(token_digest: bytes) -> str:
    """The secret that a token signs requests with. The server has to know it, and keeps digests
    only: so it is derived from that. Who can read the table of tokens can sign by those that may.
    """
    made = hmac.digest(token_digest, b"turnabout: signatures of requests", "sha256")
    return urlsafe_b64encode(made).decode().rstrip("=")


def digest(secret: str) -> bytes:
    """A secret as it is kept: its SHA-256. Secrets are 256 random bits, so nothing slower is
    needed: there is no dictionary to try.
    """
    return hashlib.sha256(secret.encode("utf-8", "surrogatepass")).digest()
