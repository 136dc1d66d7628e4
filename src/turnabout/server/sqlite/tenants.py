"""Namespaces and tokens on SQLite: the verbs of the file's owner."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping, Sequence
from pathlib import Path

from turnabout.server import verbs as c
from turnabout.sqlite import _statements
from turnabout.sqlite._connection import Connection
from turnabout.sqlite.procedures._rows import value_of
from turnabout.words.errors import UsageError
from turnabout.words.limits import shown

FOLDER = Path(__file__).parent / "sql"


def statements(file: str) -> Mapping[str, str]:
    """The statements of `sql/<file>.sql` by their names."""
    return _statements.statements(file, FOLDER)


_SET = statements("namespace_set")
_DELETE = statements("namespace_delete")
_HOLDINGS = statements("namespace_holdings")
_CREATE = statements("token_create")
_FIND = statements("token_find")
_LIST = statements("token_list")


def namespace_set(connection: Connection, verb: c.NamespaceSet, now: int) -> c.Namespace:
    """Make a namespace, or set its quotas anew."""
    namespace = verb.namespace
    columns = {name: getattr(namespace, name) for name in c.Namespace.__struct_fields__}
    connection.execute(_SET["set"], {**columns, "now": now})
    return c.Namespace(*connection.execute(_SET["find"], {"name": namespace.name}).fetchone())


def namespace_list(
    connection: Connection, _verb: c.NamespaceList, _now: int
) -> tuple[c.Namespace, ...]:
    """Namespaces by name."""
    found = connection.execute(statements("namespace_list")["all"])
    return tuple(c.Namespace(*row) for row in found)


def namespace_holdings(connection: Connection, verb: c.NamespaceHoldings, _now: int) -> c.Holdings:
    """Counts of a namespace's policies, schedules, and history."""
    parameters = {"namespace": verb.namespace}

    def found(step: str) -> Sequence[int]:
        return connection.execute(_HOLDINGS[step], parameters).fetchone()

    history = found("history") if verb.history else (0,)
    return c.Holdings(*found("policies"), *found("schedules"), *history)


def namespace_delete(connection: Connection, verb: c.NamespaceDelete, _now: int) -> bool:
    """Remove a namespace that nothing is in; whether it was there."""
    parameters = {"namespace": verb.namespace}
    left = connection.execute(_DELETE["left"], parameters).fetchone()
    if left is not None:
        raise UsageError(
            f"the namespace {shown(verb.namespace)} has the {left[0]}: "
            "delete its queues and schedules first"
        )
    connection.execute(_DELETE["redrives"], parameters)
    connection.execute(_DELETE["tokens"], parameters)
    return connection.execute(_DELETE["delete"], parameters).rowcount > 0


def token_create(connection: Connection, verb: c.TokenCreate, now: int) -> c.Token:
    """Keep a token, and make its namespace if it is missing."""
    parameters = {"namespace": verb.namespace, "now": now}
    connection.execute(_CREATE["namespace"], parameters)
    connection.execute(
        _CREATE["add"],
        {
            **parameters,
            "id": verb.id,
            "digest": verb.digest,
            "label": verb.label,
            "scopes": c.scopes_text(verb.scopes),
            "lifetime_ms": verb.lifetime_ms,
        },
    )
    row = _find(connection, verb.id)
    assert row is not None
    if row["digest"] != verb.digest:
        raise UsageError(f"there is another token with the id {verb.id!r}: make a new one")
    return _token(row)


def token_find(connection: Connection, verb: c.TokenFind, now: int) -> c.FoundToken | None:
    """A token with the quotas of its namespace."""
    row = _find(connection, verb.id)
    if row is None:
        return None
    quotas = value_of(c.Namespace, row, name=row["namespace"], created_at=row["since"])
    return c.FoundToken(_token(row), row["digest"], quotas, now)


def token_list(connection: Connection, verb: c.TokenList, _now: int) -> tuple[c.Token, ...]:
    """Tokens, the newest first."""
    step = "all" if verb.namespace is None else "of_namespace"
    found = connection.execute(_LIST[step], {"namespace": verb.namespace})
    return tuple(map(_token, found))


def token_revoke(connection: Connection, verb: c.TokenRevoke, now: int) -> c.Token | None:
    """End a token; an earlier revocation keeps its time."""
    connection.execute(statements("token_revoke")["revoke"], {"id": verb.id, "now": now})
    row = _find(connection, verb.id)
    return None if row is None else _token(row)


def _find(connection: Connection, id_: str) -> sqlite3.Row | None:
    return connection.execute(_FIND["find"], {"id": id_}).fetchone()


def _token(row: sqlite3.Row) -> c.Token:
    return value_of(c.Token, row, scopes=c.kept_scopes(row["scopes"]))
