"""JSON forms of the vocabulary's values, derived from their type hints.

For each value class there is a msgspec Struct, which does the reading and the refusing, and a way
there and back. A value class that is new needs nothing here, unless it holds a kind of type that
none had before. `docs/design/server.md` has the rules.
"""

from __future__ import annotations

import types
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from operator import attrgetter
from typing import Annotated, Any, Literal, Union, cast, get_args, get_origin, get_type_hints

import msgspec
from msgspec import NODEFAULT, UNSET
from msgspec.structs import fields

from turnabout.wire import delivery
from turnabout.wire.content import (
    Content,
    dump_bytes,
    dump_content,
    load_bytes,
    load_content,
    type_of,
)
from turnabout.wire.ranges import MEMBERS, RANGES
from turnabout.wire.seconds import ms_of, seconds_of
from turnabout.words.entities import Delivery, Outgoing, Receipt
from turnabout.words.errors import UsageError
from turnabout.words.policy import QueueSettings
from turnabout.words.records import Result
from turnabout.words.verb import snake

Turning = Callable[[Any], Any]


@dataclass(frozen=True, slots=True)
class Form:
    """JSON form of a type. `load` and `dump` are None where both sides are the same."""

    type: Any
    load: Turning | None = None
    dump: Turning | None = None

    def dumped(self, value: Any) -> Any:
        """A value as it is said."""
        return value if self.dump is None or value is None else self.dump(value)


@dataclass(frozen=True, slots=True)
class FieldPart:
    """A field of a value class: its name there, its name and form on the wire, its default."""

    name: str
    wire_name: str
    form: Form
    default: Any
    """NODEFAULT: there is none. UNSET: it makes a difference whether it was said."""


class Misplaced(UsageError):
    """A UsageError that knows where in the body it belongs."""

    def __init__(self, place: str, error: UsageError) -> None:
        self.place = place + error.place if isinstance(error, Misplaced) else place
        self.text = error.text if isinstance(error, Misplaced) else str(error)
        super().__init__(f"${self.place}: {self.text}")


# --- values --------------------------------------------------------------------------------------


@cache
def shape_of(cls: type[Any], *, tagged: bool = False) -> Form:
    """The form of a value class; `tagged` for a member of a union of outcomes."""
    if cls is Delivery:
        return Form(delivery.Delivery, delivery.load, delivery.dump)
    parts = parts_of(cls)
    struct = struct_of(
        cls.__name__, parts, doc=cls.__doc__, tagged=tagged, full=cls is QueueSettings
    )
    if any(_is_content(part) for part in parts):
        return Form(struct, *_content_ways(cls, struct, parts))
    return Form(struct, loader(cls, parts), dumper(struct, parts))


@cache
def parts_of(cls: type[Any]) -> tuple[FieldPart, ...]:
    """The fields of a value class, in order."""
    hints = get_type_hints(cls)
    made: list[FieldPart] = []
    content = [
        f.name
        for f in fields(cls)
        if f.name in {"payload", "data"} and bytes in (hints[f.name], *get_args(hints[f.name]))
    ]
    for f in fields(cls):
        key = f"{cls.__name__}.{f.name}"
        name, form = f.name, form_of(hints[f.name], key)
        default = f.default
        if f.name.endswith("_ms"):
            name = f"{f.name.removesuffix('_ms')}_seconds"
            form = _ranged(Form(float, ms_of, seconds_of), key)
            if type(None) in get_args(hints[f.name]):
                form = Form(form.type | None, form.load, form.dump)
        elif f.name in content:
            form = Form(Content | None if f.default is None else Content, load_content)
        elif f.name == "content_type" and content and cls in {Outgoing, Result}:
            form, default = Form(str | None), None  # what its bytes have by themselves
        made.append(FieldPart(f.name, name, form, default))
    return tuple(made)


def struct_of(
    name: str,
    parts: tuple[FieldPart, ...],
    *,
    doc: str | None = None,
    tagged: bool = False,
    full: bool = False,
) -> type[msgspec.Struct]:
    """The Struct with these fields; with `full` those at their defaults are said, too."""
    return msgspec.defstruct(
        name,
        [
            (part.wire_name, part.form.type)
            if part.default is NODEFAULT
            else (part.wire_name, part.form.type, _wire_default(part))
            for part in parts
        ],
        namespace={"__doc__": doc},
        forbid_unknown_fields=True,
        omit_defaults=not full,
        tag_field="outcome" if tagged else None,
        tag=snake(name) if tagged else None,
        module=__name__,
        frozen=True,  # then a default may be a struct
    )


def _wire_default(part: FieldPart) -> Any:
    default, dump = part.default, part.form.dump
    return default if default is None or default is UNSET or dump is None else dump(default)


def loader(make: Callable[..., Any], parts: tuple[FieldPart, ...]) -> Turning:
    """Make a function from the Struct to what `make` makes of its fields in order."""
    get = getter(tuple(part.wire_name for part in parts))
    ways = [(i, p.wire_name, p.form.load) for i, p in enumerate(parts) if p.form.load is not None]

    def load(decoded: Any) -> Any:
        values = get(decoded)
        for i, name, way in ways:
            if values[i] is not None and values[i] is not UNSET:
                try:
                    values[i] = way(values[i])
                except UsageError as error:
                    raise Misplaced(f".{name}", error) from error
        return make(*values)

    return load


