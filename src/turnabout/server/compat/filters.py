"""`filter` of ToxMQ's peek: a small part of MongoDB's query language, evaluated here.

The text is never handed to anything else, and whatever is not in this file is refused by name.

| field | is |
|---|---|
| `payload`, `payload.a.b` | the payload, or what is at that path in it; a list is passed through |
| `attempts` | how often it was popped |

Operators: a plain value (equal), `$eq $ne $gt $gte $lt $lte $in $nin $exists`, and around whole
conditions `$and $or $nor`. As in MongoDB a list matches if it or one of its elements does, order
is only between numbers or between texts, and `null` matches what is not there.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Mapping
from typing import Any, cast

import msgspec

from turnabout.words.errors import UsageError
from turnabout.words.limits import shown

CHARS_MAX = 4_096
DEPTH_MAX = 8
PARTS_MAX = 100
"""Comparisons in one filter, each value of a `$in` counted."""

Matches = Callable[[Mapping[str, Any]], bool]
"""Whether a document `{"payload": …, "attempts": …}` is one that was asked for."""

_ABSENT = object()
_ORDER: Mapping[str, Callable[[Any, Any], bool]] = {
    "$gt": operator.gt,
    "$gte": operator.ge,
    "$lt": operator.lt,
    "$lte": operator.le,
}
_GROUPS: Mapping[str, Callable[[Iterable[bool]], bool]] = {
    "$and": all,
    "$or": any,
    "$nor": lambda found: not any(found),
}


def parse(text: str) -> Matches:
    """The filter in that text. Raises: UsageError for what is not described above."""
    if len(text) > CHARS_MAX:
        raise UsageError(f"a filter has at most {CHARS_MAX:,} characters, not {len(text):,}")
    try:
        query: Any = msgspec.json.decode(text.encode())
    except (msgspec.MsgspecError, UnicodeError, RecursionError) as error:
        raise UsageError(f"the filter is not JSON: {error}") from error
    return _Parser().condition(query, 0)


class _Parser:
    """One reading of one filter; it counts what the filter asks."""

    def __init__(self) -> None:
        self._parts = 0

    def condition(self, query: object, depth: int) -> Matches:
        """`{field: test, …}`: all of them."""
        if not isinstance(query, dict):
            raise UsageError(f"a filter is an object of fields, not {shown(query)}")
        if depth > DEPTH_MAX:
            raise UsageError(f"a filter nests at most {DEPTH_MAX} levels")
        parts = [
            self._group(name, given, depth) if name.startswith("$") else self._field(name, given)
            for name, given in cast("dict[str, Any]", query).items()
        ]
        return lambda document: all(part(document) for part in parts)

    def _group(self, name: str, given: Any, depth: int) -> Matches:
        if name not in _GROUPS:
            raise _unknown(name, _GROUPS)
        conditions = cast("list[Any]", given) if isinstance(given, list) else []
        if not conditions:
            raise UsageError(f"{name} takes a list of conditions")
        parts = [self.condition(one, depth + 1) for one in conditions]
        group = _GROUPS[name]
        return lambda document: group(part(document) for part in parts)

    def _field(self, name: str, given: Any) -> Matches:
        path = name.split(".")
        if "" in path or (path != ["attempts"] and path[0] != "payload"):
            raise UsageError(f"a filter asks for payload, payload.… or attempts, not {shown(name)}")
        tests = self._tests(given)
        return lambda document: all(test(_at(document, path)) for test in tests)

    def _tests(self, given: Any) -> list[Callable[[list[Any]], bool]]:
        if not isinstance(given, dict):
            return [self._test("$eq", given)]
        operators = cast("dict[str, Any]", given)
        if not any(name.startswith("$") for name in operators):
            return [self._test("$eq", operators)]
        return [self._test(name, value) for name, value in operators.items()]

    def _test(self, name: str, given: Any) -> Callable[[list[Any]], bool]:
        values = self._values(name, given)
        match name:
            case "$eq" | "$in":
                return lambda found: any(_equal(one, value) for one in found for value in values)
            case "$ne" | "$nin":
                return lambda found: (
                    not any(_equal(one, value) for one in found for value in values)
                )
            case "$exists":
                if not isinstance(given, bool):
                    raise UsageError(f"$exists takes true or false, not {shown(given)}")
                return lambda found: any(one is not _ABSENT for one in found) is given
            case _ if name in _ORDER:
                if not (_is_number(given) or isinstance(given, str)):
                    raise UsageError(f"{name} takes a number or a text, not {shown(given)}")
                order = _ORDER[name]
                return lambda found: any(_alike(one, given) and order(one, given) for one in found)
            case _:
                raise _unknown(name, ("$eq", "$ne", *_ORDER, "$in", "$nin", "$exists"))

    def _values(self, name: str, given: object) -> list[Any]:
        values: list[Any] = [given]
        if name in ("$in", "$nin"):
            if not isinstance(given, list):
                raise UsageError(f"{name} takes a list of values, not {shown(given)}")
            values = cast("list[Any]", given)
        self._parts += max(1, len(values))
        if self._parts > PARTS_MAX:
            raise UsageError(f"a filter has at most {PARTS_MAX} comparisons")
        return values


def _at(document: Any, path: list[str]) -> list[Any]:
    """All that the path leads to: values, the elements of lists, or that there is nothing."""
    places: list[Any] = [document]
    for step in path:
        places = [inner for place in places for inner in _step(place, step)]
    found: list[Any] = []
    for place in places:
        found.append(place)
        if isinstance(place, list):
            found += cast("list[Any]", place)
    return found or [_ABSENT]


def _step(place: Any, step: str) -> list[Any]:
    if isinstance(place, dict):
        inner = cast("dict[str, Any]", place)
        return [inner[step]] if step in inner else []
    if isinstance(place, list):
        items = cast("list[Any]", place)
        at = [items[int(step)]] if _is_index(step) and int(step) < len(items) else []
        return at + [one for item in items if isinstance(item, dict) for one in _step(item, step)]
    return []


def _is_index(step: str) -> bool:
    return len(step) < 6 and step.isascii() and step.isdigit()


def _equal(one: Any, value: Any) -> bool:
    if value is None:
        return one is None or one is _ABSENT
    if isinstance(one, bool) or isinstance(value, bool):  # true is not 1
        return one is value
    return one == value


def _alike(one: Any, value: Any) -> bool:
    if isinstance(value, str):
        return isinstance(one, str)
    return _is_number(one)


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _unknown(name: str, known: Iterable[str]) -> UsageError:
    return UsageError(f"a filter has no {shown(name)} here; it has {', '.join(known)}")
