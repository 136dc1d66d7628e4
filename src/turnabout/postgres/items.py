"""Verbs that name an item twice, before they become calls.

Pure and without colour; both stores use it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from turnabout.words import verbs as v
from turnabout.words.value import replace


@dataclass(frozen=True, slots=True)
class SplitVerb:
    """A verb that names a message more than once, as verbs that name each once, to be run in this
    order: what comes later meets what was done before.
    """

    verbs: list[v.Verb[Any]]
    places: list[tuple[int, int]]
    """The round that answers each item of the whole verb, and the item's index there."""

    def merge(self, answers: Sequence[Sequence[Any]]) -> tuple[Any, ...]:
        """The outcomes in the order of the whole verb's items."""
        return tuple([answers[number][place] for number, place in self.places])


def without_duplicates(verb: v.Verb[Any]) -> SplitVerb | None:
    """Split a verb that names messages twice; None: it names each once, the usual case. An item
    that comes a third time has the answer of the second.
    """
    if verb.reads or verb.items is None or verb.items.id_of is None:
        return None
    items = verb.items.of(verb)
    ids = list(map(verb.items.id_of, items))
    if len(set(ids)) == len(ids):
        return None
    chosen: list[list[int]] = []
    places: list[tuple[int, int]] = []
    named: Counter[int] = Counter()
    repeated: dict[Any, tuple[int, int]] = {}
    for index, (one, item) in enumerate(zip(ids, items, strict=True)):
        place = repeated.get(item)
        if place is None:
            number = named[one]
            named[one] += 1
            if number == len(chosen):
                chosen.append([])
            place = (number, len(chosen[number]))
            chosen[number].append(index)
            if number:
                repeated[item] = place
        places.append(place)
    return SplitVerb([_of(verb, indices) for indices in chosen], places)


def _of(verb: v.Verb[Any], indices: Sequence[int]) -> Any:
    """The verb with some of its items, and with their other fields."""
    assert verb.items is not None
    some: dict[str, Any] = {}
    for name in verb.items.fields:
        values: Sequence[Any] = getattr(verb, name)
        some[name] = tuple([values[index] for index in indices]) if values else ()
    return replace(verb, **some)
