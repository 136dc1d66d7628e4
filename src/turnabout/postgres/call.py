"""A verb on PostgreSQL: one call of one function. `calls` has them all."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import starmap
from operator import attrgetter, itemgetter
from typing import Any

from turnabout.postgres.everyday import Everyday
from turnabout.postgres.revision import rendered

Row = Sequence[Any]
Rows = Sequence[Row]
Now = int | None
Parameters = Callable[[Any, Now], Sequence[Any]]
Answer = Callable[[Any, Rows], Any]
Notifies = Callable[[Any, Rows], Sequence[str]]


@dataclass(frozen=True, slots=True)
class Call:
    """One function call. `repeatable`: it changes nothing that a second run would spoil."""

    text: str
    sql: bytes
    """The text, as a connection takes it."""
    parameters: Parameters
    answer: Answer
    repeatable: bool = False
    nowait: bytes | None = None
    """The call to make instead when this one met rows that others hold for long, and in a
    transaction that goes on afterwards.
    """
    without_timers: bytes | None = None
    """The call to make instead when the same was made for that queue a moment ago."""
    everyday: Sequence[Everyday] = ()
    """Shortcuts to try before it: the first that fits the verb."""
    notifies: Notifies | None = None
    """The queues that it changed in any way, so that those who wait must be notified; None: as the
    verb says.
    """
    in_parts: bool = False
    """True if it is called until it returns 0, so that no transaction grows with the queue."""
    settles: bool = False
    """True if it changes settings that others rely on: after its commit, `SETTLE` follows."""


def call(
    text: str,
    answer: Answer,
    parameters: Parameters | None = None,
    *,
    nowait: str | None = None,
    without_timers: str | None = None,
    everyday: Sequence[Everyday] = (),
    repeatable: bool = False,
    notifies: Notifies | None = None,
    in_parts: bool = False,
    settles: bool = False,
) -> Call:
    """The call of a text that names what it takes, as in `$queue::text`: fields of the verb, and
    `now`, the clock; or what `parameters` gives for these names, in the order of the text.
    """
    names = list(dict.fromkeys(_NAME.findall(text)))

    def numbered(text: str) -> str:
        return _NAME.sub(lambda name: f"${names.index(name[1]) + 1}", rendered(text))

    return Call(
        numbered(text),
        numbered(text).encode(),
        parameters or _fields(names),
        answer,
        repeatable,
        None if nowait is None else numbered(nowait).encode(),
        None if without_timers is None else numbered(without_timers).encode(),
        everyday,
        notifies,
        in_parts,
        settles,
    )


_NAME = re.compile(r"\$([a-z_.]+)")


SETTLE = rendered("select turnabout.settle_changes($1::text, $2::bigint)").encode()
"""Do over what others have just written to a queue that they knew as it was before."""


def _fields(names: Sequence[str]) -> Parameters:
    fields = [None if name == "now" else attrgetter(name) for name in names]

    def parameters(verb: Any, now: Now) -> Sequence[Any]:
        return [now if field is None else _plain(field(verb)) for field in fields]

    return parameters


def _plain(value: Any) -> Any:
    """A driver takes a tuple for a row, and a list for an array."""
    return [*value] if isinstance(value, tuple) else value


def in_room(select: str, function: str, *sized: str) -> str:
    """A select of a function's rows up to the one with which these columns fill `room_bytes`."""
    size = " + ".join(f"coalesce(octet_length({column}), 0)" for column in sized)
    before = "order by ordinality rows between unbounded preceding and 1 preceding"
    return (
        f"select {select} from (select *, sum({size}) over ({before}) as taken"  # noqa: S608
        f" from turnabout.{function} with ordinality) found"
        " where $room_bytes::bigint is null or coalesce(taken, 0) < $room_bytes::bigint"
        " order by ordinality"
    )


# --- answers -------------------------------------------------------------------------------------


def nothing(_verb: Any, _rows: Rows) -> None:
    """Discard the rows."""


def single(_verb: Any, rows: Rows) -> Any:
    """The one value of the one row."""
    return rows[0][0]


def one(make: Callable[..., Any]) -> Answer:
    """The answer, from the columns of the one row."""
    return lambda _, rows: make(*rows[0])


def each(make: Callable[..., Any]) -> Answer:
    """A tuple of what is made of the columns of each row."""
    return lambda _, rows: tuple(starmap(make, rows))


def in_order(make: Callable[..., Any]) -> Answer:
    """The same of rows whose first column is a place in the verb's list."""
    return lambda _, rows: tuple([make(*row[1:]) for row in sorted(rows, key=itemgetter(0))])
