"""How much of a list is in one answer: no tenant can ask for more than the server has room for."""

from __future__ import annotations

from typing import Any, TypeVar, cast

from turnabout.words.limits import PEEK_MESSAGES_MAX
from turnabout.words.value import replace
from turnabout.words.verbs import Verb

V = TypeVar("V", bound=Verb[Any])

ITEMS_MAX = PEEK_MESSAGES_MAX
"""Of a list that says no limit; a request cannot say a higher one."""
ANSWER_BYTES = 8 * 1024 * 1024
"""Of payloads, states and results; the item that fills it may be as large as it likes."""


def part_of(verb: V, share: int = 1) -> V:
    """The verb for as much of its answer as there is room for. `share`: one of so many verbs that
    are answered together.
    """
    names: tuple[str, ...] = cast("Any", type(verb)).__struct_fields__
    bounds: dict[str, int] = {}
    if "room_bytes" in names:
        bounds["room_bytes"] = max(1, ANSWER_BYTES // share)
    if verb.pages is not None and "limit" in names and cast("Any", verb).limit is None:
        bounds["limit"] = max(1, ITEMS_MAX // share)
    return replace(verb, **bounds) if bounds else verb
