"""Answers as JSON, and back: whole, in parts, or piece by piece where they are large."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from typing import Any, TypeVar, cast

import msgspec
from msgspec import Raw

from turnabout.wire import delivery
from turnabout.wire.plans import Kind, answer_of
from turnabout.wire.shapes import shape_of
from turnabout.words import verbs as v
from turnabout.words.errors import Uncertain
from turnabout.words.outcomes import Received
from turnabout.words.value import replace

A = TypeVar("A")

PIECE_BYTES = 64 * 1024
"""An answer of less is one piece."""


def dump_value(one: Any, *, tagged: bool = False) -> bytes:
    """A value by itself as answers hold it, or any other dataclass of such types; `tagged`: with
    its name, as the outcomes of a many-form have it.
    """
    dump = shape_of(cast("type[Any]", type(one)), tagged=tagged).dump
    assert dump is not None
    return _encode(dump(one))


def dump_answer(kind: type[v.Verb[A]], answer: A, place: Any = None) -> bytes:
    """The body of the answer to a verb; of a part of a list, with the `place` where it goes on."""
    dump = answer_of(kind).dump
    assert dump is not None
    dumped = dump(answer)
    return _encode(dumped if place is None else msgspec.structs.replace(dumped, next=place))


def answer_pieces(kind: type[v.Verb[A]], answer: A) -> Iterator[bytes]:
    """The body of an answer; of much that was received piece by piece, so that it is never there
    as a whole.
    """
    if not isinstance(answer, Received) or answer.size <= PIECE_BYTES:
        yield dump_answer(kind, answer)
        return
    start, end = dump_answer(v.Receive, replace(answer, deliveries=())).split(b"[]")
    yield start
    yield from listed(_encode(delivery.dump(one)) for one in answer.deliveries)
    yield end


def listed(items: Iterable[bytes]) -> Iterator[bytes]:
    """A list in JSON, an item at a time."""
    yield b"["
    for n, item in enumerate(items):
        yield b"," + item if n else item
    yield b"]"


def load_answer(kind: type[v.Verb[A]], body: bytes) -> A:
    """The answer in a body. Raises: Uncertain if it is not an answer to that verb."""
    return load_part(kind, body)[0]


def load_part(kind: type[v.Verb[A]], body: bytes) -> tuple[A, Any]:
    """The answer in a body, and where the list goes on; None: that was all of it."""
    load = answer_of(kind).load
    assert load is not None
    try:
        decoded = _answer_decoder(kind)(body)
        return load(decoded), None if kind.pages is None else decoded.next
    except (msgspec.DecodeError, ValueError, RecursionError) as error:
        raise Uncertain(
            f"the response is not an answer to {kind.name} ({error}): the call may have happened"
        ) from error


@cache
def _answer_decoder(kind: Kind) -> Any:
    return msgspec.json.Decoder(answer_of(kind).type).decode


class TransactionAnswer(msgspec.Struct, forbid_unknown_fields=True):
    """The answers, each as it would come alone."""

    items: tuple[Raw, ...]


def transaction_pieces(verbs: Sequence[v.Verb[Any]], answers: Sequence[Any]) -> Iterator[bytes]:
    """The body of their answers."""
    yield b'{"items":['
    for n, (verb, answer) in enumerate(zip(verbs, answers, strict=True)):
        if n:
            yield b","
        yield from answer_pieces(type(verb), answer)
    yield b"]}"


def load_transaction_answer(verbs: Sequence[v.Verb[Any]], body: bytes) -> list[Any]:
    """The answers of these verbs. Raises: Uncertain if the body holds anything else."""
    try:
        items = _decode_transaction_answer(body).items
        pairs = list(zip(verbs, items, strict=True))
    except (msgspec.DecodeError, ValueError) as error:
        raise Uncertain(f"the response does not hold the answers ({error})") from error
    return [load_answer(type(verb), bytes(item)) for verb, item in pairs]


_encode = msgspec.json.Encoder().encode
_decode_transaction_answer = msgspec.json.Decoder(TransactionAnswer).decode
