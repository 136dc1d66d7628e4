"""Mode `lease`: a stream of messages that are leased by the batch, in recorded epochs.

An offset is the number of an epoch, which the database has recorded with exactly the messages that
it covers; so a batch that Spark repeats reads the same ones. Acknowledged is what Spark's commit
log holds: `latestOffset(n)` is only called then. Nothing depends on `commit` and `stop`, which
Spark may never call. See docs/design/pipeline.md.
"""

from __future__ import annotations

import os
import socket
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from logging import getLogger
from operator import attrgetter
from typing import Any, Final, NoReturn

from pyspark.sql.datasource import InputPartition

from turnabout.pipeline.spark import rows
from turnabout.pipeline.spark.lease_settings import LeaseSettings
from turnabout.pipeline.spark.streams import IDLE_SECONDS, StreamReader, fail_or_warn, in_task
from turnabout.pipeline.spark.versions import ReadLimit, ReadMaxRows
from turnabout.pipeline.verbs import (
    BATCH_MESSAGES_MAX,
    EpochExtend,
    EpochLease,
    EpochPlan,
    Leased,
    NoEpoch,
    Part,
    Planned,
    SubscriptionOpen,
    Superseded,
)
from turnabout.words.errors import Forbidden, QueueNotFound, TurnaboutError, Unavailable
from turnabout.words.verbs import Maintain

MAINTAIN_SECONDS: Final = 5.0
"""Time between two rounds of housekeeping, which otherwise receivers do."""

_log = getLogger(__name__)


@dataclass
class EpochPartition(InputPartition):
    """The input of one task: parts of an epoch, each with the number of messages recorded."""

    subscription: str
    epoch: int
    parts: Sequence[Part]


class _Ahead(threading.Thread):
    """Leases the epoch after `beyond` while Spark works on that one.

    What goes wrong is left to the call that comes for the answer: it finds none and asks itself.
    """

    def __init__(self, after: int, beyond: int, lease: Callable[[], Leased]) -> None:
        super().__init__(name="turnabout leases ahead", daemon=True)
        self.after = after
        self.beyond = beyond
        self.answer: Leased | None = None
        self._lease = lease
        self.start()

    def run(self) -> None:
        """Once, in the thread."""
        with suppress(TurnaboutError):
            answer = self._lease()
            self.answer = answer if answer.epoch > self.beyond else None


@dataclass
class _LeaseDriver:
    """The state of the driver's reader beyond its settings; it is never pickled."""

    generation: int | None = None
    acked: int = -1
    newest: int = -1
    """Epochs that this reader acknowledged, and leased or planned, last."""
    left: int | None = None
    """Messages that may still be leased under AvailableNow; None: no end."""
    ahead: _Ahead | None = None
    is_checked: bool = False
    planned: dict[int, list[EpochPartition]] = field(default_factory=dict[int, Any])
    queues: tuple[str, ...] = ()
    was_idle: bool = False
    called_at: float = 0.0
    trouble: str = ""
    """Consequence of the last failed epoch, until one is acknowledged."""
    waits: dict[str, Any] = field(default_factory=dict[str, Any])
    looked_at: float = -MAINTAIN_SECONDS
    beating: threading.Thread | None = None
    stopping: threading.Event = field(default_factory=threading.Event)


