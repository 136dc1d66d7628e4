"""Bounds on the part of a list in one answer, so that no tenant exceeds the server's memory."""

from __future__ import annotations

from typing import Any, TypeVar, cast

from turnabout.words.limits import PEEK_MESSAGES_MAX
from turnabout.words.value import replace
from turnabout.words.verbs import Verb

V = TypeVar("V", bound=Verb[Any])

ITEMS_MAX = PEEK_MESSAGES_MAX
"""Highest, and default, limit of a list."""
ANSWER_BYTES = 8 * 1024 * 1024
"""Bytes of payloads, states and results in a part; the last item may exceed it by any amount."""


def part_of(verb: V, share: int = 1) -> V:
    """The verb, bounded to a part of its list that fits into memory. `share`: the number of verbs
    that are answered together.
    """
    names: tuple[str, ...] = cast("Any", type(verb)).__struct_fields__
    bounds: dict[str, int] = {}
    if "room_bytes" in names:
        bounds["room_bytes"] = max(1, ANSWER_BYTES // share)
    if verb.pages is not None and "limit" in names and cast("Any", verb).limit is None:
        bounds["limit"] = max(1, ITEMS_MAX // share)
    return replace(verb, **bounds) if bounds else verb
