"""Names in a namespace: a client's `emails` is `acme/emails` in the database.

`inside` puts the namespace in front of every name in a verb; `outside` takes it off every name in
an answer. Fields that hold names have their own types (`QueueName` and the others in `verb`); a
test walks the whole vocabulary and fails for a text field that is not classified.

A name of another namespace cannot be asked for. An answer can hold one only because the owner of
the database has tied queues of two namespaces together; it is then left out.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from operator import attrgetter
from types import UnionType
from typing import (
    Annotated,
    Any,
    Literal,
    TypeVar,
    Union,
    cast,
    get_args,
    get_origin,
    get_type_hints,
)

from turnabout.words import entities as e
from turnabout.words import outcomes as o
from turnabout.words import verbs as v
from turnabout.words.errors import QueueNotFound, TurnaboutError, UsageError
from turnabout.words.namespaces import NO_NAMESPACE, plain, stored
from turnabout.words.policy import QueueSettings
from turnabout.words.schedules import Schedule
from turnabout.words.value import replace, unchecked
from turnabout.words.verbs import Verb

A = TypeVar("A")
V = TypeVar("V", bound=Verb[Any])

Kind = Literal["name", "or none", "namespace", "changes", "value", "values", "origin"]
"""A name; a name or None; the namespace itself; changes of settings; a value or values that hold
names; an `Origin` as JSON.
"""


def _plain_types(hint: Any) -> Iterator[Any]:
    """The types that a type hint is made of."""
    if get_origin(hint) in {Union, UnionType, tuple}:
        for part in get_args(hint):
            yield from _plain_types(part)
    else:
        yield hint


@cache
def names_in(kind: type[Any]) -> Mapping[str, Kind]:
    """Each field of a verb or value that holds a name, or values that do, by their types."""
    if not hasattr(kind, "__match_args__"):
        return {}
    found: dict[str, Kind] = {}
    for field, hint in get_type_hints(kind, include_extras=True).items():
        types = list(_plain_types(hint)) if field in kind.__match_args__ else []
        kinds = [part.__metadata__[0] for part in types if get_origin(part) is Annotated]
        if kinds:
            is_optional = kinds[0] == "name" and type(None) in types
            found[field] = "or none" if is_optional else kinds[0]
        elif any(isinstance(part, type) and names_in(part) for part in types):
            found[field] = "values" if ... in types else "value"
    return found


def _all_named() -> Iterator[tuple[type[Any], Mapping[str, Kind]]]:
    """The values that verbs and their answers are made of, with their names."""
    seen: set[Any] = set()
    rest: list[Any] = [*v.VOCABULARY, *(part for verb in v.VOCABULARY for part in _answers(verb))]
    while rest:
        kind = rest.pop()
        if kind in seen or not hasattr(kind, "__match_args__"):
            continue
        seen.add(kind)
        if named := names_in(kind):
            yield kind, named
        rest += [part for hint in get_type_hints(kind).values() for part in _plain_types(hint)]


def _answers(verb: type[Verb[Any]]) -> list[Any]:
    """The types of a verb's answer."""
    (base,) = cast("Any", verb).__orig_bases__
    return [part for hint in get_args(base) for part in _plain_types(hint)]


NAMED: Mapping[type[Any], Mapping[str, Kind]] = dict(_all_named())
"""Each field that holds a name of a queue or schedule, or a value that does."""

CHANGES = ("dead_letter",)
"""Settings that hold a name, as keys of `QueueUpdate.changes`."""

ANSWERS_NAME: frozenset[type[Verb[Any]]] = frozenset(
    verb for verb in v.VOCABULARY if any(part in NAMED for part in _answers(verb))
)
"""Verbs whose answers may hold a name; any other answer is the same outside."""


def inside(verb: V, namespace: str) -> V:
    """The verb with stored names, held to the namespace. Raises: UsageError for a name with a slash
    or an invalid one, for a verb that names a namespace itself, and for one that no API has.
    """
    step = _INSIDE.get(type(verb))
    if step is None:
        raise UsageError(f"{verb.name} is for the owner of the database: no server carries it out")
    return step(verb, namespace)


def outside(answer: A, namespace: str) -> A:
    """The answer with plain names. A name of another namespace is None, or `""` where there has to
    be one.
    """
    if type(answer) is tuple:
        items = cast("tuple[Any, ...]", answer)
        return cast("A", tuple([_outside(item, namespace) for item in items]))
    return _outside(answer, namespace)


def outside_error(error: TurnaboutError, namespace: str) -> TurnaboutError:
    """A copy of the error with plain names in its text: other callers may hold the original. The
    caller copies `__cause__` if it needs it.
    """
    if isinstance(error, QueueNotFound):
        return QueueNotFound(plain(error.queue, namespace) or "")
    copy = type(error).__new__(type(error))
    copy.__dict__.update(error.__dict__)
    copy.args = tuple(_plain_text(arg, namespace) for arg in error.args)
    return copy


