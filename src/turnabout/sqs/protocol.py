"""The two protocols of SQS: JSON 1.0, and the older one of forms, with answers in XML."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar, cast
from urllib.parse import parse_qsl
from xml.sax.saxutils import escape

import msgspec
from starlette.requests import Request

from turnabout.sqs.errors import SqsError, missing
from turnabout.sqs.message import NOT_ALLOWED
from turnabout.sqs.shapes import SqsShape

S = TypeVar("S", bound=SqsShape)
Fields = dict[str, Any]
Tree = dict[str, "Tree | str"]

TARGET = "AmazonSQS."
JSON, XML = "application/x-amz-json-1.0", "text/xml"
NAMESPACE = "http://queue.amazonaws.com/doc/2012-11-05/"
FIELDS_MAX = 2_000
LISTS = {
    "AttributeName": "AttributeNames",
    "MessageAttributeName": "MessageAttributeNames",
    "MessageSystemAttributeName": "MessageSystemAttributeNames",
    "TagKey": "TagKeys",
    "SendMessageBatchRequestEntry": "Entries",
    "DeleteMessageBatchRequestEntry": "Entries",
    "ChangeMessageVisibilityBatchRequestEntry": "Entries",
}
"""Lists in forms, `AttributeName.1=…`, and their names in JSON."""
MAPS = {
    "Attribute": ("Attributes", "Name", "Value"),
    "MessageAttribute": ("MessageAttributes", "Name", "Value"),
    "MessageSystemAttribute": ("MessageSystemAttributes", "Name", "Value"),
    "Tag": ("Tags", "Key", "Value"),
}
"""Maps in forms, `Tag.1.Key=…&Tag.1.Value=…`; and so they are in XML."""
_XML_MAPS = {name: (tag, key, value) for tag, (name, key, value) in MAPS.items()}
_XML_LISTS = {
    "QueueUrls": "QueueUrl",
    "queueUrls": "QueueUrl",
    "Messages": "Message",
    "Failed": "BatchResultErrorEntry",
    "Results": "Result",
}
_MISSING = re.compile(r"Object missing required field `(\w+)`")


@dataclass(frozen=True)
class SqsCall:
    """An action with its fields, and the protocol that it came by."""

    action: str
    fields: Any
    is_form: bool

    def read(self, shape: type[S]) -> S:
        """The fields in their shape. Raises: SqsError."""
        try:
            return msgspec.convert(self.fields, shape, strict=not self.is_form)
        except msgspec.ValidationError as error:
            if found := _MISSING.match(str(error)):
                raise missing(found[1]) from error
            raise SqsError("SerializationException", str(error)) from error

    def answer(self, found: Mapping[str, Any] | None, request_id: str) -> bytes:
        """The body of an answer; None: an action that answers nothing."""
        if not self.is_form:
            return b"" if found is None else msgspec.json.encode(found)
        inner = "" if found is None else "".join(_elements(found, self.action))
        result = f"<{self.action}Result>{inner}</{self.action}Result>" if found is not None else ""
        meta = f"<ResponseMetadata><RequestId>{request_id}</RequestId></ResponseMetadata>"
        tag = f"{self.action}Response"
        return _document(f'<{tag} xmlns="{NAMESPACE}">{result}{meta}</{tag}>')

    def refusal(self, error: SqsError, request_id: str) -> tuple[bytes, dict[str, str]]:
        """The body and the headers of an error."""
        if not self.is_form:
            body = {"__type": f"com.amazonaws.sqs#{error.name}", "message": error.text}
            return msgspec.json.encode(body), {"x-amzn-query-error": f"{error.code};{error.fault}"}
        body = {"Type": error.fault, "Code": error.code, "Message": error.text, "Detail": ""}
        inner = "".join(_elements(body, ""))
        text = f"<Error>{inner}</Error><RequestId>{request_id}</RequestId>"
        return _document(f'<ErrorResponse xmlns="{NAMESPACE}">{text}</ErrorResponse>'), {}


def call_of(request: Request, body: bytes) -> SqsCall:
    """The action that a request asks for. Raises: SqsError if it asks for none."""
    target = request.headers.get("x-amz-target")
    if target is not None:
        if not target.startswith(TARGET):
            raise SqsError("UnknownOperationException", "This is AmazonSQS.", 404)
        try:
            fields = msgspec.json.decode(body or b"{}")
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
            raise SqsError("SerializationException", f"The body is not JSON: {error}") from error
        return SqsCall(target.removeprefix(TARGET), fields, is_form=False)
    try:
        form = body.decode() if request.method == "POST" else ""
        texts = [text for text in (request.url.query, form) if text]
        parameters = dict(
            parse_qsl("&".join(texts), keep_blank_values=True, errors="strict",
                      max_num_fields=FIELDS_MAX)
        )  # fmt: skip
    except ValueError as error:
        raise SqsError("MalformedQueryString", "The request's form cannot be read.") from error
    action = parameters.pop("Action", None)
    if action is None:
        raise SqsError("MissingAction", "The request has no Action, and no X-Amz-Target.")
    return SqsCall(action, _fields(_tree(parameters)), is_form=True)


def _tree(parameters: Mapping[str, str]) -> Tree:
    """Names with dots as dicts in dicts. A name that is a text and a dict is a text."""
    tree: Tree = {}
    for name, value in parameters.items():
        place: Tree | str = tree
        *outer, last = name.split(".", 8)
        for part in outer:
            if isinstance(place, dict):
                place = place.setdefault(part, {})
        if isinstance(place, dict):
            place.setdefault(last, value)
    return tree


def _fields(tree: Tree) -> Fields:
    """A tree's lists and maps as JSON has them."""
    fields: Fields = {}
    for name, value in tree.items():
        if not isinstance(value, dict):
            fields[name] = value
        elif name in LISTS:
            fields[LISTS[name]] = [*_numbered(value)]
        elif name in MAPS:
            field, key, content = MAPS[name]
            pairs = [one for one in _numbered(value) if isinstance(one, dict) and key in one]
            fields[field] = {one[key]: one.get(content, "") for one in pairs}
            fields[field.lower()] = fields[field]  # CreateQueue has `tags`
        else:
            fields[name] = _fields(value)
    return fields


