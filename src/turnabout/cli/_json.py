"""`--json`: every value in the form of the wire, and what the help says of it.

A command prints what the server answers to the same verb: one document, `{"items": […]}`, or a
line for each. The wire works the form out from the value's fields; so does `told`, for the help.
"""

from __future__ import annotations

import json
import sys
import textwrap
from collections.abc import Iterator, Mapping
from functools import partial
from types import NoneType
from typing import Any, Literal, get_args, get_origin, get_type_hints

from turnabout.words.verb import snake

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
        return _writable(json.dumps({**fields, **value}, ensure_ascii=False, allow_nan=False))
    from turnabout.wire import dump_value

    # Payloads of JSON stay as they were written; between their tokens there may be line feeds.
    said = dump_value(value, tagged=tagged).replace(b"\n", b" ").replace(b"\r", b" ").decode()
    if fields:
        head = json.dumps(fields, ensure_ascii=False)[:-1]
        said = f"{head}}}" if said == "{}" else f"{head}, {said[1:]}"
    return _writable(said)


def document(values: Any) -> str:
    """Values as the items of one document."""
    return f'{{"items": [{", ".join(line(one) for one in values)}]}}'


def _writable(text: str) -> str:
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


def told(what: Any) -> list[str]:
    """The form in lines for the help. `what`: a kind, `one(…)`, `lines(…)`, `items(…)` or words."""
    if isinstance(what, str):
        return what.splitlines()
    many = what if isinstance(what, _Many) else None
    text = _form(many.kind if many else what)
    if many:
        own = "".join(f'"{field}", ' for field in many.fields)
        if own:
            text = text.replace("{", "{" + own, 1).replace(" | {", " | {" + own)
        if many.how == "lines":
            text = f"one line for each: {text}"
        elif many.how == "items":
            text = f'{{"items": [{text}]}}'
    notes = [note for note, sign in ((ABSENT, '"?'), (CONTENT, "{…}")) if sign in text]
    if '_at"' in text or '_until"' in text:
        notes.append(TIMES)
    shown = textwrap.wrap(text, WIDTH, subsequent_indent="  ", break_on_hyphens=False)
    return [*shown, *notes]


def _form(hint: Any) -> str:
    """A type as JSON, with the names of its fields."""
    if get_origin(hint) is Literal:
        return " | ".join(json.dumps(word) for word in get_args(hint))
    if get_origin(hint) is tuple:
        return f"[{_form(get_args(hint)[0]) or '…'}]"
    kinds = [kind for kind in get_args(hint) if kind is not NoneType]
    if len(kinds) == 1:
        return _form(kinds[0])
    if kinds and all(hasattr(kind, "__struct_fields__") for kind in kinds):
        same: dict[str, list[str]] = {}  # outcomes of the same fields share a line
        for kind in kinds:
            fields = "".join(f", {field}" for field in _fields(kind))
            same.setdefault(fields, []).append(json.dumps(snake(kind.__name__)))
        told = (f'{{"outcome": {" | ".join(names)}{fields}}}' for fields, names in same.items())
        return " | ".join(told)
    from turnabout.words.entities import Delivery

    if hasattr(hint, "__struct_fields__") or hint is Delivery:
        return "{" + ", ".join(_fields(hint)) + "}"
    return ""


def _fields(kind: Any) -> Iterator[str]:
    from msgspec import NODEFAULT, UnsetType

    from turnabout.wire.content import Content
    from turnabout.wire.shapes import parts_of, shape_of
    from turnabout.words.entities import Delivery
    from turnabout.words.policy import QueueSettings

    if kind is Delivery:
        for name, hint in get_type_hints(shape_of(kind).type).items():
            absent = "?" if UnsetType in get_args(hint) else ""
            yield f'"{name}"{absent}' + (": {…}" if Content in (hint, *get_args(hint)) else "")
        return
    hints = get_type_hints(kind)
    for part in parts_of(kind):
        said = _form(hints[part.name])
        if Content in (part.form.type, *get_args(part.form.type)):
            said = "{…}"
        name = f'"{part.wire_name}"'
        if part.default is not NODEFAULT and kind is not QueueSettings:
            name += "?"
        yield f"{name}: {said}" if said else name
