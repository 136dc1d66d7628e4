"""One-dimensional arrays as PostgreSQL reads them: as a literal, or in binary for bytes."""

from __future__ import annotations

import struct
from collections.abc import Sequence

_BYTEA = 17
_HEADER = struct.Struct("!iiIii")
_LENGTH = struct.Struct("!i")
_NULL = _LENGTH.pack(-1)


def literal(items: Sequence[str | int | None]) -> bytes:
    """The literal of an array of text, numbers or booleans.

    Source: PostgreSQL's manual, "Array Input and Output Syntax".
    """
    return ("{" + ",".join(map(_element, items)) + "}").encode()


def _element(item: str | int | None) -> str:
    if item is None:
        return "NULL"
    if isinstance(item, str):
        return '"' + item.replace("\\", "\\\\").replace('"', '\\"') + '"'
    return str(item)


def binary(items: Sequence[bytes | None]) -> bytes:
    """An array of bytea in its binary form: a header, then each item behind its length.

    Source: `array_recv` in PostgreSQL's `arrayfuncs.c`.
    """
    parts = [_HEADER.pack(1, int(None in items), _BYTEA, len(items), 1)]
    for item in items:
        if item is None:
            parts.append(_NULL)
        else:
            parts += (_LENGTH.pack(len(item)), item)
    return b"".join(parts)
