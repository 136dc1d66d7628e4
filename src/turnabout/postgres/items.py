"""Verbs with many items, before they become calls: those without any, and those with one twice.

Pure and without colour; both stores use it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import compress
from operator import itemgetter
from typing import Any

from turnabout.words import verbs as v
from turnabout.words.outcomes import Sent

_EMPTY: dict[type[Any], tuple[str, Any]] = {
    v.Send: ("messages", Sent(())),
    v.Ack: ("receipts", ()),
    v.Release: ("receipts", ()),
    v.Extend: ("receipts", ()),
    v.Defer: ("deferrals", ()),
    v.Fail: ("failures", ()),
    v.Cancel: ("ids", ()),
    v.Retry: ("ids", ()),
    v.Endings: ("ids", ()),
}


def nothing_to_do(verb: v.Verb[Any]) -> Any:
    """The answer to a many-form without items, which needs no database; else NotImplemented."""
    items, answer = _EMPTY.get(type(verb), (None, None))
    if items is None or getattr(verb, items):
        return NotImplemented
    return answer


_ITEMS: dict[type[Any], Callable[[Any], int]] = {
    v.Ack: itemgetter(0),
    v.Release: itemgetter(0),
    v.Extend: itemgetter(0),
    v.Defer: lambda item: item.receipt.id,
    v.Fail: lambda item: item.receipt.id,
    v.Cancel: lambda item: item,
    v.Retry: lambda item: item,
}


def without_twins(verb: v.Verb[Any]) -> tuple[v.Verb[Any], v.Verb[Any]] | None:
    """A verb that names a message twice, as two verbs: first receipts, and the others.

    The others then meet what the first ones did. None: it names each once, as nearly all do.
    """
    id_of = _ITEMS.get(type(verb))
    if id_of is None:
        return None
    field_name = _EMPTY[type(verb)][0]
    items = getattr(verb, field_name)
    if len({id_of(item) for item in items}) == len(items):
        return None
    seen: set[int] = set()
    is_twin: list[bool] = []
    for item in items:
        is_twin.append(id_of(item) in seen)
        seen.add(id_of(item))
    return (
        _of(verb, field_name, [not twin for twin in is_twin]),
        _of(verb, field_name, is_twin),
    )


def _of(verb: Any, field_name: str, wanted: Sequence[bool]) -> Any:
    """The verb with some of its items, and with their results if it is an ack that has some."""
    names = [field_name]
    if isinstance(verb, v.Ack) and verb.results:
        names.append("results")
    some: dict[str, tuple[Any, ...]] = {}
    for name in names:
        values: Sequence[Any] = getattr(verb, name)
        some[name] = tuple(compress(values, wanted))
    return replace(verb, **some)


def merge_twins(verb: v.Verb[Any], first: Sequence[Any], others: Sequence[Any]) -> tuple[Any, ...]:
    """The outcomes of both parts, in the order of the whole verb's items."""
    id_of = _ITEMS[type(verb)]
    seen: set[int] = set()
    of_first, of_others = iter(first), iter(others)
    outcomes: list[Any] = []
    for item in getattr(verb, _EMPTY[type(verb)][0]):
        outcomes.append(next(of_others if id_of(item) in seen else of_first))
        seen.add(id_of(item))
    return tuple(outcomes)