# --- how -----------------------------------------------------------------------------------------

_QUOTED = re.compile(r"(['\"])(?:[A-Za-z0-9][A-Za-z0-9_.-]*/[A-Za-z0-9][A-Za-z0-9_.-]*)\1")
"""The quoted name of a queue in a namespace, as stores write it in a text."""


def _plain_text(text: Any, namespace: str) -> Any:
    if not isinstance(text, str) or "/" not in text:
        return text
    if namespace != NO_NAMESPACE:
        text = re.sub(rf"(?<![A-Za-z0-9_./-]){re.escape(namespace)}/(?=[A-Za-z0-9])", "", text)
    return _QUOTED.sub("another one", text)


def _outside(value: Any, namespace: str) -> Any:
    step = _OUTSIDE.get(cast("type[Any]", type(value)))
    return value if step is None else step(value, namespace)


Step = Callable[[Any, str], Any]


def _one_name(kind: type[Any], fields: tuple[str, ...]) -> Step:
    """A fast step for the many verbs whose first field is their only name."""
    rest: Any = attrgetter(*fields[1:]) if len(fields) > 1 else None
    if rest is None:

        def step(verb: Any, namespace: str) -> Any:
            name = stored(verb.queue, namespace)
            return verb if namespace == NO_NAMESPACE else kind(name)

    elif len(fields) == 2:

        def step(verb: Any, namespace: str) -> Any:
            name = stored(verb.queue, namespace)
            return verb if namespace == NO_NAMESPACE else kind(name, rest(verb))

    else:

        def step(verb: Any, namespace: str) -> Any:
            name = stored(verb.queue, namespace)
            return verb if namespace == NO_NAMESPACE else kind(name, *rest(verb))

    return step


def _inside_of(kind: type[Any]) -> Step:
    named = NAMED.get(kind, {})
    fields: tuple[str, ...] = kind.__match_args__
    if dict(named) == {"queue": "name"} and fields[0] == "queue":
        return _one_name(kind, fields)

    def step(verb: Any, namespace: str) -> Any:
        # Made anew by its class, so that what it checks holds for the longer names, too.
        return replace(verb, **{f: _put(how, getattr(verb, f), namespace) for f, how in items})

    items = tuple(named.items())
    return step


def _put(how: Kind, value: Any, namespace: str) -> Any:
    """A field of a verb as it is stored."""
    match how:
        case "name":
            return stored(value, namespace)
        case "or none":
            return None if value is None else stored(value, namespace)
        case "namespace":
            if value is not None:
                raise UsageError("a namespace is not named: it comes from the token")
            return namespace
        case "changes":
            changes = dict(value)
            for name in CHANGES:
                if isinstance(changes.get(name), str):  # the settings refuse all else
                    changes[name] = stored(changes[name], namespace)
            return changes
        case "value":
            return _INSIDE[type(value)](value, namespace)
        case "values":
            return tuple(_INSIDE[type(one)](one, namespace) for one in value)
        case "origin":
            raise AssertionError("no verb has an origin")


def _outside_of(kind: type[Any]) -> Step:
    items = tuple(NAMED[kind].items())

    def step(value: Any, namespace: str) -> Any:
        taken = {name: _take(how, getattr(value, name), namespace) for name, how in items}
        return unchecked(value, taken)  # all of it was checked before it was stored

    return step


def _take(how: Kind, value: Any, namespace: str) -> Any:
    """A field of an answer (or of a verb that is shown) as it is outside."""
    match how:
        case "name":
            return plain(value, namespace) or ""
        case "or none":
            return None if value is None else plain(value, namespace)
        case "namespace":
            return None
        case "changes":
            taken = {n: plain(value[n], namespace) for n in CHANGES if value.get(n) is not None}
            return {**value, **taken}
        case "value":
            return _outside(value, namespace)
        case "values":
            return tuple([_outside(one, namespace) for one in value])
        case "origin":
            story = json.loads(value)
            story["queue"] = plain(story["queue"], namespace) or ""
            return json.dumps(story, ensure_ascii=False)


def _received_outside(value: o.Received, namespace: str) -> o.Received:
    """Thousands of deliveries are made a second, and hardly one has a story."""
    if not any(delivery.origin_json for delivery in value.deliveries):
        return value
    return replace(value, deliveries=_take("values", value.deliveries, namespace))


def _delivery_outside(value: e.Delivery, namespace: str) -> e.Delivery:
    if value.origin_json is None:
        return value
    return value._replace(origin_json=_take("origin", value.origin_json, namespace))


_INSIDE: Mapping[type[Any], Step] = {
    kind: _inside_of(kind) for kind in (*v.VOCABULARY, QueueSettings, Schedule)
}
_OUTSIDE: Mapping[type[Any], Step] = {
    **{kind: _outside_of(kind) for kind in NAMED if kind is not e.Delivery},
    e.Delivery: _delivery_outside,
    o.Received: _received_outside,
}
