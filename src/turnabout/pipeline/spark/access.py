"""The database as a pipeline uses it: opened late, in each process; with a token, confined to it.

Readers and writers are pickled to other processes, so nothing here is open before it is needed, and
connections are left behind. No repr and no error holds the URL's password or the token.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Generator, Iterable, Sequence
from contextlib import contextmanager, suppress
from hmac import compare_digest
from threading import Lock
from typing import TYPE_CHECKING, Any, Final, Literal, TypeVar
from urllib.parse import quote, urlsplit

from turnabout import _connect
from turnabout.pipeline.spark.options import Options
from turnabout.pipeline.verbs import needs_postgresql
from turnabout.store import Store
from turnabout.words import limits
from turnabout.words.administration import QueueTotals, Totals
from turnabout.words.errors import (
    Forbidden,
    QueueNotFound,
    TurnaboutError,
    Unauthorized,
    UsageError,
)
from turnabout.words.namespaces import namespace_name, plain, stored
from turnabout.words.urls import scrubbed
from turnabout.words.verbs import KINDS, VERBS, QueueList, Verb

if TYPE_CHECKING:
    from turnabout.server.auth.rights import Rights

A = TypeVar("A")

FOUND_SECONDS: Final = 5.0
"""Cache time of a valid token; a revocation takes effect after it, as at a server."""

_ENVIRONMENT: Final = "env:"
_REFUSED: Final = (
    "the token is not known here, revoked or expired: `turnabout token create` makes one"
)


class Access:
    """A database, and what of it may be seen. Picklable; safe to share between threads.

    url        sqlite:/// or postgresql://, or env:NAME: the environment of each process
    token      a token of a server on this database, or env:NAME: confines to its namespace and
               scopes. Anyone with the URL can do everything anyway: this guards against mistakes
    namespace  confines to it; names are plain then
    """

    def __init__(self, url: str, *, token: str | None = None, namespace: str | None = None) -> None:
        self._url = _pinned(url)
        self._token = token
        self._namespace = None if namespace is None else namespace_name(namespace)
        self._start()

    @classmethod
    def of(cls, options: Options) -> Access:
        """Read the options; opens nothing. Raises: UsageError."""
        url = options.need("url", "sqlite:///path/to/file.db or postgresql://user@host/db")
        return cls(url, token=options.text("token"), namespace=options.text("namespace"))

    def __repr__(self) -> str:
        return f"Access({limits.shown(self._namespace)})"

    def __getstate__(self) -> dict[str, Any]:
        return {"_url": self._url, "_token": self._token, "_namespace": self._namespace}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._start()

    def _start(self) -> None:
        self._lock = Lock()
        self._store: Store | None = None
        self._found: Rights | None = None
        self._found_until = float("-inf")

    # --- the database -----------------------------------------------------------------------------

    def options(self) -> dict[str, str]:
        """The options that give a reader or a writer this access. They hold secrets."""
        options = {"url": self._url, "token": self._token, "namespace": self._namespace}
        return {name: text for name, text in options.items() if text is not None}

    def run(self, verb: Verb[A]) -> A:
        """Carry out a verb on the store, opened at first use. Raises: as `Store.run`."""
        return self._opened().run(verb)

    def place(self) -> tuple[Literal["sqlite", "postgresql"], str]:
        """The database's place, for reading in bulk: see `_connect.place`. Holds secrets."""
        with self._hiding():
            return _connect.place(self._resolved())

    def need_postgresql(self, what: str) -> Access:
        """Return the access for executors that write. Raises: UsageError on an SQLite file."""
        if self.place()[0] == "sqlite":
            raise needs_postgresql(what)
        return self

    def hidden(self, text: str) -> str:
        """A text of somebody else's error, without the secrets that the URL has."""
        url = self._url
        with suppress(UsageError):
            url = self._resolved()
        return scrubbed(text, url, "…")

    def close(self) -> None:
        """Close what was opened; a later call opens it again."""
        with self._lock:
            opened, self._store = self._store, None
        if opened is not None:
            opened.close()

    def _opened(self) -> Store:
        with self._lock:
            if self._store is None:
                with self._hiding():
                    self._store = _connect.database(self._resolved())
            return self._store

    def _resolved(self) -> str:
        return _from_environment(self._url, "url")

    @contextmanager
    def _hiding(self) -> Generator[None]:
        """Errors that leave this block have no secrets of the URL in their text."""
        try:
            yield
        except TurnaboutError as error:
            hidden = self.hidden(str(error))
            if hidden == str(error):
                raise
            raise type(error)(hidden) from None

    # --- who asks ---------------------------------------------------------------------------------

    @property
    def namespace(self) -> str | None:
        """The one that it is confined to, `""` being the queues without one; None: all.

        Raises: Unauthorized for a token that is not good (any more), Forbidden for one of another
        namespace than was asked for.
        """
        rights = self._rights()
        if rights is None:
            return self._namespace
        if self._namespace is not None and self._namespace != rights.namespace:
            raise Forbidden(
                "the token is for another namespace than the option `namespace` says: leave the "
                "option away"
            )
        return rights.namespace

    def allow(self, verb_name: str, queue: str | None) -> None:
        """Check that the token lets that verb at a queue, as users name it; None: at all queues.

        Without a token everything is allowed. Raises: Forbidden, with the scope that is missing.
        """
        rights = self._rights()
        if rights is not None:
            rights.need(VERBS[verb_name], queue)

    def globs(self, verb_name: str) -> tuple[str, ...] | None:
        """The patterns (`*` for any characters) of queues where the token allows the verb; None:
        all queues. Raises: Forbidden if there is none.
        """
        rights = self._rights()
        if rights is None or rights.scopes is None:
            return None
        kind, scopes = VERBS[verb_name], rights.scopes
        found = tuple(
            s.queues for s in scopes if kind in KINDS.get(s.verbs, ()) or s.verbs == verb_name
        )
        if not found:
            raise Forbidden(
                f"the token has no scope that allows {verb_name}: it takes one such as "
                f"{verb_name}:*"
            )
        return None if "*" in found else found

    def stored(self, queue: str) -> str:
        """A queue's name in the database: `emails` is `acme/emails` when confined to acme.

        Raises: UsageError for an invalid name.
        """
        namespace = self.namespace
        return limits.queue_name(queue) if namespace is None else stored(queue, namespace)

    def waiting(self, queues: Iterable[str]) -> tuple[int, int]:
        """Unfinished messages of these queues, by stored names, and the age of the oldest ready one
        in milliseconds, 0 if there is none.
        """
        return waiting(self.run(Totals(self.namespace)), queues)

    def queues(
        self,
        subscribe: Sequence[str] | None,
        pattern: str | None,
        verbs: Sequence[str] = ("receive", "ack"),
    ) -> tuple[str, ...]:
        """Stored names of the queues that are there: those named, or those whose whole name (as it
        is used here) matches the pattern and that the token covers.

        Raises: Forbidden for a name that the token does not cover; QueueNotFound if none of those
        named is there.
        """
        namespace = self.namespace
        there = {
            entry.name: entry.name if namespace is None else plain(entry.name, namespace)
            for entry in self.run(QueueList(namespace))
        }
        if subscribe is not None:
            wanted = [self.stored(queue) for queue in subscribe]
            for queue in subscribe:
                for verb in verbs:
                    self.allow(verb, queue)
            found = tuple(name for name in wanted if there.get(name) is not None)
            if not found:
                raise QueueNotFound(subscribe[0])
            return found
        whole = re.compile(pattern or ".*", re.DOTALL)
        rights = self._rights()
        return tuple(
            name
            for name, queue in there.items()
            if queue is not None
            and whole.fullmatch(queue)
            and (rights is None or all(rights.allows(VERBS[verb], queue) for verb in verbs))
        )

    def _rights(self) -> Rights | None:
        """Return the token's rights from the database, looked up again after some seconds."""
        if self._token is None:
            return None
        if self._found is None or time.monotonic() >= self._found_until:
            began = time.monotonic()
            try:  # tokens are the server's, which may have been left out
                from turnabout.server.auth.rights import Rights
                from turnabout.server.verbs import TokenFind, parse_token
            except ModuleNotFoundError:
                raise UsageError(
                    "tokens are the server's, which this installation lacks: leave the option "
                    "`token` away"
                ) from None
            shown = parse_token(_from_environment(self._token, "token"))
            if shown is None:
                raise Unauthorized(_REFUSED)
            found = self.run(TokenFind(shown[0]))
            if (
                found is None
                or not compare_digest(found.digest, shown[1])
                or not found.token.is_live(found.now)
            ):
                self._found = None
                raise Unauthorized(_REFUSED)
            self._found = Rights(found.token.namespace, found.token)
            self._found_until = began + FOUND_SECONDS
        return self._found


