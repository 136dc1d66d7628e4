"""Positions in the log: how far a reader has come in each queue's history.

`3=120,7=45`: in the queue with id 3 up to row 120, in queue 7 up to row 45, in all others nothing.
A number below zero is not a place: `-3=100` says that the reader knows that rows of queue 3 up to
100 are gone, and goes on with those that are left.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from turnabout.words.errors import UsageError
from turnabout.words.limits import ID_MAX, shown

_PAIR = re.compile(r"-?[1-9][0-9]{0,18}=[1-9][0-9]{0,18}", re.ASCII)


def parsed(text: str) -> dict[int, int]:
    """The places by queue. Raises: UsageError."""
    found: dict[int, int] = {}
    pairs = text.split(",") if text else []
    for pair in pairs:
        if _PAIR.fullmatch(pair):
            queue, _, place = pair.partition("=")
            found[int(queue)] = int(place)
    if len(found) < len(pairs) or max(found.values(), default=0) > ID_MAX:
        raise UsageError(
            f"{shown(text)} is not a position in the log of an SQLite file: pass one unchanged"
        )
    return found


def text_of(places: Mapping[int, int]) -> str:
    """The position, as text."""
    return ",".join(f"{queue}={place}" for queue, place in sorted(places.items()) if place)
