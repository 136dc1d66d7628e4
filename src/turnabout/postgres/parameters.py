"""Parameters as the protocol carries them: text, or binary for bytes; arrays of either."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Any, cast

TEXT, BINARY = 0, 1

_BYTEA = 17
_HEADER = struct.Struct("!iiIii")
_LENGTH = struct.Struct("!i")
_NULL = _LENGTH.pack(-1)


def encoded(parameters: Sequence[Any]) -> tuple[list[bytes | None], list[int]]:
    """Values and formats of the parameters; the statement's casts give their types."""
    values: list[bytes | None] = []
    formats: list[int] = []
    for parameter in parameters:
        is_binary = False
        if parameter is None:
            value = None
        elif isinstance(parameter, str):
            value = parameter.encode()
        elif isinstance(parameter, bool):
            value = b"t" if parameter else b"f"
        elif isinstance(parameter, int):
            value = b"%d" % parameter
        elif isinstance(parameter, bytes):
            value, is_binary = parameter, True
        else:
            items: Sequence[Any] = parameter
            is_binary = isinstance(next((i for i in items if i is not None), None), bytes)
            value = binary(items) if is_binary else literal(items)
        values.append(value)
        formats.append(BINARY if is_binary else TEXT)
    return values, formats


def literal(items: Sequence[str | int | None]) -> bytes:
    """The literal of an array of text, numbers or booleans.

    Source: PostgreSQL's manual, "Array Input and Output Syntax".
    """
    if set(map(type, items)) == {str}:
        # All at once: NUL, which no text of PostgreSQL's can have, stands between them.
        text = "\x00".join(cast("Sequence[str]", items))
        if text.count("\x00") == len(items) - 1:
            return ('{"' + _escaped(text).replace("\x00", '","') + '"}').encode()
    each = ["NULL" if i is None else f'"{_escaped(str(i))}"' for i in items]
    return ("{" + ",".join(each) + "}").encode()


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"')


def binary(items: Sequence[bytes | None]) -> bytes:
    """An array of bytea in its binary form: a header, then each item behind its length.

    Source: `array_recv` in PostgreSQL's `arrayfuncs.c`.
    """
    parts = [_HEADER.pack(1, int(None in items), _BYTEA, len(items), 1)] * (2 * len(items) + 1)
    parts[1::2] = [_NULL if item is None else _LENGTH.pack(len(item)) for item in items]
    parts[2::2] = [item or b"" for item in items]
    return b"".join(parts)