def waiting(totals: Iterable[QueueTotals], queues: Iterable[str]) -> tuple[int, int]:
    """Add up these queues' totals: see `Access.waiting`."""
    names = frozenset(queues)
    its = [one for one in totals if one.queue in names]
    oldest = max((one.oldest_ready_ms or 0 for one in its), default=0)
    return sum(one.unfinished for one in its), oldest


def _from_environment(text: str, option: str) -> str:
    """The text, or what the environment has under the name after `env:`."""
    if not text.startswith(_ENVIRONMENT):
        return text
    name = text.removeprefix(_ENVIRONMENT)
    found = os.environ.get(name)
    if not found:
        raise UsageError(
            f"{option} is to come from the environment, which has no {limits.shown(name)} in this "
            f"process: set it for the driver and the executors, or give .option({option!r}, …)"
        )
    return found


def _pinned(url: str) -> str:
    """A URL of a file with its absolute path: executors stand elsewhere. Others as they are."""
    found = url
    if url.startswith(_ENVIRONMENT):
        found = os.environ.get(url.removeprefix(_ENVIRONMENT), "")
    if not found.startswith("sqlite:"):
        return url
    _, path = _connect.place(found)
    query = urlsplit(found).query
    return f"sqlite:///{quote(path)}" + (f"?{query}" if query else "")
