"""Merging several verbs of one kind into one, and splitting its answer for their callers. Pure.

Verbs are merged only if the result is the same as running them one by one, in the order of asking.
So a batch names no message twice, and a send with a dedup key stays by itself: its key may be
locked by an open transaction, which the others must not wait for.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import chain
from operator import attrgetter
from typing import Any, cast

from turnabout.words import verbs as v
from turnabout.words.outcomes import Received, Sent
from turnabout.words.turns import in_turn
from turnabout.words.value import replace
from turnabout.words.verb import Items

MESSAGES_MAX = 1_000
"""Most messages in one merged verb; a larger verb is not merged."""
BYTES_MAX = 4 * 1024 * 1024
"""Bytes of payloads, states, results and errors in one merged verb."""

Key = tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class Mergeable:
    """The way to merge verbs of one kind."""

    key: Callable[[Any], Key]
    """Verbs with equal keys may be merged."""
    count: Callable[[Any], int]
    """The number of messages in a verb."""
    ids: Callable[[Any], Sequence[int]] | None
    """The ids of the messages that a verb names; None: it names none."""
    merge: Callable[[Sequence[Any]], v.Verb[Any]]
    cut: Callable[[Sequence[Any], Any], list[Any]]
    """Splits the answer of a merged verb into the answers of its verbs."""


class VerbBatch:
    """Verbs in the order of asking that can be one."""

    __slots__ = ("_bytes", "_count", "_ids", "_kind", "_named", "verbs")

    def __init__(self, kind: Mergeable) -> None:
        self._kind = kind
        self._count = 0
        self._bytes = 0
        self._ids: set[int] = set()
        self._named = 0
        self.verbs: list[v.Verb[Any]] = []

    def add(self, verb: v.Verb[Any]) -> bool:
        """Take it in. False: it has to go after this batch."""
        kind = self._kind
        count = self._count + kind.count(verb)
        size = self._bytes + verb.carried_bytes()
        is_first = not self.verbs
        if not is_first and (count > MESSAGES_MAX or size > BYTES_MAX):
            return False
        if kind.ids is not None:
            ids = kind.ids(verb)
            self._ids.update(ids)
            self._named += len(ids)
            if len(self._ids) < self._named:  # a message is named twice
                if not is_first:
                    return False
                count = MESSAGES_MAX  # by the first itself: it goes alone
        self._count, self._bytes = count, size
        self.verbs.append(verb)
        return True


def kind_of(verb: v.Verb[Any]) -> Mergeable | None:
    """The way to merge a verb with others; None: it is not merged."""
    kind = _KINDS.get(type(verb))
    if kind is None or not kind.count(verb):
        return None
    if isinstance(verb, v.Send):
        for message in verb.messages:
            if message.dedup_key is not None:
                return None
    return kind


def channels_of(verb: v.Verb[Any]) -> set[str]:
    """The channels that a send puts messages in."""
    return {message.channel for message in verb.messages} if isinstance(verb, v.Send) else set()


def _cut_sent(verbs: Sequence[v.Send], sent: Sent) -> list[Sent]:
    parts: list[Sent] = []
    first = 0
    for verb in verbs:
        last = first + len(verb.messages)
        parts.append(Sent(sent.ids[first:last]))
        first = last
    return parts


def _merge_receives(verbs: Sequence[v.Receive]) -> v.Receive:
    merged: v.Receive = _merge_acks(verbs)
    return replace(merged, max_messages=sum(verb.max_messages for verb in verbs))


def _cut_received(verbs: Sequence[v.Receive], received: Received) -> list[Received]:
    """Sort deliveries by turn, so that each part goes on where the one before it ended."""
    deliveries, _ = in_turn(received.deliveries, verbs[0].turn)
    return _cut_in_turn(verbs, replace(received, deliveries=deliveries))


def _cut_in_turn(verbs: Sequence[v.Receive], received: Received) -> list[Received]:
    deliveries = received.deliveries
    parts: list[Received] = []
    first = 0
    acked = _cut_acked(verbs, received.acked)
    for verb, done in zip(verbs, acked, strict=True):
        part = tuple(deliveries[first : first + verb.max_messages])
        first += len(part)
        is_last = bool(part) and first == len(deliveries)
        again = None if part else received.retry_after_ms
        parts.append(Received(part, again, received.turn if is_last else None, done))
    return parts


def _merger(items: Items) -> Callable[[Sequence[Any]], Any]:
    """Merges verbs that differ in their items only."""

    def merge(verbs: Sequence[Any]) -> Any:
        listed = {items.field: tuple(chain.from_iterable(map(items.of, verbs)))}
        if items.beside is not None and any(getattr(verb, items.beside) for verb in verbs):
            beside = [
                getattr(verb, items.beside) or (None,) * len(items.of(verb)) for verb in verbs
            ]
            listed[items.beside] = tuple(chain.from_iterable(beside))
        return replace(verbs[0], **listed)

    return merge


def _cutter(items: Items) -> Callable[[Sequence[Any], Any], list[Any]]:
    """Cuts a list of outcomes, one for each item."""

    def cut(verbs: Sequence[Any], outcomes: Sequence[Any]) -> list[Any]:
        parts: list[Any] = []
        first = 0
        for verb in verbs:
            last = first + len(items.of(verb))
            parts.append(tuple(outcomes[first:last]))
            first = last
        return parts

    return cut


_RECEIVE_ACKS = cast("Items", v.Receive.items)
_merge_acks, _cut_acked = _merger(_RECEIVE_ACKS), _cutter(_RECEIVE_ACKS)


def _kind(verb: type[v.Verb[Any]]) -> Mergeable:
    items = verb.items
    assert items is not None
    of, id_of = items.of, items.id_of
    rest = attrgetter(*(name for name in verb.__struct_fields__ if name not in items.fields))
    return Mergeable(
        lambda one: (verb, rest(one)),
        lambda one: len(of(one)),
        None if id_of is None else lambda one: list(map(id_of, of(one))),
        _merger(items),
        _cut_sent if verb is v.Send else _cutter(items),
    )


def _receives(cut: Callable[[Sequence[Any], Any], list[Any]]) -> Mergeable:
    return Mergeable(
        lambda verb: (v.Receive, verb.queue, verb.lease_ms, verb.shard),
        lambda verb: verb.max_messages + len(verb.acks),
        lambda verb: [receipt.id for receipt in verb.acks],
        _merge_receives,
        cut,
    )


LOOKS = _receives(_cut_in_turn)
"""Receives that leave the turn to the server; their deliveries are sorted by turn already."""
_KINDS: dict[type[Any], Mergeable] = {
    **{verb: _kind(verb) for verb in v.VOCABULARY if verb.merges and verb.items is not None},
    v.Receive: _receives(_cut_received),
}
