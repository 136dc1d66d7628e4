"""Verbs on the caller's own PostgreSQL connection, in its transaction: the same calls, by whatever
library it is of.

A call has its parameters as `$1`; here it is put into the library's form, once for each.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any, TypeVar

from turnabout.adapters import Paramstyle
from turnabout.adapters.joined import OPEN_ONE
from turnabout.adapters.protocol import Parameters, Rows
from turnabout.adapters.psycopg import as_literal
from turnabout.postgres.calls import call_of
from turnabout.postgres.errors import BUSY, NOT_MIGRATED, busy
from turnabout.words.errors import (
    Forbidden,
    QueueNotFound,
    StorageFull,
    TurnaboutError,
    UsageError,
    WrongVersion,
)
from turnabout.words.limits import DEAD_SUFFIX
from turnabout.words.policy import QueueSettings
from turnabout.words.value import replace
from turnabout.words.verbs import QueueCreate, Receive, Send, Verb

A = TypeVar("A")
Now = Callable[[], int] | None

_PARAMETER = re.compile(r"\$(\d+)")
_ARRAY = re.compile(r"\$(\d+)::\w+\[\]")
_NAMED = {"pyformat": r"%(p\1)s", "named": r":p\1"}
_PLACED = {"format": "%s", "qmark": "?"}


def check_open(*, in_transaction: bool) -> None:
    """Refuse a connection that commits each statement by itself."""
    if not in_transaction:
        raise UsageError(OPEN_ONE)


def beforehand(verb: Verb[Any], known: set[str]) -> Receive | QueueCreate | None:
    """The verb that has to be committed before this one, by a connection of the store's own.

    A `receive` first makes ready what is due and wakes channels that changed: in the caller's
    transaction it would hold the rows of all these channels until the end. A queue that is missing
    is made before the first send: there it would be a row that all other senders wait for.
    """
    if isinstance(verb, Receive):
        return replace(verb.apart()[1], max_messages=0)
    if not isinstance(verb, Send) or verb.queue in known:
        return None
    most = {"max_attempts": None} if verb.queue.endswith(DEAD_SUFFIX) else {}
    return QueueCreate(verb.queue, QueueSettings().changed(most))


# --- from a verb to SQL and back ------------------------------------------------------------------


def call(verb: Verb[Any], clock: Now, style: Paramstyle) -> tuple[str, Parameters]:
    """The statement of a verb and its parameters, as a library of that style takes them."""
    known = call_of(type(verb))
    text = known.text if known.nowait is None else known.nowait.decode()
    values = list(known.parameters(verb, None if clock is None else clock()))
    for place in _arrays(text):
        values[place] = _as_list(values[place])
    sql, order = rendered(text, style)
    if style in ("pyformat", "format"):  # by psycopg, maybe
        values = [*map(as_literal, values)]
    if style in _NAMED:
        return sql, {f"p{place + 1}": values[place] for place in set(order)}
    return sql, tuple(values[place] for place in order)


@cache
def rendered(text: str, style: Paramstyle) -> tuple[str, Sequence[int]]:
    """The statement in a library's style, and which parameter stands at each of its places.

    JSON is handed over as text, since libraries may have ideas of their own about it.
    """
    text = text.replace("::jsonb", "::text::jsonb")
    order = [int(match[1]) - 1 for match in _PARAMETER.finditer(text)]
    if style == "numeric_dollar":
        return text, range(max(order, default=-1) + 1)
    if style in ("pyformat", "format"):
        text = text.replace("%", "%%")
    if style in _NAMED:
        return _PARAMETER.sub(_NAMED[style], text), order
    if style in _PLACED:
        return _PARAMETER.sub(_PLACED[style], text), order
    raise UsageError(
        f"{style!r} is not a paramstyle: use one of numeric_dollar, pyformat, format, named"
    )


@cache
def _arrays(text: str) -> Sequence[int]:
    return sorted({int(match[1]) - 1 for match in _ARRAY.finditer(text)})


def _as_list(value: Any) -> Any:
    """An array of numbers that a call has as a literal, which not every library takes."""
    if not isinstance(value, str):
        return value
    return [None if item == "NULL" else int(item) for item in value[1:-1].split(",") if item]


def answer(verb: Verb[A], rows: Rows) -> A:
    """The outcome of a verb from its rows."""
    return call_of(type(verb)).answer(verb, [tuple(map(_plain, row)) for row in rows])


def _plain(value: Any) -> Any:
    return bytes(value) if type(value) is memoryview else value


# --- what went wrong ------------------------------------------------------------------------------


def meaning(error: BaseException, verb: Verb[Any]) -> TurnaboutError | None:
    """Translate an error of PostgreSQL; None: it is the library's own, about its connection."""
    found = _diagnosed(error)
    if found is None:
        return None
    code, cause = found
    text = str(cause).strip().splitlines()[0] if str(cause).strip() else type(cause).__name__
    if code == "PQ404":
        return QueueNotFound(getattr(verb, "queue", ""))
    if code == "PQ409":
        hint = getattr(getattr(cause, "diag", cause), "message_hint", None)
        return UsageError(f"{text}: {hint or getattr(cause, 'hint', '')}")
    if code in NOT_MIGRATED:
        return WrongVersion(
            f"the connection's database does not have this library's schema ({text}): connect to "
            "the one where the queue lives, or run `turnabout migrate up` on this one"
        )
    if code in BUSY:
        return busy(code)(
            f"PostgreSQL refused for now ({text}): roll your transaction back and repeat it"
        )
    if code == "53100":
        return StorageFull(f"the server's disk is full ({text}): roll your transaction back")
    if code in ("42501", "25006"):
        return Forbidden(f"PostgreSQL does not allow it: {text}")
    if code[:2] in ("22", "23"):
        return UsageError(f"PostgreSQL refused a value: {text}")
    return None


def _diagnosed(error: BaseException) -> tuple[str, BaseException] | None:
    """PostgreSQL's code, and the exception that has it: libraries wrap one another's."""
    seen: BaseException | None = error
    for _ in range(5):
        if seen is None:
            return None
        for name in ("sqlstate", "pgcode"):
            code = getattr(seen, name, None)
            if isinstance(code, str) and len(code) == 5:
                return code, seen
        seen = getattr(seen, "orig", None) or seen.__cause__
    return None