class LeaseReader(StreamReader[LeaseSettings, _LeaseDriver]):
    """The reader of `readStream.format("turnabout").option("mode", "lease")`."""

    new_driver = _LeaseDriver

    # --- in the driver, in the order in which Spark calls -----------------------------------------

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802 - Spark's name
        """Note how many messages are unfinished now: no more are leased in this run."""
        self._called()
        self._driver.left, _ = self._access.waiting(self._queues())

    def initialOffset(self) -> dict[str, int]:  # noqa: N802
        """Return the start of a new checkpoint: after acknowledged epochs. Messages leased for the
        subscription that never were in a checkpoint come first, in their epochs.
        """
        self._called()
        self._open()
        return {"epoch": max(self._driver.acked, 0)}

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        """At most `maxOffsetsPerTrigger` messages a batch."""
        return ReadMaxRows(self._settings.max_messages)

    def latestOffset(self, start: dict[str, int], limit: ReadLimit) -> dict[str, int]:  # noqa: N802
        """Acknowledge up to `start`, which the commit log holds; lease the next epoch, unless that
        was done ahead.
        """
        self._called()
        driver, after = self._driver, start["epoch"]
        self._check_copy(after)
        most = limit.max_rows if isinstance(limit, ReadMaxRows) else BATCH_MESSAGES_MAX
        most = min(most, BATCH_MESSAGES_MAX)
        ahead = self._brought(after)
        leased = ahead
        if leased is None or not leased.messages:
            if driver.was_idle and driver.left is None:
                driver.stopping.wait(IDLE_SECONDS)
            leased = self._lease(after, self._within(most))
            while leased.wait_ms and not driver.stopping.wait(leased.wait_ms / 1000):
                self._called()
                leased = self._lease(after, self._within(most))
        driver.planned.clear()
        driver.was_idle = not leased.messages
        if not leased.messages:
            return start
        is_full = leased.messages >= self._within(most) or self._settings.max_bytes is not None
        driver.newest = leased.epoch
        if driver.left is not None:
            driver.left = max(0, driver.left - leased.messages)
        if is_full or leased is ahead:
            # More is waiting: it is leased, and `start` acknowledged, while Spark works.
            more = self._within(most) if is_full else 0
            lease = partial(self._lease, after, more, leased.epoch)
            driver.ahead = _Ahead(after, leased.epoch, lease)
        return {"epoch": leased.epoch}

    def reportLatestOffset(self) -> dict[str, Any]:  # noqa: N802
        """Tell Spark's progress what is waiting, counted every few seconds, and what goes wrong."""
        driver, now = self._driver, time.monotonic()
        if now - driver.looked_at >= MAINTAIN_SECONDS:
            driver.looked_at = now
            with suppress(TurnaboutError):  # it is for people: no stream ends by it
                unfinished, oldest = self._access.waiting(driver.queues)
                driver.waits = {"unfinished": unfinished, "oldest_ready_seconds": oldest // 1000}
        trouble = {"trouble": driver.trouble} if driver.trouble else {}
        return {"epoch": driver.newest} | driver.waits | trouble

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> list[InputPartition]:
        """The parts of the epoch `end`, put together for about `numPartitions` tasks.

        Asked for again by another run it has failed: see `EpochPlan`.
        """
        self._called()
        epoch = end["epoch"]
        if epoch == start["epoch"]:
            return []
        known = self._driver.planned.get(epoch)
        if known is None:
            known = self._driver.planned[epoch] = self._plan(epoch)
        return list(known)

    def commit(self, end: dict[str, int]) -> None:
        """Acknowledge again, for a reader that has not called `latestOffset` since."""
        self._called()
        epoch, ahead = end["epoch"], self._driver.ahead
        if epoch > self._driver.acked and (ahead is None or ahead.after < epoch):
            self._lease(epoch, 0)

    def stop(self) -> None:
        """Stop the heartbeat. Leases stay: whether the last batch was done is not known here."""
        driver = self._driver
        driver.stopping.set()
        for thread in (driver.beating, driver.ahead):
            if thread is not None:
                thread.join(5)  # it would open the database again
        self._access.close()

    # --- on executors ----------------------------------------------------------------------------

    def read(self, partition: InputPartition) -> Iterator[Any]:
        """The messages of the partition's parts. Reads only, so it may be repeated."""
        assert isinstance(partition, EpochPartition)
        return self._rows(partition)

    def _rows(self, partition: EpochPartition) -> Iterator[Any]:
        for part in partition.parts:
            found = 0
            piece = rows.EpochPart(partition.subscription, partition.epoch, part.part)
            read = rows.read(self._access, "epoch_rows", self._columns, of=piece, keep=in_task())
            for batch in read:
                found += batch.num_rows
                yield batch
            if found < part.messages:
                self._fewer(partition.epoch, part.messages - found)

    def _fewer(self, epoch: int, lost: int) -> None:
        text = (
            f"{lost} messages of epoch {epoch} are leased no more: their leases ran out, or "
            "somebody has settled them, so others may have them now. Longer leaseSeconds or "
            "maxBatchSeconds, or a smaller maxOffsetsPerTrigger, prevent that"
        )
        else_ = "with failOnLeaseLost=false the batch goes on without them"
        fail_or_warn(text, else_, fails=self._settings.fail_on_lease_lost)

    # --- how --------------------------------------------------------------------------------------

    def _open(self) -> int:
        """The generation of this reader; it takes the subscription at its first call."""
        driver = self._driver
        if driver.generation is None:
            self._queues()  # all that is wrong with names comes up before anything is taken
            opened = self._access.run(
                SubscriptionOpen(self._access.stored(self._settings.subscription), owner())
            )
            driver.generation, driver.acked = opened.generation, opened.acked
        if driver.beating is None or not driver.beating.is_alive():
            driver.beating = threading.Thread(
                target=self._beat, name="turnabout leases", daemon=True
            )
            driver.beating.start()
        return driver.generation

    def _queues(self) -> tuple[str, ...]:
        """Queues that exist now. Each that is subscribed by name has to exist at first."""
        settings, driver = self._settings, self._driver
        is_first = driver.generation is None
        try:
            found = self._access.queues(settings.subscribe, settings.pattern)
        except QueueNotFound:
            if is_first:
                raise
            found = ()
        if is_first and settings.subscribe is not None:
            for queue in settings.subscribe:
                if self._access.stored(queue) not in found:
                    raise QueueNotFound(queue)
        driver.queues = found
        return found

    def _within(self, most: int) -> int:
        """`most` messages, or what AvailableNow may still lease."""
        left = self._driver.left
        return most if left is None else min(most, left)

    def _lease(self, after: int, most: int, beyond: int = 0) -> Leased:
        settings, driver = self._settings, self._driver
        generation = self._open()
        for is_last in (False, True):
            verb = EpochLease(
                subscription=self._access.stored(settings.subscription),
                generation=generation,
                queues=self._queues(),
                after=after,
                max_messages=most,
                lease_ms=settings.lease_ms,
                parts=settings.parts,
                by_channel=settings.by_channel,
                beyond=beyond,
                max_bytes=settings.max_bytes,
            )
            try:
                answer = self._access.run(verb)
            except QueueNotFound:  # deleted since it was looked up
                if is_last:
                    raise
                continue
            if isinstance(answer, Superseded):
                self._superseded(answer)
            if after > driver.acked:
                driver.acked, driver.trouble = after, ""
            if answer.lost:
                _log.warning(
                    "subscription %s: the leases of %d messages had run out before they were "
                    "acknowledged, so they are delivered again",
                    settings.subscription,
                    answer.lost,
                )
            return answer
        raise AssertionError

    def _brought(self, after: int) -> Leased | None:
        """The epoch leased ahead for a call with this start; None: there is none to use."""
        ahead, self._driver.ahead = self._driver.ahead, None
        if ahead is None:
            return None
        ahead.join()
        return ahead.answer if ahead.beyond == after else None

    def _check_copy(self, after: int) -> None:
        """At the first call of a run: nothing is acknowledged that the commit log does not hold, so
        a checkpoint that is behind is an older copy.
        """
        driver = self._driver
        if driver.is_checked:
            return
        self._open()
        driver.is_checked = True
        if after < driver.acked:
            text = (
                f"the checkpoint is at epoch {after} of {self._settings.subscription!r}, of which "
                f"epochs up to {driver.acked} are acknowledged: it is an older copy"
            )
            else_ = "with failOnDataLoss=false the stream goes on"
            fail_or_warn(text, else_, fails=self._settings.fail_on_data_loss)

    def _plan(self, epoch: int) -> list[EpochPartition]:
        settings, driver = self._settings, self._driver
        name = settings.subscription
        stored = self._access.stored(name)
        answer = self._access.run(
            EpochPlan(
                subscription=stored,
                generation=self._open(),
                epoch=epoch,
                lease_ms=settings.lease_ms,
                max_plans=settings.max_plans,
                error=f"the batch of the stream {name!r} failed with this message alone in it, "
                "twice, while others got through: the log of the query says why",
            )
        )
        if isinstance(answer, Superseded):
            self._superseded(answer)
        if isinstance(answer, NoEpoch):
            return self._missing(epoch, answer)
        driver.newest = max(driver.newest, epoch)
        if driver.left is not None:
            driver.left += answer.returned
        if answer.returned or answer.suspect is not None:
            driver.trouble = f"epoch {epoch} failed {_times(answer.plans - 1)}{_verdict(answer)}"
            _log.warning("subscription %s: %s", name, driver.trouble)
        return [
            EpochPartition(stored, epoch, parts) for parts in spread(answer.parts, settings.parts)
        ]

    def _missing(self, epoch: int, answer: NoEpoch) -> list[EpochPartition]:
        if epoch <= answer.acked:
            why = (
                f"epochs up to {answer.acked} are acknowledged: the checkpoint is an older copy, "
                "or the end of its commit log is gone"
            )
        else:
            why = (
                f"the newest there is {answer.newest}: it was released, or the database was "
                "restored from a backup, or the checkpoint is of another one"
            )
        text = f"the checkpoint asks for epoch {epoch} of {self._settings.subscription!r}; {why}"
        else_ = "with failOnDataLoss=false the batch is empty and the stream goes on"
        fail_or_warn(text, else_, fails=self._settings.fail_on_data_loss)
        return []

    def _superseded(self, answer: Superseded) -> NoReturn:
        name = self._settings.subscription
        self._driver.stopping.set()
        if not answer.owner:
            raise Forbidden(
                f"the subscription {name!r} was released (`turnabout pipeline release`): start the "
                "query again to take it"
            )
        raise Forbidden(
            f"the subscription {name!r} was taken by {answer.owner}, as the newest reader has it: "
            f"this one ({owner()}) may stop. If both are to run, or one query reads it twice (a "
            "union, a self-join), give each a subscription of its own"
        )

    # --- the heartbeat ---------------------------------------------------------------------------

    def _called(self) -> None:
        self._driver.called_at = time.monotonic()

    def _beat(self) -> None:
        """Keep leases and the queues' housekeeping going, until Spark has been silent too long."""
        driver, settings = self._driver, self._settings
        every = settings.lease_ms / 3000
        extended_at = time.monotonic()
        while not driver.stopping.wait(min(every, MAINTAIN_SECONDS)):
            now = time.monotonic()
            if now - driver.called_at > settings.max_batch_seconds:
                _log.warning(
                    "subscription %s: Spark has asked for nothing for %d seconds "
                    "(maxBatchSeconds): its leases are extended no more",
                    settings.subscription,
                    settings.max_batch_seconds,
                )
                return
            try:
                if now - extended_at >= every * 0.99:
                    if not self.extend():
                        return
                    extended_at = now
                self.maintain()
            except Unavailable as error:
                _log.warning("subscription %s: %s", settings.subscription, error)
            except TurnaboutError as error:
                _log.warning("subscription %s: %s", settings.subscription, error)
                return

    def extend(self) -> bool:
        """One beat: extend what is not acknowledged; False if another reader has the subscription
        by now, as the next call will say.
        """
        driver = self._driver
        if driver.generation is None or driver.newest <= driver.acked:
            return True
        answer = self._access.run(
            EpochExtend(
                self._access.stored(self._settings.subscription),
                driver.generation,
                self._settings.lease_ms,
            )
        )
        return not isinstance(answer, Superseded)

    def maintain(self) -> None:
        """A share of housekeeping for each queue."""
        for queue in self._driver.queues:
            with suppress(QueueNotFound):
                self._access.run(Maintain(queue))


def _times(count: int) -> str:
    return "once" if count == 1 else f"{count} times"


def _verdict(answer: Planned) -> str:
    """Text for the log: the consequence of a failed epoch."""
    if answer.suspect is None:
        return f"; {answer.returned} messages went back to be tried apart"
    alone = f" with 1 message; message {answer.suspect} is "
    if answer.dead:
        return alone + "dead: it failed alone twice while others got through"
    alone += "set aside"
    if answer.failures == 1:
        return alone
    return f"{alone}; nothing else got through: waiting {answer.wait_ms // 1000} s"


def owner() -> str:
    """The reader's name, for people: this machine and process."""
    return f"{socket.gethostname()} pid {os.getpid()}"


def spread(parts: Sequence[Part], tasks: int) -> list[list[Part]]:
    """Parts, put together for at most `tasks` tasks: the largest first, each to the task that has
    the least.
    """
    by_number = attrgetter("part")
    piles: list[list[Part]] = [[] for _ in range(min(tasks, len(parts)))]
    sizes = [0] * len(piles)
    for part in sorted(parts, key=lambda part: -part.messages):
        least = sizes.index(min(sizes))
        piles[least].append(part)
        sizes[least] += part.messages
    # In the order of parts, so that a sink with one task gets each queue's in order.
    return sorted(
        [sorted(pile, key=by_number) for pile in piles], key=lambda pile: by_number(pile[0])
    )