def dumper(struct: Callable[..., Any], parts: tuple[FieldPart, ...]) -> Turning:
    """Make a function from a value to the Struct with its fields."""
    get = getter(tuple(part.name for part in parts))
    ways = [(i, p.form.dump) for i, p in enumerate(parts) if p.form.dump is not None]
    # msgspec leaves out a field that *is* its default; equal ones are made the same here.
    usual = [
        (i, _wire_default(p))
        for i, p in enumerate(parts)
        if p.default is not NODEFAULT
        and p.default not in {None, ()}
        and type(p.default) is not bool
    ]

    def dump(value: Any) -> Any:
        values = get(value)
        for i, way in ways:
            if values[i] is not None:
                values[i] = way(values[i])
        for i, default in usual:
            if values[i] == default:
                values[i] = default
        return struct(*values)

    return dump


def getter(names: tuple[str, ...]) -> Callable[[Any], list[Any]]:
    """Some attributes of an object, in a list."""
    if not names:
        return lambda _: []
    get = attrgetter(*names)
    return (lambda thing: [get(thing)]) if len(names) == 1 else (lambda thing: list(get(thing)))


# --- types ---------------------------------------------------------------------------------------


def form_of(hint: Any, key: str = "") -> Form:
    """The form of a type. `key`: the class and field it stands in."""
    if hint in {str, int, bool, float, type(None)} or get_origin(hint) is Literal:
        return _ranged(Form(hint), key)
    if hint is bytes:
        return Form(Content, load_bytes, dump_bytes)
    if hint is Receipt:
        return Form(str, Receipt.parse, str)
    if get_origin(hint) is tuple:
        return _ranged(_list_of(_ranged(form_of(get_args(hint)[0]), key, MEMBERS)), key)
    if get_origin(hint) in {Mapping, dict}:
        return Form(dict[str, str], None, dict)
    if get_origin(hint) in {Union, types.UnionType}:
        return _any_of(get_args(hint), key)
    if hasattr(hint, "__struct_fields__") or hint is Delivery:
        return shape_of(cast("type[Any]", hint))
    raise TypeError(f"there is no form for {hint!r} ({key}): give it one in wire/shapes.py")


def _ranged(form: Form, key: str, table: Mapping[str, msgspec.Meta] = RANGES) -> Form:
    meta = table.get(key)
    return form if meta is None else Form(Annotated[form.type, meta], form.load, form.dump)


def _list_of(one: Form) -> Form:
    load, dump = one.load, one.dump
    listed = tuple.__class_getitem__((one.type, ...))
    if load is None or dump is None:
        return Form(listed)

    def load_all(items: tuple[Any, ...]) -> tuple[Any, ...]:
        try:
            return tuple([None if item is None else load(item) for item in items])
        except UsageError:
            for i, item in enumerate(items):  # once more, to name the place
                try:
                    if item is not None:
                        load(item)
                except UsageError as error:
                    raise Misplaced(f"[{i}]", error) from error
            raise

    def dump_all(values: tuple[Any, ...]) -> tuple[Any, ...]:
        return tuple([None if value is None else dump(value) for value in values])

    return Form(listed, load_all, dump_all)


def _any_of(hints: tuple[Any, ...], key: str) -> Form:
    """Form of an optional type, or of a union of outcomes, each tagged with its name."""
    some = [hint for hint in hints if hint is not type(None)]
    if len(some) == 1:
        form = form_of(some[0], key)
        return Form(form.type | None, form.load, form.dump)
    forms = {hint: shape_of(hint, tagged=True) for hint in some}
    loads = {form.type: form.load for form in forms.values()}
    dumps = {hint: form.dump for hint, form in forms.items()}

    def load(decoded: Any) -> Any:
        way = loads[type(decoded)]
        assert way is not None
        return way(decoded)

    def dump(value: Any) -> Any:
        way = dumps[type(value)]
        assert way is not None
        return way(value)

    union: Any = None
    for form in forms.values():
        union = form.type if union is None else union | form.type
    return Form(union, load, dump)


# --- bytes with their content type ---------------------------------------------------------------


def _is_content(part: FieldPart) -> bool:
    return part.form.load is load_content


def _content_ways(
    cls: type[Any], struct: Callable[..., Any], parts: tuple[FieldPart, ...]
) -> tuple[Turning, Turning]:
    """Load and dump for a class in which bytes and content type depend on one another."""
    names = [part.name for part in parts]
    at = next(i for i, part in enumerate(parts) if _is_content(part))
    at_type = names.index("content_type")
    may_be_left_out = cls in {Outgoing, Result}

    def make(*arguments: Any) -> Any:
        values = list(arguments)
        if values[at] is not None:
            values[at], usual = values[at]
            if values[at_type] is None:
                values[at_type] = usual
        return cls(*values)

    def dump_parts(*arguments: Any) -> Any:
        values = list(arguments)
        if values[at] is not None:
            values[at] = dump_content(values[at], values[at_type])
            if may_be_left_out and values[at_type] == type_of(values[at]):
                values[at_type] = None
        return struct(*values)

    return loader(make, parts), dumper(dump_parts, parts)
