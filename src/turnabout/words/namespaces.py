"""Names in a namespace: what a client calls `emails` is `acme/emails` in the database.

`inside` puts the namespace in front of every name in a verb; `outside` takes it off every name in
an answer. Which fields hold names is said once, in `NAMED`; a test walks the whole vocabulary and
fails for a field that may hold a name and is not told here.

A name of another namespace cannot be asked for. In an answer it can only stand because the owner
of the database has tied queues of two namespaces together; it is then left out.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import lru_cache
from operator import attrgetter
from typing import Any, Literal, TypeVar, cast

from turnabout.words import entities as e
from turnabout.words import limits
from turnabout.words import outcomes as o
from turnabout.words import records as r
from turnabout.words import verbs as v
from turnabout.words.credentials import NO_NAMESPACE
from turnabout.words.errors import QueueNotFound, TurnaboutError, UsageError
from turnabout.words.policy import QueueSettings
from turnabout.words.schedules import Schedule, ScheduleEntry
from turnabout.words.verbs import Verb

A = TypeVar("A")
V = TypeVar("V", bound=Verb[Any])

Kind = Literal["name", "or none", "namespace", "changes", "value", "values", "story"]
"""A name; a name or None; the namespace itself; changes of settings; a value or values that hold
names; an `Origin` as JSON.
"""

NAMED: Mapping[type[Any], Mapping[str, Kind]] = {
    v.Send: {"queue": "name"},
    v.Receive: {"queue": "name"},
    v.Ack: {"queue": "name"},
    v.Defer: {"queue": "name"},
    v.Fail: {"queue": "name"},
    v.Extend: {"queue": "name"},
    v.Release: {"queue": "name"},
    v.Cancel: {"queue": "name"},
    v.Retry: {"queue": "name"},
    v.Peek: {"queue": "name"},
    v.Stats: {"queue": "or none", "namespace": "namespace"},
    v.StatsOfChannels: {"queue": "name"},
    v.Purge: {"queue": "name"},
    v.Endings: {"queue": "name"},
    v.History: {"queue": "name"},
    v.Clear: {"queue": "name"},
    v.Events: {"queue": "name"},
    v.RedriveStart: {"queue": "name", "target": "or none"},
    v.RedriveStep: {"namespace": "namespace"},
    v.RedriveCancel: {"namespace": "namespace"},
    v.RedriveList: {"queue": "or none", "namespace": "namespace"},
    v.QueueCreate: {"queue": "name", "settings": "value"},
    v.QueueGet: {"queue": "name"},
    v.QueueUpdate: {"queue": "name", "changes": "changes"},
    v.QueueList: {"namespace": "namespace"},
    v.QueueDelete: {"queue": "name"},
    v.PolicySet: {"queue": "name"},
    v.PolicyGet: {"queue": "name"},
    v.PolicyList: {"queue": "name"},
    v.ChannelDelete: {"queue": "name"},
    v.ScheduleSet: {"schedule": "value"},
    v.ScheduleDelete: {"schedule": "name"},
    v.ScheduleList: {"queue": "or none", "schedule": "or none", "namespace": "namespace"},
    v.ScheduleFire: {"schedule": "name"},
    v.Tend: {"queue": "name"},
    QueueSettings: {"dead_letter": "or none"},
    Schedule: {"name": "name", "queue": "name"},
    ScheduleEntry: {"schedule": "value"},
    e.QueueStats: {"queue": "name"},
    e.QueueEntry: {"name": "name", "settings": "value", "dead_letter": "or none"},
    e.Origin: {"queue": "name"},
    e.Delivery: {"origin_json": "story"},
    e.Peeked: {"origin": "value"},
    o.Created: {"queue": "value"},
    o.AlreadyExists: {"queue": "value"},
    o.Dead: {"queue": "or none"},
    o.Received: {"deliveries": "values"},
    r.Redrive: {"queue": "name", "target": "or none"},
    r.Event: {"queue": "name"},
    r.EventPage: {"events": "values"},
}
"""Each field that holds a name of a queue or schedule, or a value that does."""

CHANGES = ("dead_letter",)
"""Settings that hold a name, as keys of `QueueUpdate.changes`."""

ANSWERS_NAME: frozenset[type[Verb[Any]]] = frozenset(
    {
        v.Receive,
        v.Fail,
        v.Peek,
        v.Stats,
        v.Events,
        v.RedriveStart,
        v.RedriveStep,
        v.RedriveCancel,
        v.RedriveList,
        v.QueueCreate,
        v.QueueGet,
        v.QueueUpdate,
        v.QueueList,
        v.ScheduleSet,
        v.ScheduleList,
    }
)
"""Verbs whose answers may hold a name; the answers of all others are the same outside."""


@lru_cache(maxsize=4_096)  # only of names that are good, so of short ones
def stored(name: str, namespace: str) -> str:
    """The name as the database keeps it. Raises: UsageError for what is no plain name."""
    if isinstance(name, str) and "/" in name:  # pyright: ignore[reportUnnecessaryIsInstance]
        raise UsageError(
            f"{limits.shown(name)} is no name here: a name has no slash, "
            "as the namespace comes from the token"
        )
    limits.plain_name(name)
    return name if namespace == NO_NAMESPACE else f"{namespace}/{name}"


def plain(name: str, namespace: str) -> str | None:
    """A stored name as that namespace's client knows it; None: it is another namespace's."""
    if namespace != NO_NAMESPACE:
        if not name.startswith(f"{namespace}/"):
            return None
        name = name[len(namespace) + 1 :]
    return None if "/" in name else name


def inside(verb: V, namespace: str) -> V:
    """The verb with stored names, held to the namespace. Raises: UsageError for a name with a
    slash, or that is none, for a verb that names a namespace itself, and for one that no door has.
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
    """The same error, its text with plain names. Not the one given: others may hold that, too. What
    it came from (`__cause__`) is the caller's to keep.
    """
    if isinstance(error, QueueNotFound):
        return QueueNotFound(plain(error.queue, namespace) or "")
    told = type(error).__new__(type(error))
    told.__dict__.update(error.__dict__)
    told.args = tuple(_told(arg, namespace) for arg in error.args)
    return told


