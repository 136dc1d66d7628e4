"""Everything in one pass, from a file that nobody changes into a transaction that nobody sees."""

from __future__ import annotations

import json
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from sqlite3 import Row
from typing import Any

import msgspec
from psycopg import sql

from turnabout.move import _rows
from turnabout.move._report import Progress
from turnabout.move._source import Source
from turnabout.move._target import Target
from turnabout.words.errors import BrokenInvariant, UsageError
from turnabout.words.value import replace

ROWS = 5_000
"""Messages copied and given their places at once."""
BYTES = 16 * 1024 * 1024
"""Payload bytes copied at once, and one message more."""
SLACK = 1_000
"""Ids that may be given out on the target between a look at its sequence and a change."""


def check(file: Source, database: Target) -> list[str]:
    """Look what stands in the way; the empty queues there that have to make room.

    Raises: UsageError.
    """
    queues, schedules = ([row["name"] for row in file.rows(of)] for of in ("queue", "schedule"))
    found = database.run("queues_of_names", names=queues).fetchall()
    taken = database.run("schedules_of_names", names=schedules).fetchall()
    _refuse("queue", [name for name, used in found if used], database)
    _refuse("schedule", [name for (name,) in taken], database)
    ids = [id_ for (id_,) in database.run("ids_below", last=file.one("last_given"))]
    lowest = file.one("collision", ids=json.dumps(ids))
    if lowest is not None:
        raise UsageError(
            f"the file and {database.place} have different messages with the same id "
            f"({lowest}, for one), and ids cannot change: receipts are made of them. "
            "Let the workers finish those of one side, or move to an empty database"
        )
    return [name for name, _ in found]


def _refuse(what: str, names: Sequence[str], database: Target) -> None:
    if names:
        raise UsageError(
            f"{database.place} has {what}s of these names already: {', '.join(names)}. Delete them "
            f"there (`turnabout {what} delete`), or move to another database; senders and workers "
            "change to it when the move is done"
        )


LEASE = ("queue_id", "id", "attempt", "at", "leased_at")


