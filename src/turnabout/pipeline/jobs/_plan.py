"""The plan of a replay: the rows that were chosen, as files of a batch each, which never change.

LAKE/_replay/<run>/plan.json     filters, target, batches; made with the rows, at once
LAKE/_replay/<run>/rows/         a file for each batch, until all are sent
LAKE/_replay/<run>/sent.json     how many batches are sent: what is repeated is skipped sooner
"""

from __future__ import annotations

import json
import secrets
import time
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from turnabout.pipeline.lake import Lake, _disk
from turnabout.pipeline.lake._commits import decode, encode
from turnabout.pipeline.spark.lakes import Filter
from turnabout.words import limits
from turnabout.words.errors import UsageError

RUN_CHARS_MAX = 30
_STALE_SECONDS = 86_400


@dataclass(frozen=True)
class Plan:
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
    """A run in its lake, for one process at a time."""

    def __init__(self, lake: Lake, run: str) -> None:
        self.folder = lake.folder / "_replay" / run
        self.name = run
        self._staging = lake.folder / "_staging"
        self._lake = lake

    @classmethod
    @contextmanager
    def held(cls, lake: Lake, run: str) -> Generator[JobRun]:
        """The run of a name. Raises: Taken: another process is at it; UsageError: no name."""
        limits.plain_name(run)
        if len(run) > RUN_CHARS_MAX:
            raise UsageError(f"a run id has at most {RUN_CHARS_MAX} characters, not {len(run)}")
        with _disk.told(lake.folder):
            _disk.make_folder(lake.folder / "_replay")
            with _disk.lock(lake.folder / "_replay" / f".{run}.lock", f"the replay {run}"):
                yield cls(lake, run)

    def plan(self) -> Plan | None:
        """The plan, if the run was begun. Raises: WrongVersion, LakeDamaged."""
        path = self.folder / "plan.json"
        return decode(path.read_bytes(), str(path), Plan) if path.exists() else None

    @contextmanager
    def staged(self) -> Generator[Path]:
        """A folder for rows; removed at the end unless it became the run's."""
        self._sweep()
        path = self._staging / f"replay.{self.name}.{secrets.token_hex(4)}"
        _disk.make_folder(self._staging)
        try:
            yield path
        finally:
            _disk.remove_folder(path)

    def begin(self, staged: Path, plan: Plan) -> None:
        """Make the staged rows and the plan the run's, at once."""
        for file in sorted(staged.joinpath("rows").glob("*")):
            _disk.sync(file)
        _disk.write_aside(staged / "plan.json", encode(plan))
        _disk.sync(staged)
        _disk.move(staged, self.folder)
        _disk.sync(self.folder.parent)

    def sent(self) -> int:
        """Batches that are known to be sent."""
        try:
            return int(json.loads((self.folder / "sent.json").read_bytes())["batches"])
        except FileNotFoundError:
            return 0

    def note(self, batches: int, *, last: bool) -> None:
        """Note the number of sent batches. The last one removes the rows."""
        aside = self.folder / "sent.json.next"
        _disk.remove(aside)
        _disk.write_aside(aside, json.dumps({"batches": batches}).encode())
        aside.replace(self.folder / "sent.json")
        if last:
            _disk.remove_folder(self.folder / "rows")

    def _sweep(self) -> None:
        """Remove what runs that were killed while they chose have left, a day ago."""
        for path in self._staging.glob("replay.*"):
            if path.stat().st_mtime < time.time() - _STALE_SECONDS:
                _disk.remove_folder(path)
