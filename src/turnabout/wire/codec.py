"""Verbs as JSON, and back. What is worked out for a class is kept, so that the second
time costs little more than what msgspec costs.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, TypeVar, cast
from urllib.parse import parse_qsl, quote, urlencode

import msgspec
from msgspec import NODEFAULT, UNSET, Raw

from turnabout.wire.plans import Kind, RoutePlan, plan_of
from turnabout.wire.routes import Method
from turnabout.wire.shapes import FieldPart, Misplaced, parts_of
from turnabout.words import limits
from turnabout.words import verbs as v
from turnabout.words.errors import UsageError
from turnabout.words.value import Value

A = TypeVar("A")

_UNKNOWN = "$: object contains unknown field"

TRANSACTION_VERBS_MAX = 100
"""Verbs in one `run_transaction`."""


class VerbItem(Value):
    """A request for a verb, and what else it says."""

    verb: v.Verb[Any]
    wait_seconds: float = 0.0
    left_out: frozenset[str] = frozenset()
    """Fields that the request left to the server: `turn` of a receive, `next_at` of a schedule."""


class Request(Value):
    """A verb as an HTTP request."""

    method: Method
    path: str
    """Path and query, as sent."""
    body: bytes


# --- verbs ---------------------------------------------------------------------------------------


def load_verb(kind: type[v.Verb[A]], body: bytes, /, **parameters: str) -> v.Verb[A]:
    """The verb in a request; `parameters` are the fields of path and query, as texts.

    Raises: UsageError that names the place.
    """
    return load_call(kind, body, **parameters).verb


def load_call(kind: Kind, body: bytes, /, **parameters: str) -> VerbItem:
    """Like `load_verb`, with the other fields of the request."""
    return _load(kind, body, parameters, as_text=True)


def _load(kind: Kind, body: bytes, parameters: Mapping[str, Any], *, as_text: bool) -> VerbItem:
    plan = plan_of(kind)
    values = _parameters(plan, parameters, as_text=as_text)
    decoded = _read(plan, body or b"{}")
    try:
        for part, one in zip(plan.body, plan.load(decoded), strict=True):
            values[part.name] = one
    except Misplaced as error:
        raise UsageError(str(error)) from error
    except UsageError as error:
        raise UsageError(f"$: {error}") from error
    wait_seconds = values.pop("wait_seconds", 0.0)
    left_out = [name for name, one in values.items() if one is UNSET]
    for name in left_out:
        del values[name]
    try:
        verb = plan.build(values)
    except UsageError as error:
        raise UsageError(f"$: {error}") from error
    return VerbItem(verb, wait_seconds, frozenset(left_out))


def dump_verb(verb: v.Verb[Any]) -> bytes:
    """The body of the request for a verb; empty where there is nothing to say.

    Raises: UsageError for what JSON cannot carry.
    """
    return _dump_body(plan_of(type(verb)), verb)


def request_of(verb: v.Verb[Any]) -> Request:
    """The whole request for a verb. Raises: UsageError for what a request cannot carry."""
    plan = plan_of(type(verb))
    route = plan.route
    body = _dump_body(plan, verb)
    values = plan.spread(verb)
    path = route.path
    if route.also is not None and any(values[name] is None for name in route.in_path):
        path = route.also
    else:
        for name in route.in_path:
            text = values[name]
            if isinstance(text, str):
                limits.plain_name(text)
            path = path.replace(f"{{{name}}}", quote(str(text), safe=""))
    query = {
        name: _to_text(part.form.dumped(values[part.name]))
        for name, part in plan.parameters.items()
        if part.name in route.query and values[part.name] != part.default
    }
    try:
        return Request(route.method, f"{path}?{urlencode(query)}" if query else path, body)
    except UnicodeEncodeError as error:
        raise UsageError("the text holds a lone surrogate, which is not valid Unicode") from error


def load_fields(cls: type[A], fields: Mapping[str, str], /, **more: Any) -> A:
    """A value whose fields are texts of a query, by their names on the wire, beside others that
    are at hand. Raises: UsageError that names the field.
    """
    parts = {part.wire_name: part for part in parts_of(cls) if part.name not in more}
    values = dict(more)
    for name, text in fields.items():
        if name not in parts:
            there = f"it has {', '.join(parts)}"
            raise UsageError(f"{limits.shown(name)} is not a field of the query: {there}")
        try:
            values[parts[name].name] = _value_of(parts[name], text)
        except UsageError as error:
            raise UsageError(f"{name}: {error}") from error
    return cls(**values)


def load_query(query: bytes) -> dict[str, str]:
    """The fields of a query. Raises: UsageError for one that is there twice, or is not UTF-8."""
    if not query:
        return {}
    try:
        pairs = parse_qsl(query.decode("ascii"), keep_blank_values=True, errors="strict")
    except ValueError as error:
        raise UsageError("the query is not UTF-8 in percent-encoding") from error
    fields = dict(pairs)
    if len(fields) != len(pairs):
        raise UsageError("a field appears twice in the query")
    return fields


def _dump_body(plan: RoutePlan, verb: v.Verb[Any]) -> bytes:
    values = plan.spread(verb)
    if values.get("namespace") is not None:
        raise UsageError("the namespace comes from the token: it cannot be named here")
    if not plan.body:
        return b""
    fields: dict[str, Any] = {}
    try:
        for part in plan.body:
            one = values.get(part.name, part.default)
            if one is None or one is UNSET or part.form.dump is None:
                dumped = one
            else:
                dumped = part.form.dump(one)
            if plan.route.body is not None:
                return _encode(dumped)
            if part.default is UNSET or one != part.default:
                fields[part.wire_name] = dumped
        return _encode(fields)
    except (TypeError, ValueError, AttributeError, OverflowError) as error:
        if isinstance(error, UsageError):
            raise
        raise UsageError(f"this cannot be written as JSON: {error}") from error


def _parameters(plan: RoutePlan, parameters: Mapping[str, Any], *, as_text: bool) -> dict[str, Any]:
    """The fields of path and query, read and checked."""
    values: dict[str, Any] = {}
    for name, one in parameters.items():
        part = plan.parameters.get(name)
        if part is None:
            known = [other for other in plan.parameters if other not in plan.route.in_path]
            there = f"it has {', '.join(known)}" if known else "it has none here"
            raise UsageError(f"{limits.shown(name)} is not a field of the query: {there}")
        try:
            values[part.name] = _value_of(part, one, as_text=as_text)
        except UsageError as error:
            raise UsageError(f"{name}: {error}") from error
    if len(values) < len(plan.parameters):
        for name, part in plan.parameters.items():
            if part.default is NODEFAULT and part.name not in values:
                raise UsageError(f"{name}: missing; it belongs in the query")
    return values


def _value_of(part: FieldPart, one: Any, *, as_text: bool = True) -> Any:
    """A field as what it says, in JSON or, with `as_text`, in a text."""
    try:
        if not (isinstance(one, str) and part.form.type is str):  # else its check is all it needs
            one = msgspec.convert(one, part.form.type, strict=not as_text)
    except msgspec.ValidationError as error:
        reason = _plain(str(error))
        raise UsageError(
            reason.replace("got str", f"not {limits.shown(one)}") if as_text else reason
        ) from error
    return one if one is None or part.form.load is None else part.form.load(one)


def _to_text(one: Any) -> str:
    if isinstance(one, bool):
        return "true" if one else "false"
    return str(one)


# --- reading strictly ----------------------------------------------------------------------------


def _read(plan: RoutePlan, body: bytes) -> Any:
    try:
        decoded = plan.decode(body)
    except msgspec.ValidationError as error:
        reason = _placed(str(error))
        if reason.startswith(_UNKNOWN) and plan.route.body is None:
            reason += f": there is {', '.join(part.wire_name for part in plan.body)}"
        raise UsageError(reason) from error
    except (msgspec.DecodeError, ValueError) as error:
        raise UsageError(f"the body is not valid JSON: {error}") from error
    except RecursionError:
        raise UsageError(f"$: nests deeper than {limits.JSON_DEPTH_MAX} levels") from None
    refuse_twice(body)
    return decoded


def _placed(text: str) -> str:
    """The text of msgspec with the place first: `$.a[0]: expected int`."""
    what, _, place = text.rpartition(" - at ")
    return f"{place.strip('`')}: {_plain(what)}" if what else f"$: {_plain(text)}"


def _plain(text: str) -> str:
    what = text.rpartition(" - at ")[0] or text
    return (what[0].lower() + what[1:200]).replace("`", "")


def refuse_twice(body: bytes) -> None:
    """Raises: UsageError for an object that has a field twice. Values of `json` are a message's
    own matter: they are looked at as bytes, not as fields.
    """
    try:
        _once(body.decode())
    except _Twice:
        place = _find_twice(json.loads(body, object_pairs_hook=_Pairs), "$")
        if place is not None:
            raise UsageError(f"{place}: appears twice") from None
    except UnicodeDecodeError as error:
        raise UsageError(f"the body is not valid JSON: {error}") from error
    except RecursionError:
        raise UsageError(f"$: nests deeper than {limits.JSON_DEPTH_MAX} levels") from None
    except ValueError:
        raise UsageError("the body is not valid JSON: a number is too long") from None


class _Twice(Exception):
    pass


class _Pairs(list[tuple[str, Any]]):
    """An object as its fields in order, repeated ones too."""


def _refuse(pairs: list[tuple[str, Any]]) -> None:
    if len(pairs) > 1 and len(dict(pairs)) != len(pairs):
        raise _Twice


_once = json.JSONDecoder(object_pairs_hook=_refuse).decode


def _find_twice(value: Any, place: str) -> str | None:
    if isinstance(value, _Pairs):
        names: set[str] = set()
        for name, inner in value:
            if name in names:
                return f"{place}.{name}"
            names.add(name)
            if name == "json":
                continue
            if (found := _find_twice(inner, f"{place}.{name}")) is not None:
                return found
    elif isinstance(value, list):
        for i, inner in enumerate(cast("list[Any]", value)):
            if (found := _find_twice(inner, f"{place}[{i}]")) is not None:
                return found
    return None


# --- several verbs in one request ----------------------------------------------------------------


class TransactionBody(msgspec.Struct, forbid_unknown_fields=True):
    """Verbs that are carried out in one transaction, in this order: at most 100.

    Each is an object with `verb`, its name, and all of its fields, those of path and query, too.
    With `all_or_none`, a verb that is refused (`channel_full`, `lease_lost`) undoes the others: the
    answer is the error `refused`. So what an ack leads to is sent with it, or neither happens.
    """

    verbs: Annotated[tuple[dict[str, Raw], ...], msgspec.Meta(max_length=TRANSACTION_VERBS_MAX)]
    all_or_none: bool = False


def dump_transaction(verbs: Sequence[v.Verb[Any]], *, all_or_none: bool = False) -> bytes:
    """The body for verbs that are carried out in one transaction."""
    return _encode(TransactionBody(tuple(map(_dump_item, verbs)), all_or_none))


def load_transaction(body: bytes) -> tuple[tuple[v.Verb[Any], ...], bool]:
    """The verbs in that body, and whether it is all or none of them.

    Raises: UsageError that names the place.
    """
    try:
        transaction = _decode_transaction(body)
    except msgspec.ValidationError as error:
        raise UsageError(_placed(str(error))) from error
    except (msgspec.DecodeError, ValueError) as error:
        raise UsageError(f"the body is not valid JSON: {error}") from error
    except RecursionError:
        raise UsageError(f"$: nests deeper than {limits.JSON_DEPTH_MAX} levels") from None
    refuse_twice(body)
    verbs: list[v.Verb[Any]] = []
    for i, item in enumerate(transaction.verbs):
        try:
            verbs.append(_load_item(item))
        except UsageError as error:
            raise UsageError(f"$.verbs[{i}]: {str(error).removeprefix('$: ')}") from error
    return tuple(verbs), transaction.all_or_none


_KINDS: Mapping[str, Kind] = {kind.name: kind for kind in v.VOCABULARY}


def _dump_item(verb: v.Verb[Any]) -> dict[str, Raw]:
    plan = plan_of(type(verb))
    body = dump_verb(verb)
    item = {"verb": Raw(_encode(verb.name))}
    values = plan.spread(verb)
    for name, part in plan.parameters.items():
        if values.get(part.name) is not None:
            item[name] = Raw(_encode(part.form.dumped(values[part.name])))
    if plan.route.body is not None:
        item[plan.route.body] = Raw(body)
    elif body:
        item.update(_decode_fields(body))
    return item


def _load_item(item: dict[str, Raw]) -> v.Verb[Any]:
    fields = dict(item)
    try:
        kind = _KINDS[msgspec.json.decode(fields.pop("verb", Raw(b'""')), type=str)]
    except (msgspec.ValidationError, KeyError) as error:
        raise UsageError(f"verb: one of {', '.join(_KINDS)}") from error
    return load_item(kind, fields).verb


def load_item(kind: Kind, fields: dict[str, Raw]) -> VerbItem:
    """A verb of all its fields, those of path and query, too. Raises: UsageError."""
    plan = plan_of(kind)
    parameters = {
        name: msgspec.json.decode(fields.pop(name)) for name in [*plan.parameters] if name in fields
    }
    for name in plan.route.in_path:
        if name not in parameters and plan.route.also is None:
            raise UsageError(f"{name}: missing")
    if plan.route.body is not None:
        body = bytes(fields.pop(plan.route.body, Raw(b"{}")))
        if fields:
            raise UsageError(f"{limits.shown(next(iter(fields)))} is not a field of {kind.name}")
    else:
        body = _encode(fields)
    return _load(kind, body, parameters, as_text=False)


_encode = msgspec.json.Encoder().encode
_decode_fields = msgspec.json.Decoder(dict[str, Raw]).decode
_decode_transaction = msgspec.json.Decoder(TransactionBody).decode
