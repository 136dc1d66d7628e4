"""Plans of verbs over HTTP: fields in path and query, the body, the answer."""

from __future__ import annotations

import types
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cache
from typing import Annotated, Any, Union, cast, get_args, get_origin

import msgspec
from msgspec import UNSET, UnsetType

from turnabout.wire.ranges import CHECKS, WAIT
from turnabout.wire.routes import NOT_ON_THE_WIRE, ROUTE_OF, Route
from turnabout.wire.shapes import (
    FieldPart,
    Form,
    Misplaced,
    Turning,
    form_of,
    getter,
    loader,
    parts_of,
    struct_of,
)
from turnabout.words import verbs as v
from turnabout.words.errors import UsageError
from turnabout.words.policy import Policy, QueueSettings
from turnabout.words.schedules import Schedule

Kind = type[v.Verb[Any]]
Build = Callable[[dict[str, Any]], v.Verb[Any]]


@dataclass(frozen=True, slots=True)
class RoutePlan:
    """Reading and writing requests for one verb."""

    route: Route
    parameters: Mapping[str, FieldPart]
    """Fields of the path and the query, by their name on the wire."""
    body: tuple[FieldPart, ...]
    struct: Any
    """The type that the body is read as."""
    decode: Callable[[bytes], Any]
    load: Callable[[Any], list[Any]]
    """The values of the body's fields, in their order."""
    build: Build
    """The verb, of all its fields by name; of values that are UNSET its own defaults."""
    spread: Callable[[Any], dict[str, Any]]
    """The fields of a verb by name: the opposite."""


@cache
def plan_of(kind: Kind) -> RoutePlan:
    """Worked out once."""
    route = ROUTE_OF[kind]
    parts = _parts(kind)
    outside = (*route.in_path, *route.query)
    parameters = {part.wire_name: part for part in parts if part.name in outside}
    body = tuple(part for part in parts if part.name not in outside)
    if route.waits:
        wait = FieldPart("wait_seconds", "wait_seconds", Form(Annotated[float, WAIT]), 0.0)
        if route.method == "GET":
            parameters["wait_seconds"] = wait
        else:
            body = (*body, wait)
    if route.body is not None:
        (only,) = body
        struct, load = only.form.type, _only(only)
    else:
        struct = struct_of(f"{kind.__name__}Request", body, doc=kind.__doc__)
        load = cast("Callable[[Any], list[Any]]", loader(lambda *values: list(values), body))
    return RoutePlan(
        route,
        parameters,
        body,
        struct,
        msgspec.json.Decoder(struct).decode,
        load,
        _build_schedule if kind is v.ScheduleSet else _builder(kind),
        _spread_schedule if kind is v.ScheduleSet else _spreader(kind),
    )


def _only(part: FieldPart) -> Callable[[Any], list[Any]]:
    load = part.form.load
    assert load is not None
    return lambda decoded: [load(decoded)]


def _parts(kind: Kind) -> tuple[FieldPart, ...]:
    """The fields of a verb as requests have them."""
    if kind is v.ScheduleSet:
        name, *others = parts_of(Schedule)
        # Left out, the due time is worked out by the server, and a pause stays as it is.
        others = [_may_be_left_out(part) if part.name == "paused" else part for part in others]
        next_at = FieldPart("next_at", "next_at", form_of(int | None, "ScheduleSet.next_at"), UNSET)
        return (
            _checked(replace(name, name="schedule", wire_name="schedule")),
            *others,
            _may_be_left_out(next_at),
        )
    parts = [_checked(part) for part in parts_of(kind) if part.name not in NOT_ON_THE_WIRE]
    for i, part in enumerate(parts):
        if part.name == "changes":
            parts[i] = replace(part, form=changes_of(CHANGED[kind]))
        elif kind is v.Receive and part.name == "max_messages":
            parts[i] = replace(part, default=1)
        elif kind is v.Receive and part.name == "turn":
            # Given by clients that keep their place in the turn; for others the server keeps it.
            parts[i] = _may_be_left_out(part)
        elif kind is v.QueueCreate and part.name == "settings":
            parts[i] = replace(part, default=QueueSettings())
    return tuple(parts)


def _may_be_left_out(part: FieldPart) -> FieldPart:
    form = replace(part.form, type=part.form.type | UnsetType)
    return replace(part, form=form, default=UNSET)


def _checked(part: FieldPart) -> FieldPart:
    check = CHECKS.get(part.name)
    if check is None or part.form.load is not None:
        return part
    return replace(part, form=replace(part.form, load=check))


def _builder(kind: Kind) -> Build:
    def build(values: dict[str, Any]) -> v.Verb[Any]:
        return kind(**values)

    return build


