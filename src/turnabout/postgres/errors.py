"""Turnabout's exceptions for errors of PostgreSQL and psycopg; made nowhere else."""

from __future__ import annotations

import re
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any

import psycopg
from psycopg.pq.abc import PGconn

from turnabout.postgres.calls import call_of
from turnabout.words.errors import (
    BrokenInvariant,
    Busy,
    Disconnected,
    Forbidden,
    QueueNotFound,
    StorageFull,
    TurnaboutError,
    Uncertain,
    UsageError,
    WrongVersion,
)
from turnabout.words.urls import without_secrets
from turnabout.words.verbs import Verb

NOT_MIGRATED = frozenset({"3F000", "42P01", "42883", "42703", "42704"})
"""No such schema, table, function, column, type: ours are missing or from another version."""

LOCKED = "55P03"

NOT_REBUILT = "PQ503"
"""A crash of the server has emptied where messages stand (sql/base/require_places.sql)."""

BUSY = frozenset({"40001", "40P01", LOCKED, "57014", NOT_REBUILT})
"""Serialisation failure, deadlock, lock and statement timeout: rolled back, safe to repeat."""

LOST = ("08", "40003", "53300", "57")
"""Prefixes of SQLSTATEs for broken or refused connections, and for servers that start, stop or
fail internally: only then is the outcome of a call unknown.
"""

PASSES = ("25P0", "40", "53", "55P0", "58")
"""Prefixes of SQLSTATEs that are worth a retry: conflicts, timeouts, lack of memory or
connections, failures of the server's system.
"""

NOT_ALLOWED = "42501"

OURS = "22023"
"""SQLSTATEs by which our functions refuse a value, in the library's words."""

_OF_THE_CLIENT = (psycopg.OperationalError, psycopg.InterfaceError)

LEFT_TO_FUNCTION = BUSY | {NOT_ALLOWED}
"""Errors of an everyday statement after which its function is called. Rows that others hold, or an
ack that can't be all or nothing: the function waits, or knows which row it is. Rights on tables:
they can be revoked during a session. Any other error would stop the function too, or is a fault in
the statement, and is raised.
"""

READ_ONLY = "25006"
"""The server takes no writes: a standby, or its administrator has said so."""

NOT_LOGGED_IN = re.compile(r"server login (has been failing|failed)|query_wait_timeout")
"""PgBouncer's words for: there was no server to hand the call to. Its SQLSTATE is 08P01, as for a
server that died in the middle of it.
"""

_MADE_READ_ONLY = "default_transaction_read_only"
"""A URL that has this asks for sessions that only read: a refusal is no failover then."""

UNLOGGED_ON_A_STANDBY = "get_relation_info"
"""Source function of the error for reading an unlogged table during recovery. The error's text is
translated, and its SQLSTATE is that of everything that isn't supported.
"""


class NoAnswer(psycopg.OperationalError):
    """The server said nothing for `call_seconds`."""


class RoleReadsOnly(psycopg.errors.ReadOnlySqlTransaction):
    """The server is not a standby: an administrator has made the role read-only."""


class NotRebuilt(Busy):
    """Places are missing after a crash of the server: the store rebuilds, and repeats the call."""


def busy(code: str) -> type[Busy]:
    """The exception of each SQLSTATE in `BUSY`."""
    return NotRebuilt if code == NOT_REBUILT else Busy


def leads_to_a_standby(error: psycopg.Error) -> bool:
    """SQLSTATEs of servers that can't be written to now; the host name may lead elsewhere soon."""
    return error.sqlstate == READ_ONLY or (
        error.sqlstate == "0A000" and error.diag.source_function == UNLOGGED_ON_A_STANDBY
    )


def check_encoding(pgconn: PGconn, url: str) -> None:
    """Raises: UsageError for a database that cannot hold every text."""
    encoding = (pgconn.parameter_status(b"server_encoding") or b"UTF8").decode()
    if encoding != "UTF8":
        raise UsageError(
            f"the database {without_secrets(url)} has the encoding {encoding}, and Turnabout needs "
            "UTF8, to keep any text: make one by `create database … encoding 'UTF8' template "
            "template0`"
        )


@contextmanager
def translated(url: str) -> Generator[None]:
    """Run a call on PostgreSQL; whatever psycopg raises leaves as a TurnaboutError."""
    try:
        yield
    except psycopg.Error as error:
        raise translate(error, url) from error


