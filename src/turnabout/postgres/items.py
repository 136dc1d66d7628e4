"""Verbs with many items, before they become calls: those without any, and those with one twice.

Pure and without colour; both stores use it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import compress
from typing import Any

from turnabout.words import verbs as v


def nothing_to_do(verb: v.Verb[Any]) -> Any:
    """The answer to a many-form without items, which needs no database; else NotImplemented."""
    return NotImplemented if verb.items is None or verb.items.of(verb) else verb.nothing


def without_duplicates(verb: v.Verb[Any]) -> tuple[v.Verb[Any], v.Verb[Any]] | None:
    """A verb that names a message twice, as two verbs: first receipts, and the others.

    The others then meet what the first ones did. None: it names each once, as nearly all do.
    """
    if verb.reads or verb.items is None or verb.items.id_of is None:
        return None
    ids = list(map(verb.items.id_of, verb.items.of(verb)))
    if len(set(ids)) == len(ids):
        return None
    seen: set[int] = set()
    is_duplicate: list[bool] = []
    for one in ids:
        is_duplicate.append(one in seen)
        seen.add(one)
    return _of(verb, [not duplicate for duplicate in is_duplicate]), _of(verb, is_duplicate)


def _of(verb: v.Verb[Any], wanted: Sequence[bool]) -> Any:
    """The verb with some of its items, and with their other fields."""
    assert verb.items is not None
    some: dict[str, Any] = {}
    for name in verb.items.fields:
        values: Sequence[Any] = getattr(verb, name)
        some[name] = tuple(compress(values, wanted))
    return replace(verb, **some)


def merge_duplicates(
    verb: v.Verb[Any], first: Sequence[Any], others: Sequence[Any]
) -> tuple[Any, ...]:
    """The outcomes of both parts, in the order of the whole verb's items."""
    items = verb.items
    assert items is not None
    assert items.id_of is not None
    seen: set[int] = set()
    of_first, of_others = iter(first), iter(others)
    outcomes: list[Any] = []
    for one in map(items.id_of, items.of(verb)):
        outcomes.append(next(of_others if one in seen else of_first))
        seen.add(one)
    return tuple(outcomes)
