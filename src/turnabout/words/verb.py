"""The base of all verbs, with the metadata that stores, wire and server need.

A verb has its metadata as class variables, so that a new one is stated in one place. The verbs are
in `verbs`; slices have more of them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from enum import IntFlag
from operator import attrgetter, itemgetter
from typing import Annotated, Any, ClassVar, Generic, Literal, TypeVar

from turnabout.words import limits
from turnabout.words.value import Value, replace

A = TypeVar("A", covariant=True)

QueueName = Annotated[str, "name"]
"""Text that a server puts the namespace in front of. Every field that may hold a name of a queue or
a schedule says so by its type: a test refuses a field of text that is neither marked nor known.
"""
ScheduleName = Annotated[str, "name"]
NamespaceName = Annotated[str, "namespace"]
Changes = Annotated[Mapping[str, Any], "changes"]
"""Changes of a queue's settings, some of which are names."""
OriginJson = Annotated[str, "origin"]
"""An `Origin` as JSON, which has a queue's name in it."""

Scope = Literal["produce", "consume", "operate"]


class Change(IntFlag):
    """Changes that waiters of a queue may be waiting for."""

    NOTHING = 0
    READY = 1
    """A message that a receiver may have; or room for another delivery, where there are limits."""
    ENDED = 2
    """A message that has ended. Where channels have limits, its slot is free for a receiver."""
    ANY = 3
    __hash__ = int.__hash__  # that of an enum is by its name, and slow


class Items:
    """The verb's list field, and how to read an id or a receipt from an item."""

    __slots__ = ("beside", "bytes_of", "field", "id_of", "max", "of", "outcomes_of", "receipt_of")

    def __init__(
        self,
        field: str,
        *,
        id_of: Callable[[Any], int] | None = None,
        receipt_of: Callable[[Any], Any] | None = None,
        max: int = limits.IDS_MAX,  # noqa: A002 - reads well where it is called
        beside: str | None = None,
        bytes_of: Callable[[Any], int] | None = None,
        outcomes_of: Callable[[Any], Sequence[Any]] | None = None,
    ) -> None:
        """`id_of`: the message that an item names, and `receipt_of` the item's receipt, if it has
        one. `beside`: another field that has a value for each item, or none at all. `bytes_of`: the
        size of what an item brings, or its value beside. `outcomes_of`: the outcomes of the items
        in the verb's answer; None: the answer is these outcomes.
        """
        self.field = field
        self.of: Callable[[Any], tuple[Any, ...]] = attrgetter(field)
        self.id_of = id_of
        self.receipt_of = receipt_of
        self.max = max
        self.beside = beside
        self.bytes_of = bytes_of
        self.outcomes_of = outcomes_of or _itself

    @property
    def fields(self) -> tuple[str, ...]:
        """The fields that have a value for each item."""
        return (self.field,) if self.beside is None else (self.field, self.beside)

    def carried_bytes(self, verb: Verb[Any]) -> int:
        """The size of what a verb brings for its messages, as far as that can be large."""
        if self.bytes_of is None:
            return 0
        return sum(map(self.bytes_of, getattr(verb, self.beside or self.field)))

    def receipts(self, verb: Verb[Any]) -> list[Any]:
        """The receipts in a verb, in its order."""
        return [] if self.receipt_of is None else [self.receipt_of(one) for one in self.of(verb)]


def _itself(item: Any) -> Any:
    return item


def _judged(field: str, bytes_of: Callable[[Any], int]) -> Items:
    receipt_of = attrgetter("receipt")
    return Items(field, id_of=attrgetter("receipt.id"), receipt_of=receipt_of, bytes_of=bytes_of)


def acked_items(field: str, outcomes_of: Callable[[Any], Sequence[Any]] | None = None) -> Items:
    """Receipts to be acked, with their results beside."""
    return Items(
        field,
        id_of=itemgetter(0),
        receipt_of=_itself,
        beside="results",
        bytes_of=lambda result: 0 if result is None else len(result.data),
        outcomes_of=outcomes_of,
    )


