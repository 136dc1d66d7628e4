"""The plan of a replay: the rows that were chosen, as files of a batch each, which never change.

It is a Delta table, LAKE/_replay/<run>: made with all of its files in one commit, which only one
process can make; its description has filters, target and batches, its transaction `sent` how many
batches are sent, so that what is repeated is skipped sooner.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import Any, Final

import msgspec
from deltalake import CommitProperties, DeltaTable, Schema, Transaction
from deltalake.exceptions import DeltaError
from deltalake.transaction import AddAction, create_table_with_add_actions

from turnabout.pipeline.lake import Filter, Lake, LakeDamaged, WrittenFile
from turnabout.pipeline.lake._files import ROWS, read, write_table
from turnabout.pipeline.lake._table import added, opened
from turnabout.pipeline.schema import LOG
from turnabout.words import limits
from turnabout.words.errors import UsageError
from turnabout.words.value import Value

RUN_CHARS_MAX = 30
SENT: Final = "sent"
ORDER: Final = ("sent_at", "message_id", "finished_at")
"""Order in which rows are sent again."""


class Plan(Value):
    """A run's plan. batches: file and rows of each, in order; left_out: rows without value."""

    run: str
    to: str | None
    filter: Filter
    per_second: int | None
    rows: int
    left_out: int
    batches: tuple[tuple[str, int], ...]
    made_at: int

    def sink_run(self, number: int) -> str:
        """A batch's key in the database. It names the time of the choice of rows, too, as a run of
        the same id in another lake has other rows.
        """
        return f"{self.run}-{self.made_at:x}-{number}"


class JobRun:
    """A run in its lake. Raises: UsageError for an invalid name."""

    def __init__(self, lake: Lake, run: str) -> None:
        limits.plain_name(run)
        if len(run) > RUN_CHARS_MAX:
            raise UsageError(f"a run id has at most {RUN_CHARS_MAX} characters, not {len(run)}")
        self.name = run
        self.storage = lake.storage.child("_replay", run)

    def plan(self) -> Plan | None:
        """Read the plan; None: the run was not begun. Raises: LakeDamaged."""
        table = opened(self.storage)
        if table is None:
            return None
        try:
            return msgspec.json.decode(table.metadata().description or "", type=Plan)
        except msgspec.DecodeError as error:
            raise LakeDamaged(f"{self.storage.uri} is not the plan of a replay") from error

    def write(self, rows: Any, number: int) -> WrittenFile:
        """Write a table of rows as the file of a batch."""
        with self.storage.disk_errors():
            return write_table(rows.cast(ROWS), self.storage, f"rows-{number:012d}")

    def begin(self, files: Sequence[WrittenFile], plan: Plan) -> Plan:
        """Make the run, with its rows; if another process has made it meanwhile, take that one."""
        actions: list[AddAction] = [added(file) for file in files]
        try:
            with self.storage.disk_errors():
                create_table_with_add_actions(
                    self.storage.uri,
                    Schema.from_arrow(ROWS),
                    actions,
                    mode="error",
                    name=self.name,
                    description=msgspec.json.encode(plan).decode(),
                    storage_options=self.storage.delta_options,
                )
        except DeltaError:
            there = self.plan()
            if there is None:
                raise
            return there
        return plan

    def rows(self, path: str) -> Iterator[Any]:
        """Read the rows of a batch, in their order."""
        return read(self.storage, [path], tuple(LOG))

    def sent(self) -> int:
        """Count the batches that are known to be sent."""
        table = opened(self.storage)
        return 0 if table is None else table.transaction_version(SENT) or 0

    def note(self, batches: int, plan: Plan) -> None:
        """Note the number of sent batches. The last one removes the rows."""
        table: DeltaTable | None = opened(self.storage)
        assert table is not None
        properties = CommitProperties(app_transactions=[Transaction(SENT, batches)])
        try:
            with self.storage.disk_errors():
                table.create_write_transaction(
                    [], "append", table.schema(), commit_properties=properties
                )
        except DeltaError:  # another process sends, too; the database knows what is sent
            return
        if batches == len(plan.batches):
            files = self.storage.files()
            for path, _ in plan.batches:
                with suppress(OSError):  # gone already
                    files.delete_file(path)