def _spreader(kind: Kind) -> Callable[[Any], dict[str, Any]]:
    names = tuple(part.name for part in parts_of(kind))
    get = getter(names)
    return lambda verb: dict(zip(names, get(verb), strict=True))


def _build_schedule(values: dict[str, Any]) -> v.Verb[Any]:
    next_at = values.pop("next_at", None)
    values["name"] = values.pop("schedule")
    return v.ScheduleSet(Schedule(**values), next_at)


def _spread_schedule(verb: v.ScheduleSet) -> dict[str, Any]:
    names = [part.name for part in parts_of(Schedule)]
    values = {name: getattr(verb.schedule, name) for name in names}
    return {**values, "schedule": values.pop("name"), "next_at": verb.next_at}


# --- changes -------------------------------------------------------------------------------------

CHANGED: Mapping[Kind, type[QueueSettings | Policy]] = {
    v.QueueUpdate: QueueSettings,
    v.PolicySet: Policy,
}
"""The values that these verbs change."""


@cache
def changes_of(cls: type[QueueSettings | Policy]) -> Form:
    """Some fields of settings: an object of those that change. `null` is a value like others."""
    parts = parts_of(cls)
    if cls is QueueSettings:
        policy = _part_of_a_policy(changes_of(Policy))
        parts = tuple(replace(p, form=policy) if p.name == "policy" else p for p in parts)
    struct = msgspec.defstruct(
        f"{cls.__name__}Changes",
        [(part.wire_name, part.form.type | UnsetType, UNSET) for part in parts],
        namespace={"__doc__": f"What changes in a {cls.__name__}; the rest stays."},
        forbid_unknown_fields=True,
        module=__name__,
    )
    by_name = {part.name: part for part in parts}
    usual = QueueSettings(fifo=True) if cls is QueueSettings else Policy()  # `block` needs FIFO

    def load(decoded: Any) -> dict[str, Any]:
        changes: dict[str, Any] = {}
        for part in parts:
            value = getattr(decoded, part.wire_name)
            if value is UNSET:
                continue
            if value is not None and part.form.load is not None:
                try:
                    value = part.form.load(value)
                except UsageError as error:
                    raise Misplaced(f".{part.wire_name}", error) from error
            changes[part.name] = value
        return changes

    def dump(changes: Mapping[str, Any]) -> dict[str, Any]:
        usual.changed(changes)  # refuses what JSON would make something else of
        fields = dict(changes)
        for name, value in fields.items():
            way = by_name[name].form.dump
            if way is not None and value is not None:
                fields[name] = way(value)
        return fields

    return Form(struct, load, dump)


def _part_of_a_policy(changes: Form) -> Form:
    """Form of a queue's `policy`: a whole one, which has each field, or some of its fields."""
    load, dump = changes.load, changes.dump
    assert load is not None
    assert dump is not None
    names = {part.name for part in parts_of(Policy)}

    def load_policy(decoded: Any) -> Policy | dict[str, Any]:
        some = load(decoded)
        return Policy(**some) if some.keys() == names else some

    def dump_policy(value: Policy | Mapping[str, Any]) -> dict[str, Any]:
        return dump({n: getattr(value, n) for n in names} if isinstance(value, Policy) else value)

    return Form(changes.type, load_policy, dump_policy)


# --- answers -------------------------------------------------------------------------------------


def hint_of_answer(kind: Kind) -> Any:
    """The type that a verb answers with."""
    bases = cast("tuple[Any, ...]", kind.__dict__["__orig_bases__"])
    return get_args(bases[0])[0]


@cache
def answer_of(kind: Kind) -> Form:
    """The form of a verb's answer: an object at any rate."""
    hint = hint_of_answer(kind)
    form = form_of(hint)
    if get_origin(hint) is tuple:
        return _in_an_object(kind, "items", form)
    if hint in {bool, int, str, type(None)} or (
        get_origin(hint) in {Union, types.UnionType} and type(None) in get_args(hint)
    ):
        return _in_an_object(kind, "value", form)
    return form


_NEXT = [("next", int | str | None, None)]
"""Cursor of a list that was too long for one answer."""


def _in_an_object(kind: Kind, name: str, form: Form) -> Form:
    struct = msgspec.defstruct(
        f"{kind.__name__}Answer",
        [(name, form.type), *_NEXT] if kind.pages is not None else [(name, form.type)],
        namespace={"__doc__": f"What `{kind.name}` answers."},
        omit_defaults=True,
        forbid_unknown_fields=True,
        module=__name__,
    )
    get = getter((name,))
    load, dump = form.load, form.dump

    def load_answer(decoded: Any) -> Any:
        (value,) = get(decoded)
        return value if load is None or value is None else load(value)

    def dump_answer(value: Any) -> Any:
        return struct(value if dump is None or value is None else dump(value))

    return Form(struct, load_answer, cast("Turning", dump_answer))
