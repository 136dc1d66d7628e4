"""`--json`: every value in the form of the wire, and what the help says of it.

A command prints what the server answers to the same verb: one document, `{"items": […]}`, or a
line for each. The wire works the form out from the value's fields; so does `help_lines`, for help.
"""

from __future__ import annotations

import json
import sys
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

WIDTH = 92


class _Many:
    """A kind, with some fields before its own: `one`, as `lines`, or as the `items` of one."""

    def __init__(self, how: Literal["one", "lines", "items"], kind: Any, *fields: str) -> None:
        self.how, self.kind, self.fields = how, kind, fields


one, lines, items = partial(_Many, "one"), partial(_Many, "lines"), partial(_Many, "items")


# --- printing -------------------------------------------------------------------------------------


def line(value: Any, *, tagged: bool = False, **fields: Any) -> str:
    """A value as one line of JSON: a mapping as it is, all else in the form of the wire.

    `fields` come first; `tagged`: with the name of the outcome.
    """
    if isinstance(value, Mapping):
        return writable(json.dumps({**fields, **value}, ensure_ascii=False, allow_nan=False))
    from turnabout.wire import dump_value

    text = one_line(dump_value(value, tagged=tagged))
    if fields:
        head = json.dumps(fields, ensure_ascii=False)[:-1]
        text = f"{head}}}" if text == "{}" else f"{head}, {text[1:]}"
    return writable(text)


def document(values: Any) -> str:
    return f'{{"items": [{", ".join(line(one) for one in values)}]}}'


def one_line(data: bytes) -> str:
    """JSON of the wire in one line: payloads of JSON stay as they were written, so that there may
    be line feeds between their tokens.
    """
    return data.replace(b"\n", b" ").replace(b"\r", b" ").decode()


def writable(text: str) -> str:
    """The same JSON in what the output can write."""
    try:
        text.encode(sys.stdout.encoding or "utf-8")
    except UnicodeEncodeError:  # a lone surrogate from a name, or a narrow locale
        return "".join(c if c.isascii() else json.dumps(c)[1:-1] for c in text)
    return text


# --- explaining ----------------------------------------------------------------------------------

CONTENT = 'bytes ({…}) are {"json": value}, {"text": …} or {"base64": …}'
TIMES = "times are milliseconds since 1970 by the database's clock"
ABSENT = "?: left out at its default"


SCALARS: Mapping[Any, str] = {
    str: "text",
    int: "whole number",
    float: "number",
    bool: "true | false",
    NoneType: "null",
}


def help_lines(what: Any) -> list[str]:
    """The form in lines for the help. `what`: a kind, `one(…)`, `lines(…)`, `items(…)` or words."""
    if isinstance(what, str):
        return what.splitlines()
    from turnabout.wire.shapes import form_of

    many = what if isinstance(what, _Many) else None
    text = form(form_of(many.kind if many else what).type)
    if many:
        own = "".join(f'"{field}", ' for field in many.fields)
        if own:
            text = text.replace("{", "{" + own, 1).replace(" | {", " | {" + own)
        if many.how == "lines":
            text = f"one line for each: {text}"
        elif many.how == "items":
            text = f'{{"items": [{text}]}}'
    return [*wrapped(text), *notes(text)]


def wrapped(text: str, indent: int = 2) -> list[str]:
    """A form in lines that fit on a terminal."""
    return textwrap.wrap(text, WIDTH, subsequent_indent=" " * indent, break_on_hyphens=False)


def notes(text: str) -> list[str]:
    found = [note for note, sign in ((ABSENT, '"?'), (CONTENT, "{…}")) if sign in text]
    if '_at"' in text or '_until"' in text:
        found.append(TIMES)
    return found


def form(kind: Any, *, typed: bool = False) -> str:
    """A type of msgspec as JSON, with the names of its fields. `typed`: texts and numbers are
    named as such; else nothing stands for them.
    """
    from msgspec import Struct, UnsetType

    from turnabout.wire.content import Content

    origin, inner = get_origin(kind), get_args(kind)
    if origin is Annotated:
        return form(inner[0], typed=typed)
    if origin is Literal:
        return " | ".join(json.dumps(word) for word in inner)
    if origin is tuple:
        return f"[{form(inner[0], typed=typed) or '…'}]"
    if kind is Content:
        return "{…}"
    if origin not in (Union, UnionType):
        if isinstance(kind, type) and issubclass(kind, Struct):
            return _objects([kind], typed)
        return SCALARS.get(kind, "{…: …}") if typed else ""
    some = [one for one in inner if one is not UnsetType and (typed or one is not NoneType)]
    if NoneType not in some and len(some) > 1 and None not in map(_tag, some):
        return _objects(some, typed)
    return " | ".join(filter(None, (form(one, typed=typed) for one in some)))


def _tag(kind: Any) -> str | None:
    """The name of an outcome, which is said in its JSON."""
    return getattr(getattr(kind, "__struct_config__", None), "tag", None)


def _objects(kinds: Sequence[Any], typed: bool) -> str:
    """An object, or the outcomes that it may be: those of the same fields share a line."""
    same: dict[str, list[str]] = {}
    for kind in kinds:
        same.setdefault(", ".join(_fields(kind, typed)), []).append(_tag(kind) or "")
    forms: list[str] = []
    for fields, tags in same.items():
        outcome = " | ".join(map(json.dumps, filter(None, tags)))
        parts = filter(None, (outcome and f'"outcome": {outcome}', fields))
        forms.append("{" + ", ".join(parts) + "}")
    return " | ".join(forms)


def _fields(kind: Any, typed: bool) -> Iterator[str]:
    from msgspec import UnsetType
    from msgspec.structs import fields

    for one in fields(kind):
        may_be_absent = not one.required and kind.__struct_config__.omit_defaults
        absent = "?" if may_be_absent or UnsetType in get_args(one.type) else ""
        text = form(one.type, typed=typed)
        yield f'"{one.encode_name}"{absent}' + (f": {text}" if text else "")