MESSAGES = Items(
    "messages", max=limits.SEND_MESSAGES_MAX, bytes_of=lambda message: len(message.payload)
)
RECEIPTS = Items("receipts", id_of=itemgetter(0), receipt_of=_itself)
DEFERRALS = _judged("deferrals", lambda deferral: len(deferral.state or b""))
FAILURES = _judged("failures", lambda failure: len(failure.error))
IDS = Items("ids", id_of=_itself)


class Pages:
    """Paging of a long list: the verb's field with the place to go on from, and where an item of
    the answer has it.
    """

    __slots__ = ("bytes_of", "field", "of")

    def __init__(
        self,
        field: str,
        of: Callable[[Any], Any],
        bytes_of: Callable[[Any], int] | None = None,
    ) -> None:
        """`bytes_of`: what an item counts for in the verb's `room_bytes`."""
        self.field = field
        self.of = of
        self.bytes_of = bytes_of

    def place(self, verb: Any, items: Sequence[Any]) -> Any:
        """Return the place where the rest of the list begins; None: there is no more."""
        is_cut = verb.limit is not None and len(items) >= verb.limit
        if self.bytes_of is not None and verb.room_bytes is not None:
            is_cut = is_cut or sum(map(self.bytes_of, items)) >= verb.room_bytes
        return self.of(items[-1]) if items and is_cut else None

    def rest(self, verb: Any, items: Sequence[Any], place: Any) -> Any:
        """The verb for what is behind these items; None: as many as it wanted are here."""
        if verb.limit is not None and len(items) >= verb.limit:
            return None
        limit = None if verb.limit is None else verb.limit - len(items)
        return replace(verb, **{self.field: place, "limit": limit})


class PagesOfIds(Pages):
    """The same where the items are asked for by id, and each id has its answer."""

    __slots__ = ()

    def place(self, verb: Any, items: Sequence[Any]) -> Any:
        """The first id without an answer."""
        return verb.ids[len(items)] if len(items) < len(verb.ids) else None

    def rest(self, verb: Any, items: Sequence[Any], place: Any) -> Any:
        """The verb for the ids from there on."""
        return replace(verb, ids=verb.ids[len(items) :])


def snake(name: str) -> str:
    """`CancelRequested` as `cancel_requested`."""
    return re.sub(r"(?<!^)(?=[A-Z])", "_", name).lower()


class Verb(Value, Generic[A]):
    """A request to a store; `A` is what it answers."""

    name: ClassVar[str]
    """The class's name in snake case: `queue_create` for `QueueCreate`."""
    scope: ClassVar[Scope] = "operate"
    """The minimum scope that a token or role needs; `operate` includes the other two."""
    items: ClassVar[Items | None] = None
    nothing: ClassVar[Any] = ()
    """The answer to a verb without items, for which no store is asked; None: it is asked."""
    reads: ClassVar[bool] = False
    """True if it changes nothing, so it may run beside a writer, and twice."""
    bulk: ClassVar[bool] = False
    """True if its fields are columns of thousands, which only programs make."""
    joins: ClassVar[bool] = False
    """True if it may run in the caller's transaction."""
    settles: ClassVar[bool] = False
    """True if it ends the leases that it names."""
    notifies: ClassVar[Change] = Change.NOTHING
    """Waiters of its queue for whom a look is worthwhile after it, if it had any items."""
    merges: ClassVar[bool] = False
    """A server may carry out several as one, if they differ in their items only."""
    lists: ClassVar[bool] = False
    """True if without a queue's name it covers all queues that its caller may ask about."""

    pages: ClassVar[Pages | None] = None
    """Set if its answer is a list that may be long: servers give a part, and say where to go on."""

    def __init_subclass__(cls) -> None:
        cls.name = snake(cls.__name__)

    def nothing_to_do(self) -> A | None:
        """The answer if it has no items, for which no store is asked; else None."""
        items = self.items
        return None if items is None or items.of(self) else self.nothing

    def to_notify(self) -> Change:
        """Return the change that it may have made for waiters of its queue."""
        items = self.items
        return self.notifies if items is None or items.of(self) else Change.NOTHING

    def carried_bytes(self) -> int:
        """See `Items.carried_bytes`."""
        return 0 if self.items is None else self.items.carried_bytes(self)
