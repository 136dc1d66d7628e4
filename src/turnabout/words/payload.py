"""Payloads between Python values and bytes: bytes stay, str is text, everything else is JSON."""

from __future__ import annotations

import json
from typing import Any, cast

from turnabout.words import limits
from turnabout.words.errors import UsageError

BYTES = "application/octet-stream"
TEXT = "text/plain; charset=utf-8"
JSON = "application/json"

_to_json = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode


def encode(value: Any) -> tuple[bytes, str]:
    """The bytes and content type of a payload.

    Raises: UsageError for what JSON cannot say exactly: NaN, lone surrogates, other types,
            nesting deeper than 64.
    """
    if isinstance(value, (bytes, bytearray, memoryview)):
        return bytes(value), BYTES  # pyright: ignore[reportUnknownArgumentType]
    if isinstance(value, str):
        return _utf8(value), TEXT
    try:
        text = _to_json(value)
    except (TypeError, ValueError, RecursionError) as error:
        raise UsageError(f"the payload cannot be written as JSON: {error}") from error
    if text.count("[") + text.count("{") > limits.JSON_DEPTH_MAX:
        _refuse_deep(value)
    return _utf8(text), JSON


def decode_json(data: bytes) -> Any:
    """The value of a JSON payload. NaN and Infinity, which JSON does not have, are refused."""
    try:
        return json.loads(data, parse_constant=_refuse_constant)
    except (ValueError, RecursionError) as error:
        raise UsageError(f"the payload is not JSON: {error}") from error


def decode_text(data: bytes) -> str:
    """The text of a payload in UTF-8."""
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise UsageError(f"the payload is not UTF-8: {error}") from error


def _utf8(text: str) -> bytes:
    try:
        return text.encode()
    except UnicodeEncodeError as error:
        raise UsageError("the payload holds a lone surrogate, not valid Unicode") from error


def _refuse_constant(name: str) -> Any:
    raise ValueError(f"{name} is not JSON")


def _refuse_deep(value: Any) -> None:
    """Walk level by level, so that depth costs no recursion."""
    level: list[Any] = [value]
    for _ in range(limits.JSON_DEPTH_MAX):
        level = [inner for outer in level for inner in _inside(outer)]
    if any(isinstance(inner, (dict, list, tuple)) for inner in level):
        raise UsageError(f"the payload nests deeper than {limits.JSON_DEPTH_MAX} levels")


def _inside(value: Any) -> list[Any]:
    if isinstance(value, dict):
        return list(cast("dict[Any, Any]", value).values())
    if isinstance(value, (list, tuple)):
        return list(cast("list[Any]", value))
    return []