def _numbered(tree: Tree) -> Iterator[Fields | str]:
    """The items of a list, in the order of their numbers."""
    for name in sorted((name for name in tree if name.isdecimal()), key=int):
        item = tree[name]
        yield _fields(item) if isinstance(item, dict) else item


def _elements(found: Mapping[str, Any], action: str) -> Iterator[str]:
    """Fields as XML: lists flat, maps as elements with a name and a value."""
    for name, value in found.items():
        if name in _XML_MAPS:
            tag, key, content = _XML_MAPS[name]
            for one, item in value.items():
                yield f"<{tag}>{_text(key, one)}{_element(content, item, action)}</{tag}>"
        elif isinstance(value, list):
            tag = _XML_LISTS.get(name) or f"{action}ResultEntry"
            yield from (_element(tag, one, action) for one in cast("list[Any]", value))
        elif value is not None:
            yield _element(name, value, action)


def _element(tag: str, value: Any, action: str) -> str:
    if isinstance(value, dict):
        return f"<{tag}>{''.join(_elements(cast('Fields', value), action))}</{tag}>"
    return _text(tag, value)


def _text(tag: str, value: Any) -> str:
    text = str(value).lower() if isinstance(value, bool) else str(value)
    clean = escape(NOT_ALLOWED.sub("\ufffd", text), {"\r": "&#xD;"})
    return f"<{tag}>{clean}</{tag}>"


def _document(text: str) -> bytes:
    return f'<?xml version="1.0"?>{text}'.encode()


def batch_checked(entries: Iterable[Any], most: int = 10) -> list[Any]:
    """The entries of a batch. Raises: SqsError if it is wrong as a whole."""
    found = [*entries]
    ids = [one.id for one in found]
    if not found:
        text = "There should be at least one entry in the request."
        raise SqsError("EmptyBatchRequest", text)
    if len(found) > most:
        text = f"Maximum number of entries per request are {most}. You have sent {len(found)}."
        raise SqsError("TooManyEntriesInBatchRequest", text)
    for one in ids:
        if not re.fullmatch(r"[A-Za-z0-9_-]{1,80}", one):
            text = (
                "A batch entry id can only contain alphanumeric characters, hyphens and "
                "underscores. It can be at most 80 letters long."
            )
            raise SqsError("InvalidBatchEntryId", text)
    if twice := next((one for place, one in enumerate(ids) if one in ids[:place]), None):
        raise SqsError("BatchEntryIdsNotDistinct", f"Id {twice} repeated.")
    return found
