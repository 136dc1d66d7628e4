"""`filter` of ToxMQ's peek: tests fields for equality; any other MongoDB operator is refused.

`{"payload.a.b": 1, "attempts": 2}`: every field has to match. As in MongoDB a list matches if one
of its elements does, and `null` matches a missing field. The text is never interpreted further.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, cast

import msgspec

from turnabout.words.errors import UsageError
from turnabout.words.limits import shown

CHARS_MAX = 4_096
Matches = Callable[[Mapping[str, Any]], bool]
"""Whether a document `{"payload": …, "attempts": …}` matches the filter."""

_FIELD = re.compile(r"attempts|payload(\.[^.]+)*")


def parse(text: str) -> Matches:
    """Parse a filter of the form described above. Raises: UsageError for any other."""
    if len(text) > CHARS_MAX:
        raise UsageError(f"a filter has at most {CHARS_MAX:,} characters, not {len(text):,}")
    try:
        query: Any = msgspec.json.decode(text.encode())
    except (msgspec.MsgspecError, UnicodeError, RecursionError) as error:
        raise UsageError(f"the filter is not JSON: {error}") from error
    if not isinstance(query, dict):
        raise UsageError(f"a filter is an object of fields, not {shown(query)}")
    wanted = cast("dict[str, Any]", query)
    for name, value in wanted.items():
        if not _FIELD.fullmatch(name):
            raise UsageError(f"a filter asks for payload, payload.… or attempts, not {shown(name)}")
        for key in cast("dict[str, Any]", value) if isinstance(value, dict) else ():
            if key.startswith("$"):
                raise UsageError(f"a filter has no {shown(key)} here: a field equals its value")
    return lambda document: all(_is_at(document, name, wanted[name]) for name in wanted)


def _is_at(place: Any, path: str, value: Any) -> bool:
    for step in path.split("."):
        place = cast("dict[str, Any]", place).get(step) if isinstance(place, dict) else None
    found: list[Any] = [place]
    if isinstance(place, list):
        found += cast("list[Any]", place)
    return any(_equal(one, value) for one in found)


def _equal(one: Any, value: Any) -> bool:
    if isinstance(one, bool) or isinstance(value, bool):  # true is not 1
        return one is value
    return one == value
