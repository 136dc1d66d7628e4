"""The answers of jobs and reports: values that need neither Spark nor the lake."""

from __future__ import annotations

from pathlib import Path

from turnabout.pipeline.verbs import START, LogState, Subscription, Watermark
from turnabout.words.value import Value


class Status(Value):
    """The pipelines of a database, as they are now."""

    subscriptions: tuple[Subscription, ...]
    archives: tuple[Watermark, ...]
    log: LogState

    def behind(self, seconds: float) -> tuple[str, ...]:
        """Names of the archives whose oldest missing row has waited for longer than that, and of
        the subscriptions whose oldest ready message has.
        """
        most = seconds * 1000
        streams = (one.name for one in self.subscriptions if (one.oldest_ready_ms or 0) > most)
        return (*(mark.archive for mark in self.archives if mark.lag_ms > most), *streams)


class Archived(Value):
    """The results of a run of `archive`.

    rows, files, bytes, batches  of this run      total  rows of the archive in all
    lost  batches before which rows were gone (`skip_lost`)
    """

    archive: str
    rows: int = 0
    files: int = 0
    bytes: int = 0
    batches: int = 0
    total: int = 0
    position: str = START
    lost: int = 0
    seconds: float = 0.0


class Compacted(Value):
    """The results of a run of `compact`.

    before, after  files that were merged, and what they became      removed  files without use
    """

    before: int = 0
    after: int = 0
    removed: int = 0
    seconds: float = 0.0


class PurgeReport(Value):
    """The files and rows removed, or with `dry_run` those that would be.

    archive, position  the archive that has come least far, and how far: the bound
    files, bytes       of the lakes, checked
    """

    rows: int
    archive: str
    position: str
    finished_before: int
    files: int
    bytes: int
    dry_run: bool = False


class Chosen(Value):
    """Rows of one queue and outcome that a replay chooses; those without a payload."""

    namespace: str | None
    queue: str | None
    outcome: str
    rows: int
    without_value: int


class LeftBehind(Value):
    """A message that can't be sent again: its former id, and the reason."""

    message_id: int
    reason: str


class Replayed(Value):
    """A run's progress.

    rows  in all      sent  by now, by this or an earlier start      left_out  without a payload
    chosen  what a dry run counts      refused  those that this start could not send, and skipped
    """

    run: str
    rows: int
    sent: int
    left_out: int
    done: bool
    seconds: float = 0.0
    chosen: tuple[Chosen, ...] = ()
    refused: tuple[LeftBehind, ...] = ()


class LakeArchive(Value):
    """An archive in a lake, at its last version."""

    archive: str
    uri: str
    version: int
    rows: int
    files: int
    bytes: int


class LakeContents(Value):
    """The contents of a lake."""

    archives: tuple[LakeArchive, ...]


class Times(Value):
    """Quantiles of a time, above a second to three digits; None: there was none."""

    p50_ms: float | None
    p90_ms: float | None
    p99_ms: float | None
    max_ms: int | None
    mean_ms: float | None


class QueueReport(Value):
    """A queue in the report.

    retried   messages leased more than once: their waiting is not counted
    fairness  the least that a channel got of its fair share while others were served, 1 being all
              of it; None where no channel waited for others for long enough to compare
    starved   channels that got less than half of theirs for a while, the worst first
    """

    namespace: str
    queue: str
    channels: int
    messages: int
    done: int
    dead: int
    cancelled: int
    expired: int
    retried: int
    attempts: int
    failures: int
    crashes: int
    wait: Times
    handling: Times
    fairness: float | None
    starved: tuple[str, ...]

    @property
    def name(self) -> str:
        """The stored name: with the namespace."""
        return f"{self.namespace}/{self.queue}" if self.namespace else self.queue


class Reported(Value):
    """The findings of a run of `report`, and the files it wrote.

    first, until  the time that it is about, in milliseconds; None where there were no messages
    sentences     the summary at the top of the page
    files         the page and the tables
    engine        the engine that counted: DuckDB, or Spark
    """

    messages: int
    first: int | None
    until: int | None
    queues: tuple[QueueReport, ...]
    sentences: tuple[str, ...]
    files: tuple[str, ...]
    seconds: float
    engine: str = ""

    @property
    def page(self) -> Path:
        """The HTML page."""
        return Path(self.files[0])
