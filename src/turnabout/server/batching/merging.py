"""How some verbs of one kind become one verb, and its answer their answers. Pure.

Merged is only what comes to the same as one after the other, in the order of asking. So a batch
names no message twice, and a send with a dedup key stays by itself: its key may be locked by
somebody's open transaction, which the others must not wait for.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from operator import itemgetter
from typing import Any

from turnabout.words import verbs as v
from turnabout.words.outcomes import Received, Sent
from turnabout.words.turns import in_turn

MESSAGES_MAX = 1_000
"""In one merged verb; a verb that has more goes by itself."""
BYTES_MAX = 4 * 1024 * 1024
"""Of payloads, states, results and errors in one merged verb."""

Key = tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class Kind:
    """What there is to know of a kind of verb that can be merged."""

    key: Callable[[Any], Key]
    """Verbs of one key can become one."""
    count: Callable[[Any], int]
    """How many messages it is about."""
    size: Callable[[Any], int] | None
    """How many bytes it carries; None: few."""
    ids: Callable[[Any], Sequence[int]] | None
    """The messages that it names; None: it names none."""
    merge: Callable[[Sequence[Any]], v.Verb[Any]]
    cut: Callable[[Sequence[Any], Any], list[Any]]
    """Of the verbs and the merged one's answer: their answers."""


class Batch:
    """Verbs in the order of asking that can be one."""

    __slots__ = ("_bytes", "_count", "_ids", "_kind", "verbs")

    def __init__(self, kind: Kind) -> None:
        self._kind = kind
        self._count = 0
        self._bytes = 0
        self._ids: set[int] = set()
        self.verbs: list[v.Verb[Any]] = []

    def add(self, verb: v.Verb[Any]) -> bool:
        """Take it in. False: it has to go after this batch."""
        kind = self._kind
        count = self._count + kind.count(verb)
        size = self._bytes if kind.size is None else self._bytes + kind.size(verb)
        is_first = not self.verbs
        if not is_first and (count > MESSAGES_MAX or size > BYTES_MAX):
            return False
        if kind.ids is not None:
            self._ids.update(kind.ids(verb))
            if len(self._ids) < count:  # a message is named twice
                if not is_first:
                    return False
                count = MESSAGES_MAX  # by the first itself: it goes alone
        self._count, self._bytes = count, size
        self.verbs.append(verb)
        return True


def kind_of(verb: v.Verb[Any]) -> Kind | None:
    """The kind of a verb that may be merged with others; None: it goes by itself."""
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


def _merge_sends(verbs: Sequence[v.Send]) -> v.Send:
    return v.Send(verbs[0].queue, tuple(chain.from_iterable(verb.messages for verb in verbs)))


def _cut_sent(verbs: Sequence[v.Send], sent: Sent) -> list[Sent]:
    parts: list[Sent] = []
    first = 0
    for verb in verbs:
        last = first + len(verb.messages)
        parts.append(Sent(sent.ids[first:last]))
        first = last
    return parts


def _merge_receives(verbs: Sequence[v.Receive]) -> v.Receive:
    return replace(verbs[0], max_messages=sum(verb.max_messages for verb in verbs))


def _cut_received(verbs: Sequence[v.Receive], received: Received) -> list[Received]:
    """In the order of turns, so that each part goes on where the one before it ended."""
    deliveries, _ = in_turn(received.deliveries, verbs[0].turn)
    parts: list[Received] = []
    first = 0
    for verb in verbs:
        part = tuple(deliveries[first : first + verb.max_messages])
        first += len(part)
        is_last = bool(part) and first == len(deliveries)
        again = None if part else received.retry_after_ms
        parts.append(Received(part, again, received.turn if is_last else None))
    return parts


def _merge_acks(verbs: Sequence[v.Ack]) -> v.Ack:
    receipts = tuple(chain.from_iterable(verb.receipts for verb in verbs))
    if not any(verb.results for verb in verbs):
        return v.Ack(verbs[0].queue, receipts)
    results = (verb.results or (None,) * len(verb.receipts) for verb in verbs)
    return v.Ack(verbs[0].queue, receipts, tuple(chain.from_iterable(results)))


def _listed(field: str) -> Callable[[Sequence[Any]], Any]:
    """Merges verbs that differ in one list only."""

    def merge(verbs: Sequence[Any]) -> Any:
        listed = chain.from_iterable(getattr(verb, field) for verb in verbs)
        return replace(verbs[0], **{field: tuple(listed)})

    return merge


def _cutter(count: Callable[[Any], int]) -> Callable[[Sequence[Any], Any], list[Any]]:
    """Cuts a list of outcomes, one for each item."""

    def cut(verbs: Sequence[Any], outcomes: Sequence[Any]) -> list[Any]:
        parts: list[Any] = []
        first = 0
        for verb in verbs:
            last = first + count(verb)
            parts.append(tuple(outcomes[first:last]))
            first = last
        return parts

    return cut


def _count_receipts(verb: v.Ack | v.Extend | v.Release) -> int:
    return len(verb.receipts)


def _ids(verb: v.Ack | v.Extend | v.Release) -> list[int]:
    return list(map(itemgetter(0), verb.receipts))


def _count_deferrals(verb: v.Defer) -> int:
    return len(verb.deferrals)


def _count_failures(verb: v.Fail) -> int:
    return len(verb.failures)


_KINDS: dict[type[Any], Kind] = {
    v.Send: Kind(
        lambda verb: (v.Send, verb.queue),
        lambda verb: len(verb.messages),
        lambda verb: sum([len(message.payload) for message in verb.messages]),
        None,
        _merge_sends,
        _cut_sent,
    ),
    v.Receive: Kind(
        lambda verb: (v.Receive, verb.queue, verb.lease_ms, verb.shard),
        lambda verb: verb.max_messages,
        None,
        None,
        _merge_receives,
        _cut_received,
    ),
    v.Ack: Kind(
        lambda verb: (v.Ack, verb.queue),
        _count_receipts,
        lambda verb: sum([len(one.data) for one in verb.results if one is not None]),
        _ids,
        _merge_acks,
        _cutter(_count_receipts),
    ),
    v.Extend: Kind(
        lambda verb: (v.Extend, verb.queue, verb.lease_ms),
        _count_receipts,
        None,
        _ids,
        _listed("receipts"),
        _cutter(_count_receipts),
    ),
    v.Release: Kind(
        lambda verb: (v.Release, verb.queue),
        _count_receipts,
        None,
        _ids,
        _listed("receipts"),
        _cutter(_count_receipts),
    ),
    v.Defer: Kind(
        lambda verb: (v.Defer, verb.queue),
        _count_deferrals,
        lambda verb: sum([len(one.state or b"") for one in verb.deferrals]),
        lambda verb: [one.receipt.id for one in verb.deferrals],
        _listed("deferrals"),
        _cutter(_count_deferrals),
    ),
    v.Fail: Kind(
        lambda verb: (v.Fail, verb.queue),
        _count_failures,
        lambda verb: sum([len(one.error) for one in verb.failures]),
        lambda verb: [one.receipt.id for one in verb.failures],
        _listed("failures"),
        _cutter(_count_failures),
    ),
}
