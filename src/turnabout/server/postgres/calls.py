"""Calls of the verbs of namespaces and tokens."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from turnabout.postgres.call import Call, Now, Rows, call, each, one, single
from turnabout.server import verbs as c

_NAMESPACE = ", ".join(c.Namespace.__struct_fields__)
_QUOTAS = ", ".join(f"(f.quotas).{column}" for column in c.Namespace.__struct_fields__[1:])
_TOKEN = "id, namespace, label, scopes, created_at, expires_at, revoked_at"  # noqa: S105 - columns


def _token(id_: str, namespace: str, label: str, scopes: str, *times: Any) -> c.Token:
    return c.Token(id_, namespace, label, c.kept_scopes(scopes), *times)


def _one_token(verb: Any, rows: Rows) -> c.Token | None:
    return _token(*rows[0]) if rows else None


def _create_parameters(verb: c.TokenCreate, now: Now) -> Sequence[Any]:
    scopes = c.scopes_text(verb.scopes)
    return verb.id, verb.digest, verb.namespace, verb.label, scopes, verb.lifetime_ms, now


def _found(verb: c.TokenFind, rows: Rows) -> c.FoundToken | None:
    if not rows:
        return None
    now, digest, *row = rows[0]
    token = _token(*row[:7])
    return c.FoundToken(token, digest, c.Namespace(token.namespace, *row[7:]), now)


CALLS: dict[type[Any], Call] = {
    c.NamespaceSet: call(
        f"select {_NAMESPACE} from turnabout_server.namespace_set($quotas::jsonb, $now::bigint)",
        one(c.Namespace),
        lambda verb, now: (msgspec.json.encode(verb.namespace).decode(), now),
        repeatable=True,
    ),
    c.NamespaceList: call(
        f"select {_NAMESPACE} from turnabout_server.namespace_list()",
        each(c.Namespace),
        repeatable=True,
    ),
    c.NamespaceHoldings: call(
        "select * from turnabout_server.namespace_holdings($namespace::text, $history::boolean)",
        one(c.Holdings),
        repeatable=True,
    ),
    c.NamespaceDelete: call("select turnabout_server.namespace_delete($namespace::text)", single),
    c.TokenCreate: call(
        f"select {_TOKEN} from turnabout_server.token_create($id::text, $digest::bytea,"
        " $namespace::text, $label::text, $scopes::text, $lifetime_ms::bigint, $now::bigint)",
        _one_token,
        _create_parameters,
        repeatable=True,
    ),
    c.TokenFind: call(
        "select coalesce($now::bigint, turnabout.clock_ms()), (f.token).digest,"
        f" (f.token).{_TOKEN.replace(', ', ', (f.token).')}, {_QUOTAS}"
        " from turnabout_server.token_find($id::text) f",
        _found,
        repeatable=True,
    ),
    c.TokenList: call(
        f"select {_TOKEN} from turnabout_server.token_list($namespace::text)",
        each(_token),
        repeatable=True,
    ),
    c.TokenRevoke: call(
        f"select {_TOKEN} from turnabout_server.token_revoke($id::text, $now::bigint)",
        _one_token,
        repeatable=True,
    ),
}