# --- how -----------------------------------------------------------------------------------------

_QUOTED = re.compile(r"(['\"])(?:[A-Za-z0-9][A-Za-z0-9_.-]*/[A-Za-z0-9][A-Za-z0-9_.-]*)\1")
"""How stores write the name of a queue in a text, if it is in a namespace."""


def _told(text: Any, namespace: str) -> Any:
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
    """For the many verbs whose first field is their only name, and the hot ones: quick."""
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


def _put(how: Kind, given: Any, namespace: str) -> Any:
    """A field of a verb as it is stored."""
    match how:
        case "name":
            return stored(given, namespace)
        case "or none":
            return None if given is None else stored(given, namespace)
        case "namespace":
            if given is not None:
                raise UsageError("a namespace is not named: it comes from the token")
            return namespace
        case "changes":
            changes = dict(given)
            for name in CHANGES:
                if isinstance(changes.get(name), str):  # the settings refuse all else
                    changes[name] = stored(changes[name], namespace)
            return changes
        case "value":
            return _INSIDE[type(given)](given, namespace)
        case "values":
            return tuple(_INSIDE[type(one)](one, namespace) for one in given)
        case "story":
            raise AssertionError("no verb tells a story")


def _outside_of(kind: type[Any]) -> Step:
    fields: tuple[str, ...] = kind.__match_args__
    items = tuple(NAMED[kind].items())

    def step(value: Any, namespace: str) -> Any:
        # Not made by its class, as all of it was checked before it was stored.
        made = object.__new__(kind)
        for name in fields:
            setattr(made, name, getattr(value, name))
        for name, how in items:
            setattr(made, name, _take(how, getattr(value, name), namespace))
        return made

    return step


def _take(how: Kind, given: Any, namespace: str) -> Any:
    """A field of an answer (or of a verb that is shown) as it is outside."""
    match how:
        case "name":
            return plain(given, namespace) or ""
        case "or none":
            return None if given is None else plain(given, namespace)
        case "namespace":
            return None
        case "changes":
            taken = {n: plain(given[n], namespace) for n in CHANGES if given.get(n) is not None}
            return {**given, **taken}
        case "value":
            return _outside(given, namespace)
        case "values":
            return tuple([_outside(one, namespace) for one in given])
        case "story":
            story = json.loads(given)
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
    return value._replace(origin_json=_take("story", value.origin_json, namespace))


_INSIDE: Mapping[type[Any], Step] = {
    kind: _inside_of(kind) for kind in (*v.VOCABULARY, QueueSettings, Schedule)
}
_OUTSIDE: Mapping[type[Any], Step] = {
    **{kind: _outside_of(kind) for kind in NAMED if kind is not e.Delivery},
    e.Delivery: _delivery_outside,
    o.Received: _received_outside,
}
