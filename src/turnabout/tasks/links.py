"""Chains: tasks of which each is sent with the ack of the one before, in one transaction.

A message carries the rest of its chain in a header, as JSON: so a chain needs no table, and any
worker can go on with it. The next task gets the result of the one before as its first argument that
has no value yet; if all have one, the result is left aside.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from turnabout.words.errors import UsageError
from turnabout.worker import GiveUp

THEN = "then"
"""The header with the rest of the chain."""


class Link(msgspec.Struct, frozen=True):
    """A task that is still to come, with the arguments that are known."""

    task: str
    given: dict[str, msgspec.Raw]
    takes: str | None = None
    """The argument that the result before it becomes."""


_LINKS = msgspec.json.Decoder(tuple[Link, ...])


def written(links: Sequence[Link]) -> dict[str, str]:
    """The header for the rest of a chain; none at its end."""
    return {THEN: msgspec.json.encode(links).decode()} if links else {}


def read(headers: Mapping[str, str]) -> tuple[Link, ...]:
    """The rest of the chain that a message is of; nothing, if it is of none. Raises: GiveUp."""
    if THEN not in headers:
        return ()
    try:
        return _LINKS.decode(headers[THEN])
    except (msgspec.MsgspecError, RecursionError) as error:
        raise GiveUp(
            f"the rest of the chain, in the header `{THEN}`, can't be read: {error}"
        ) from error


def link_of(
    task: str,
    names: Sequence[str],
    required: Sequence[str],
    known: dict[str, Any],
    *,
    is_first: bool,
) -> Link:
    """A step, its arguments checked: a first one has all that it needs, a later one lacks at most
    one, which the result before it becomes. `known` is by name, each as JSON.
    """
    lacks = [name for name in required if name not in known]
    if len(lacks) > (0 if is_first else 1):
        raise UsageError(f"the task {task} of a chain lacks {', '.join(lacks)}")
    free = lacks or [name for name in names if name not in known]
    takes = None if is_first or not free else free[0]
    return Link(task, {name: msgspec.Raw(data) for name, data in known.items()}, takes)


def arguments(link: Link, result: bytes) -> bytes:
    """The payload of a link, with the result before it."""
    known = dict(link.given)
    if link.takes is not None:
        known[link.takes] = msgspec.Raw(result)
    return msgspec.json.encode(known)