class Copy:
    """One pass over the file, inside its lock and the target's transaction."""

    def __init__(self, file: Source, database: Target, tell: Callable[[Progress], object]) -> None:
        self._started = time.monotonic()
        self._file = file
        self._database = database
        self._tell = tell
        self._done = self._total = 0
        self._sums: dict[int, tuple[int, int]] = defaultdict(lambda: (0, 0))

    def run(self, token: str) -> None:
        """Copy it all, compare, and leave the note.

        Raises: UsageError: something stands in the way; BrokenInvariant: the sides differ.
        """
        file, database = self._file, self._database
        contents = file.contents(database.place)
        self._total = sum(queue.messages + queue.history for queue in contents.queues)
        last = file.one("last_given")
        self._skip_ids("message", last and last + SLACK)
        empty = check(file, database)
        database.run("part", names=empty)
        database.run("make_room", names=empty)
        self.tell("copying")
        self._copy()
        self.tell("comparing")
        self._compare()
        seconds = round(time.monotonic() - self._started, 3)
        report = replace(contents, events_cursor=f"{database.xid}.", seconds=seconds)
        database.run("ledger")
        database.run("note", token=token, report=msgspec.json.encode(report).decode())

    def tell(self, step: str) -> None:
        """Tell how far it is."""
        self._tell(Progress(step, self._done, self._total))

    def _copy(self) -> None:
        file, database = self._file, self._database
        database.begin(file.rows("queue"))
        for table in ("queue", "tally", "queue_limit"):
            database.put(table, file.rows("queue"))
        database.put("channel", self._of_queues("channel"))
        self._messages()
        for step in ("limit", "drop_wakes", "missing_channels"):
            database.run(step, queues=list(database.queues.values()))
        database.put("history", self._counted(file.rows("history")))
        database.put("event", self._of_queues("event"))
        self._skip_ids("event", file.one("last_event"), "seq")
        database.put("dedup", self._of_queues("dedup"))
        database.put("schedule", file.rows("schedule"))
        self._redrives()
        for table in ("namespace", "token", "sink_batch"):
            database.put(table, file.rows(table), keep=True)

    def _skip_ids(self, table: str, last: int, column: str = "id") -> None:
        """New ids of a table there get above this, even if nothing is committed."""
        if last:
            self._database.run("skip_ids", table=table, column=column, id=last)

    def _redrives(self) -> None:
        """Keep ids, unless one of them is taken on the target: then all get new ones."""
        database, rows = self._database, list(self._file.rows("redrive"))
        numbers = [row["id"] for row in rows]
        new: Iterable[int] = numbers
        if database.run("redrives_of_ids", ids=numbers).fetchone() is None:
            self._skip_ids("redrive", max(numbers, default=0))
        else:
            new = (n for (n,) in database.run("give_ids", table="redrive", count=len(rows)))
        ids = dict(zip(numbers, new, strict=True))
        database.put("redrive", iter(rows), id=lambda row: ids[row["id"]])

    def _of_queues(self, table: str) -> Iterator[Row]:
        """Rows of a table, without those that a deleted queue has left."""
        return (row for row in self._file.rows(table) if row["queue_id"] in self._database.queues)

    def _counted(self, rows: Iterator[Row]) -> Iterator[Row]:
        for row in rows:
            yield row
            self._done += 1
            if self._done % ROWS == 0:
                self.tell("copying")

    def _messages(self) -> None:
        """Messages, with the places of those that wait, and the leases of the others."""
        database, table = self._database, sql.Identifier("turnabout", "message")
        leases: list[tuple[int, ...]] = []
        for rows in _batches(self._counted(self._file.rows("message"))):
            columns, converted = database.conversion("message", rows[0])
            tuples = [converted(row) for row in rows]
            database.copy(table, columns, tuples)
            checksum = _rows.summer(columns)
            waiting: tuple[list[int], list[int]] = [], []
            for row, values in zip(rows, tuples, strict=True):
                count, total = self._sums[row["queue_id"]]
                self._sums[row["queue_id"]] = (count + 1, total + checksum(values))
                queue = database.queues[row["queue_id"]]
                if _rows.is_leased(row):
                    leases.append((queue, *(row[name] for name in LEASE[1:])))
                else:
                    waiting[0].append(queue)
                    waiting[1].append(row["id"])
            database.run("places", queues=waiting[0], ids=waiting[1])
        if leases:
            lists = map(list, zip(*leases, strict=True))
            database.run("put_leases", **dict(zip(LEASE, lists, strict=True)))

    def _compare(self) -> None:
        """Is every message there as it is in the file, to the last byte, and stands in one place?
        Are there as many leases and rows of history, with the same ids?
        """
        file, database = self._file, self._database
        counted = file.counts("message")
        for what, here, there in (
            ("messages", dict(self._sums), "checksums"),
            ("places of messages", counted, "count_places"),
            ("leases", file.counts("leased"), "count_leased"),
            ("rows of history", file.counts("history"), "count_history"),
        ):
            _must_agree(what, here, database.counts(there))


def _batches(rows: Iterator[Row]) -> Iterator[list[Row]]:
    """Messages, as many at once as memory is for."""
    some: list[Row] = []
    size = 0
    for row in rows:
        some.append(row)
        size += len(row["payload"])
        if len(some) == ROWS or size >= BYTES:
            yield some
            some, size = [], 0
    if some:
        yield some


def _must_agree(what: str, here: Mapping[int, Any], there: Mapping[int, Any]) -> None:
    if here != there:
        apart = [q for q in here.keys() | there.keys() if here.get(q) != there.get(q)]
        raise BrokenInvariant(
            f"the {what} are not the same on both sides; queues: {len(apart)} "
            f"(queue {apart[0]}: {here.get(apart[0])} in the file, {there.get(apart[0])} on the "
            "target). Nothing has changed, and the file is in use as before: please report this"
        )
