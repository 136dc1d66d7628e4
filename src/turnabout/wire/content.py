"""Bytes on the wire: an object with one of `json`, `text` and `base64`.

JSON stays as it was written, byte for byte: it is checked, and never said again in other words.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Any, cast

import msgspec
from msgspec import UNSET, Raw, UnsetType

from turnabout.words import limits
from turnabout.words.errors import UsageError
from turnabout.words.payload import BYTES, JSON, TEXT


class Content(msgspec.Struct, forbid_unknown_fields=True, omit_defaults=True):
    """Bytes: exactly one of `json` (any JSON value), `text` (in UTF-8) and `base64`."""

    json: Raw | UnsetType = UNSET
    text: str | UnsetType = UNSET
    base64: bytes | UnsetType = UNSET


def load_content(content: Content) -> tuple[bytes, str]:
    """The bytes, and the content type of those that come without one."""
    json, text, base64 = content.json, content.text, content.base64
    if [json, text, base64].count(UNSET) != 2:
        raise UsageError("bytes are given as one of json, text and base64")
    if not isinstance(json, UnsetType):
        return checked_json(bytes(json)), JSON
    if not isinstance(text, UnsetType):
        return text.encode(), TEXT
    return cast("bytes", base64), BYTES


def load_bytes(content: Content) -> bytes:
    """The bytes, where there is no content type."""
    return load_content(content)[0]


def dump_content(data: bytes, content_type: str | None) -> Content:
    """Write bytes as JSON if they are declared to be, and are; else as text, else in base64."""
    if content_type is not None and is_json_type(content_type) and _is_plain_json(data):
        return Content(Raw(data))
    try:
        return Content(text=data.decode())
    except UnicodeDecodeError:
        return Content(base64=data)


def dump_bytes(data: bytes) -> Content:
    """Bytes without a content type."""
    return dump_content(data, None)


def type_of(content: Content) -> str:
    """The content type that this form has when none is named."""
    if content.json is not UNSET:
        return JSON
    return TEXT if content.text is not UNSET else BYTES


@lru_cache(256)
def is_json_type(content_type: str) -> bool:
    """`application/json`, or a type that ends in `+json`, whatever its parameters."""
    kind = content_type.partition(";")[0].strip().lower()
    return kind == JSON or (kind.endswith("+json") and "/" in kind)


def checked_json(data: bytes) -> bytes:
    """The bytes of one JSON value. Raises: UsageError for what is none, in the strict sense: NaN,
    lone surrogates, bytes that are not UTF-8, numbers beyond a double, nesting deeper than 64.
    """
    try:
        _decode(data)
    except (msgspec.DecodeError, ValueError) as error:
        raise UsageError(f"the JSON is not valid: {error}") from error
    except RecursionError:
        raise UsageError(_TOO_DEEP) from None
    if data.count(b"[") + data.count(b"{") > limits.JSON_DEPTH_MAX and is_deep(data):
        raise UsageError(_TOO_DEEP)
    return data


def is_deep(data: bytes) -> bool:
    """Whether that JSON nests deeper than 64. Brackets only are looked at, the innermost of them
    taken away again and again: a value at a time would hold the server up for seconds.
    """
    left = _STRING.sub(b"", data).translate(_SQUARE, _NO_BRACKET)
    for _ in range(limits.JSON_DEPTH_MAX):
        left = left.replace(b"[]", b"")
        if not left:
            return False
    return True


def _is_plain_json(data: bytes) -> bool:
    """Whether a reader of `json` gets these very bytes: white space around a value is lost."""
    if not data or data[0] in _SPACE or data[-1] in _SPACE:
        return False
    try:
        checked_json(data)
    except UsageError:
        return False
    return True


_decode = msgspec.json.Decoder[Any]().decode
_SPACE = b" \t\r\n"
_STRING = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"')
_SQUARE = bytes.maketrans(b"{}", b"[]")
_NO_BRACKET = bytes(set(range(256)) - set(b"[]{}"))
_TOO_DEEP = f"the JSON nests deeper than {limits.JSON_DEPTH_MAX} levels"
