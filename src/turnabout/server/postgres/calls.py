"""Calls of the verbs of namespaces and tokens."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from turnabout.postgres.call import Call, Now, Row, Rows
from turnabout.server import verbs as c

_NAMESPACE = "name, max_messages, max_bytes, requests_per_second, created_at"
_TOKEN = "id, namespace, label, scopes, created_at, expires_at, revoked_at"  # noqa: S105 - columns


def _token(row: Row) -> c.Token:
    id_, namespace, label, scopes, *times = row
    return c.Token(id_, namespace, label, c.kept_scopes(scopes), *times)


def _one_token(verb: Any, rows: Rows) -> c.Token | None:
    return _token(rows[0]) if rows else None


def _namespace(row: Row) -> c.Namespace:
    return c.Namespace(*row)


def _set_parameters(verb: c.NamespaceSet, now: Now) -> Sequence[Any]:
    given = verb.namespace
    quotas = given.max_messages, given.max_bytes, given.requests_per_second
    return given.name, *quotas, now


def _create_parameters(verb: c.TokenCreate, now: Now) -> Sequence[Any]:
    scopes = c.scopes_text(verb.scopes)
    return verb.id, verb.digest, verb.namespace, verb.label, scopes, verb.lifetime_ms, now


def _found(verb: c.TokenFind, rows: Rows) -> c.FoundToken | None:
    if not rows:
        return None
    now, digest, *row = rows[0]
    token = _token(row[:7])
    return c.FoundToken(token, digest, c.Namespace(token.namespace, *row[7:]), now)


CALLS: dict[type[Any], Call] = {
    c.NamespaceSet: Call(
        f"select {_NAMESPACE} from turnabout_server.namespace_set("
        "$1::text, $2::bigint, $3::bigint, $4::int, $5::bigint)",
        _set_parameters,
        lambda n, rows: _namespace(rows[0]),
        repeatable=True,
    ),
    c.NamespaceList: Call(
        f"select {_NAMESPACE} from turnabout_server.namespace_list()",
        lambda n, now: (),
        lambda n, rows: tuple(map(_namespace, rows)),
        repeatable=True,
    ),
    c.NamespaceDelete: Call(
        "select turnabout_server.namespace_delete($1::text)",
        lambda n, now: (n.namespace,),
        lambda n, rows: rows[0][0],
    ),
    c.TokenCreate: Call(
        f"select {_TOKEN} from turnabout_server.token_create("
        "$1::text, $2::bytea, $3::text, $4::text, $5::text, $6::bigint, $7::bigint)",
        _create_parameters,
        _one_token,
        repeatable=True,
    ),
    c.TokenFind: Call(
        "select coalesce($2::bigint, turnabout.clock_ms()), (f.token).digest,"
        f" (f.token).{_TOKEN.replace(', ', ', (f.token).')}, (f.quotas).max_messages,"
        " (f.quotas).max_bytes, (f.quotas).requests_per_second, (f.quotas).created_at"
        " from turnabout_server.token_find($1::text) f",
        lambda t, now: (t.id, now),
        _found,
        repeatable=True,
    ),
    c.TokenList: Call(
        f"select {_TOKEN} from turnabout_server.token_list($1::text)",
        lambda t, now: (t.namespace,),
        lambda t, rows: tuple(map(_token, rows)),
        repeatable=True,
    ),
    c.TokenRevoke: Call(
        f"select {_TOKEN} from turnabout_server.token_revoke($1::text, $2::bigint)",
        lambda t, now: (t.id, now),
        _one_token,
        repeatable=True,
    ),
}