def translate(
    error: psycopg.Error, url: str, queue: str = "", *, sent: bool = False
) -> TurnaboutError:
    """The exception for one of psycopg's.

    sent: the call was on its way when the connection broke, so it may have happened.
    """
    code = error.sqlstate or ""
    text = error.diag.message_primary or str(error).strip() or type(error).__name__
    if code == "PQ404":
        return QueueNotFound(queue or error.diag.message_detail or "")
    if code in ("PQ409", "2BP01"):  # ours; and something of the user's depends on our functions
        return UsageError(f"{text}: {error.diag.message_detail or error.diag.message_hint}")
    if code in NOT_MIGRATED:
        return WrongVersion(
            f"the database {without_secrets(url)} is not migrated to this library ({text}): "
            f"run `turnabout migrate up --url '{without_secrets(url)}'`"
        )
    if code in ("26000", "42P05"):
        return UsageError(
            f"a pooler forgets prepared statements ({text}): add prepare=off to the URL"
        )
    if code == "53100":
        return StorageFull(f"the server's disk is full ({text}): nothing was written")
    refused = _refused(error, code, text, url)
    if refused is not None:
        return refused
    is_lost = code.startswith(LOST) and code not in BUSY
    is_moved = error.diag.table_name == "history_default"  # while maintenance made that day's
    if code in BUSY or is_moved or (code.startswith(PASSES) and not is_lost):
        return busy(code)(f"PostgreSQL refused for now ({text}): nothing happened, repeat the call")
    if not code and re.match(r"(connection .* )?invalid \S+ value", text):
        return UsageError(f"PostgreSQL's client refused the URL: {text}")
    if is_lost or (not code and isinstance(error, _OF_THE_CLIENT)):
        if sent and not NOT_LOGGED_IN.search(text):
            return Uncertain(
                f"the connection to {without_secrets(url)} broke before the answer came ({text}): "
                "the call may have happened"
            )
        return Disconnected(f"cannot reach {without_secrets(url)}: {text}")
    return _not_taken(code, text, error.diag)


def _bound(diag: psycopg.errors.Diagnostic) -> str | None:
    """Describe the values that a domain or a column takes: our constraints' names are sentences."""
    name, column = diag.constraint_name, diag.column_name
    if name is None:
        return column and f"{column} is missing"
    is_column_s = diag.table_name is not None and name.endswith("_check")
    if is_column_s:
        name = f"{name.removeprefix(f'{diag.table_name}_').removesuffix('_check')} is out of range"
    return name if is_column_s else f"the rule is: {name.replace('_', ' ')}"


def _not_taken(code: str, text: str, diag: psycopg.errors.Diagnostic) -> TurnaboutError:
    """The server has spoken: it will say the same again."""
    if code[:2] in ("22", "23"):
        message = _bound(diag) or text
        return UsageError(message if code == OURS else f"PostgreSQL refused a value: {message}")
    if code[:2] in ("", "42", "P0", "XX"):
        return BrokenInvariant(f"PostgreSQL said {code} {text}: please report this")
    return UsageError(
        f"PostgreSQL refuses such calls here: {text} (SQLSTATE {code}). Nothing happened, and a "
        "repeat does not help: see what an administrator has set for this database or role"
    )


def _refused(error: psycopg.Error, code: str, text: str, url: str) -> TurnaboutError | None:
    """True if refused by a standby, or for want of rights."""
    if isinstance(error, RoleReadsOnly):
        return Forbidden(
            f"sessions of this role are read-only ({text}): `alter role … reset "
            f"{_MADE_READ_ONLY}` lets it write"
        )
    if leads_to_a_standby(error) and _MADE_READ_ONLY not in url:
        return Disconnected(
            f"{without_secrets(url)} is read-only, as a standby is, or a database with "
            f"{_MADE_READ_ONLY} ({text}): nothing happened, repeat it when the address leads to "
            "the primary"
        )
    if code in (NOT_ALLOWED, READ_ONLY) or code[:2] == "28":
        todo = ": `turnabout migrate allow` gives a role what it needs" * (code == NOT_ALLOWED)
        return Forbidden(f"PostgreSQL does not allow it: {text}{todo}")
    return None


def meaning(error: psycopg.Error, url: str, verb: Verb[Any]) -> TurnaboutError:
    """The error of a failed call for its caller: a repeatable one cannot have done harm, unless it
    acks.
    """
    queue = getattr(verb, "queue", None) or ""
    sent = not call_of(type(verb)).repeatable or bool(getattr(verb, "acks", ()))
    return translate(error, url, queue, sent=sent)
