"""The OpenAPI document of `/v1`, worked out from the table of routes and the shapes.

Source: https://spec.openapis.org/oas/v3.1.0
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from typing import Any, get_args

import msgspec
from msgspec import NODEFAULT, UNSET

from turnabout import wire
from turnabout.server.api.examples import EXAMPLES
from turnabout.server.api.waiting import PollQuery
from turnabout.wire.answers import TransactionAnswer
from turnabout.wire.codec import TransactionBody
from turnabout.wire.errors import ErrorBody
from turnabout.wire.plans import Kind, answer_of, hint_of_answer, plan_of
from turnabout.wire.routes import REFUSALS, Route
from turnabout.wire.shapes import FieldPart, parts_of
from turnabout.words import verbs as v
from turnabout.words.entities import Outgoing

Json = dict[str, Any]

ABOUT = """\
A fair, multi-tenant message queue. Durations are seconds, instants are milliseconds since 1970.
Payloads are objects with one of `json`, `text` and `base64`. Every error has the same body, with a
stable `code` and whether the same request may be sent again."""
ERRORS: Mapping[str, str] = {
    "400": "Not right in itself; the message names the place. Nothing happened.",
    "401": "No token, or one that is unknown, expired or revoked.",
    "403": "The token's scopes do not allow it.",
    "404": "No such queue.",
    "405": "Nothing is done here by that method; `Allow` names those that do something.",
    "408": "The request came too slowly. Nothing happened.",
    "409": "A verb of an all-or-none transaction was refused. Nothing happened.",
    "413": "The body is too large.",
    "415": "The body has a Content-Encoding: send it as it is.",
    "429": "Too many requests for this namespace; `Retry-After` says when.",
    "431": "The request line and headers are too large.",
    "500": "A bug of the server; its log has it, under the `X-Request-Id` of the answer.",
    "502": "The database's answer was lost: it may have happened.",
    "503": "Not now: nothing happened, repeat the request.",
    "507": "A quota is used up, or the disk is full. Nothing happened.",
    "default": "Any other error.",
}
NAME: Json = {"type": "string", "pattern": "^[A-Za-z0-9][A-Za-z0-9_.-]*$", "maxLength": 69}
NAMES = frozenset({"queue", "schedule", "target"})
KEY: Json = {
    "name": "Idempotency-Key",
    "in": "header",
    "description": "A repeat with the same key answers with the ids of the first send.",
    "schema": {"type": "string", "minLength": 1, "maxLength": 200},
}
_REF = "#/components/schemas/{name}"


@cache
def document(max_messages: int) -> bytes:
    """The whole document, for a server that takes `max_messages` in one request."""
    from turnabout import __version__

    schemas, components = _schemas(max_messages)
    paths: dict[str, Json] = {}
    for row in wire.ROUTES:
        for path in filter(None, (row.path, row.also)):
            paths.setdefault(path, {})[row.method.lower()] = _operation(row, path, schemas)
    for path, method, operation in _beside(schemas):
        paths.setdefault(path, {})[method] = operation
    return msgspec.json.encode(
        {
            "openapi": "3.1.0",
            "info": {
                "title": "Turnabout",
                "version": __version__,
                "description": ABOUT,
                "license": {"name": "Apache License 2.0", "identifier": "Apache-2.0"},
            },
            "servers": [{"url": "/"}],
            "security": [{"bearer": []}, {"basic": []}, {}],
            "tags": [{"name": "verbs"}, {"name": "http"}],
            "paths": paths,
            "components": {
                "schemas": components,
                "securitySchemes": {
                    "bearer": {"type": "http", "scheme": "bearer"},
                    "basic": {
                        "type": "http",
                        "scheme": "basic",
                        "description": "Any user name, and the token as the password.",
                    },
                },
                "responses": {
                    _name(status): _ok(text, _json({"$ref": _REF.format(name="ErrorBody")}))
                    for status, text in ERRORS.items()
                },
            },
        }
    )


# --- schemas -------------------------------------------------------------------------------------


def _schemas(max_messages: int) -> tuple[dict[Any, Json], Json]:
    """The schemas of all bodies by their type, and those that they refer to."""
    kinds = list(v.VOCABULARY)
    types = [plan_of(kind).struct for kind in kinds if plan_of(kind).body]
    types += [answer_of(kind).type for kind in kinds]
    types += [ErrorBody, TransactionBody, TransactionAnswer]
    made, components = msgspec.json.schema_components(types, ref_template=_REF)
    content = components["Content"]
    content |= {"minProperties": 1, "maxProperties": 1}
    content["properties"]["base64"]["contentEncoding"] = "base64"
    components["Delivery"]["properties"]["headers"] = {
        "type": "object",
        "additionalProperties": {"type": "string"},
    }
    components["Delivery"]["properties"]["origin"] = {"$ref": _REF.format(name="Origin")}
    for schema in components.values():
        if "description" in schema:
            schema["description"] = _text(schema["description"])
        for name, inner in schema.get("properties", {}).items():
            for bound in {"maxItems"} & inner.keys():
                inner[bound] = min(inner[bound], max_messages)
            if name in NAMES and schema["title"].endswith("Request"):
                _named(inner)
    components["ReceiveRequest"]["properties"]["max_messages"]["maximum"] = max_messages
    return {id(kind): schema for kind, schema in zip(types, made, strict=True)}, components


def _named(schema: Json) -> None:
    for one in [schema, *schema.get("anyOf", [])]:
        if one.get("type") == "string":
            one.update(NAME)


def _schema_of(schemas: Mapping[Any, Json], kind: Any) -> Json:
    return schemas[id(kind)]


def _json(schema: Json, example: Any = None) -> Json:
    body: Json = {"schema": schema}
    if example is not None:
        body["example"] = example
    return {"application/json": body}


def _text(doc: str | None) -> str:
    """A docstring without its indentation, and without marks of promises, such as (P3)."""
    plain = re.sub(r" \(P[\dP, to]+\)", "", doc or "")
    return "\n".join(line.strip() for line in plain.strip().splitlines())


def _described(doc: str | None) -> Json:
    """The summary and description of a docstring."""
    text = _text(doc)
    return {"summary": re.split(r"[.:;]\s", text + " ", maxsplit=1)[0], "description": text}


# --- operations ----------------------------------------------------------------------------------


def _operation(row: Route, path: str, schemas: Mapping[Any, Json]) -> Json:
    """The OpenAPI operation of a verb."""
    plan = plan_of(row.verb)
    name, is_other = row.verb.name, path == row.also
    answer = _schema_of(schemas, answer_of(row.verb).type)
    examples = EXAMPLES.get(name, {})
    operation: Json = {
        "operationId": f"{name}_of_all" if is_other else name,
        "tags": ["verbs"],
        **_described(row.verb.__doc__),
        "parameters": [
            _parameter(part, row.in_path)
            for part in plan.parameters.values()
            if not (is_other and part.name in row.in_path)
        ],
        "responses": {
            "200": _ok("The outcome.", _json(answer, examples.get("answer"))),
            **_errors(),
        },
    }
    if row.verb is v.Send:
        operation["parameters"].append(KEY)
    if _can_refuse(row.verb):
        operation["responses"]["409"] = _ok("Refused, all of it.", _json(answer))
    if plan.body:
        schema = _schema_of(schemas, plan.struct)
        operation["requestBody"] = {
            "required": any(part.default is NODEFAULT for part in plan.body),
            "content": _json(schema, examples.get("request")),
        }
    return operation


def _parameter(part: FieldPart, in_path: tuple[str, ...]) -> Json:
    schema = msgspec.json.schema(part.form.type)
    if part.name in NAMES:
        _named(schema)
    is_in_path = part.name in in_path
    if part.default not in {NODEFAULT, UNSET, None} and not is_in_path:
        schema["default"] = part.default
    # In a query there is no null: a field that is not there is what it would say.
    some = [one for one in schema.get("anyOf", ()) if one != {"type": "null"}]
    if len(some) == 1:
        schema = some[0]
    if None in schema.get("enum", ()):
        schema["enum"] = [one for one in schema["enum"] if one is not None]
    return {
        "name": part.wire_name,
        "in": "path" if is_in_path else "query",
        "required": is_in_path or part.default is NODEFAULT,
        "schema": schema,
    }


def _can_refuse(kind: Kind) -> bool:
    hint = hint_of_answer(kind)
    return any(one in REFUSALS for one in get_args(hint))


def _ok(description: str, content: Json) -> Json:
    return {"description": description, "content": content}


def _errors() -> Json:
    return {status: {"$ref": f"#/components/responses/{_name(status)}"} for status in ERRORS}


def _name(status: str) -> str:
    return f"Error{status}" if status.isdigit() else "Error"


# --- beside the verbs ----------------------------------------------------------------------------


def _beside(schemas: Mapping[Any, Json]) -> list[tuple[str, str, Json]]:
    queue = "/v1/queues/{queue}"
    in_path: Json = {"name": "queue", "in": "path", "required": True, "schema": NAME}
    sent = _json(_schema_of(schemas, answer_of(v.Send).type))
    fields = [part for part in parts_of(Outgoing) if part.name not in _NOT_IN_QUERY]
    signal: Json = {
        "type": "object",
        "properties": {"signal": {"type": "integer"}, "instance": {"type": "string"}},
        "required": ["signal", "instance"],
    }
    raw = _plain("send_raw", "One message whose payload is the body.", sent)
    raw["parameters"] = [in_path, *[_parameter(part, ()) for part in fields], KEY]
    some_bytes: Json = {"schema": {"type": "string", "format": "binary"}}
    # Generators of clients know the first one; any other is taken as well.
    raw["requestBody"] = {"content": {"application/octet-stream": some_bytes, "*/*": some_bytes}}
    raw["responses"]["409"] = _ok("Refused.", sent)
    transaction = _plain(
        "transaction", TransactionBody.__doc__, _json(_schema_of(schemas, TransactionAnswer))
    )
    transaction["requestBody"] = {
        "required": True,
        "content": _json(_schema_of(schemas, TransactionBody)),
    }
    changes = _plain("signal", PollQuery.__doc__, _json(signal))
    changes["parameters"] = [in_path, *[_parameter(part, ()) for part in parts_of(PollQuery)]]
    some: Json = {"application/json": {"schema": {"type": "object"}}}
    return [
        (f"{queue}/send", "post", raw),
        ("/v1/transaction", "post", transaction),
        (f"{queue}/signal", "get", changes),
        ("/v1", "get", _plain("index", "What there is.", some)),
        ("/v1/openapi.json", "get", _plain("openapi", "This document.", some)),
    ]


_NOT_IN_QUERY = frozenset({"payload", "content_type", "headers"})


def _plain(name: str, doc: str | None, content: Json) -> Json:
    return {
        "operationId": name,
        "tags": ["http"],
        **_described(doc),
        "responses": {"200": _ok("The answer.", content), **_errors()},
    }
