"""Samples of a server's queues over time, for the charts: cheap, and bounded.

Once a minute all queues are counted, and those that have changed or have something are kept, the
thousand with the most. The eight with the most ready messages, and those whose pages were open a
moment ago, are also asked for fairness. If that takes long it is done less often: at most a
hundredth of the time. Where several processes do it, one sample of each time is kept.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress

import msgspec

from turnabout.dashboard.verbs import KEPT_MS, Sample, SamplesKeep, SamplesList
from turnabout.store import AsyncStore
from turnabout.words import verbs as v
from turnabout.words.entities import QueueStats
from turnabout.words.errors import QueueNotFound, TurnaboutError
from turnabout.words.fairness import FairShares

STEP_MS = min(KEPT_MS)
QUEUES_MAX, SHARES_MAX, CHANNELS_MAX = 1_000, 8, 32
CHANNELS_SHOWN = 50
PAGE = 1_000
REST = 99
"""A look is followed by a pause that is this many times as long."""
WATCHED_SECONDS = 600.0
SLOW_SECONDS = 0.2
"""Fairness that takes longer is shown as it was a minute ago, where nobody has asked since."""


class Sampler:
    """Takes the samples of one server, in the background."""

    def __init__(self, store: AsyncStore) -> None:
        self._store = store
        self._last: dict[int, tuple[int, dict[str, tuple[int, ...]]]] = {}
        """The last sample of each distance: its time, and the figures of the queues then."""
        self._watched: dict[str, float] = {}
        self.slow: dict[str, FairShares] = {}
        """The last fairness of queues (their names in the store) for which it takes long."""

    def watch(self, queue: str) -> None:
        """Note that somebody looks at a queue's page (its name in the store)."""
        if len(self._watched) < QUEUES_MAX:
            self._watched[queue] = time.monotonic() + WATCHED_SECONDS

    async def run(self) -> None:
        """Take a sample each minute, or less often, until the server ends."""
        while True:
            now = time.time()
            await asyncio.sleep(STEP_MS / 1000 - now % (STEP_MS / 1000))
            began = time.monotonic()
            with suppress(TurnaboutError):  # the next time will do
                await self.take(round(time.time() * 1000))
            took = time.monotonic() - began
            if took * REST > STEP_MS / 1000:
                await asyncio.sleep(took * REST - STEP_MS / 1000)

    async def take(self, now: int) -> None:
        """Take one sample of each queue that has something to tell. Raises: as `AsyncStore.run`."""
        known = sorted(await self._stats(), key=lambda one: -one.ready)
        self._watched = {q: t for q, t in self._watched.items() if t > time.monotonic()}
        queues = {one.queue for one in known[:SHARES_MAX] if one.ready} | {*self._watched}
        self.slow = {queue: found for queue, found in self.slow.items() if queue in queues}
        shares = {queue: await self._shares(queue) for queue in sorted(queues)}
        samples: list[Sample] = []
        for step in KEPT_MS:
            at, (last, figures) = now - now % step, self._last.get(step, (0, {}))
            if at > last:
                changed = [one for one in known if self._changed(one, figures)][:QUEUES_MAX]
                self._last[step] = at, {one.queue: _figures(one) for one in known}
                samples += [
                    Sample(
                        one.queue, step, at, one.ready, one.leased, one.oldest_ready_ms, one.sent,
                        one.done, one.dead, shares.get(one.queue),
                    )
                    for one in changed
                ]  # fmt: skip
        await self._store.run(SamplesKeep(tuple(samples)))

    async def _stats(self) -> Sequence[QueueStats]:
        found: list[QueueStats] = []
        while page := await self._store.run(
            v.Stats(after=found[-1].queue if found else None, limit=PAGE)
        ):
            found += page
        return found

    def _changed(self, one: QueueStats, figures: Mapping[str, tuple[int, ...]]) -> bool:
        is_watched = one.queue in self._watched
        has_something = one.ready or one.leased
        return bool(is_watched or has_something or figures.get(one.queue) != _figures(one))

    async def _shares(self, queue: str) -> str | None:
        began = time.monotonic()
        try:
            shares = await self._store.run(v.Fairness(queue, limit=CHANNELS_SHOWN))
        except QueueNotFound:
            return None
        if time.monotonic() - began > SLOW_SECONDS:
            self.slow[queue] = shares
        else:
            self.slow.pop(queue, None)
        some = shares.channels[:CHANNELS_MAX]
        worst = {one.channel: [one.got, one.fair] for one in some if one.fair}
        return msgspec.json.encode(worst).decode() if worst else None


async def samples_of(store: AsyncStore, queue: str, step_ms: int, now: int) -> tuple[Sample, ...]:
    """The samples of a queue, those of one distance that are kept. Raises: as `AsyncStore.run`."""
    return await store.run(SamplesList(queue, step_ms, now - KEPT_MS[step_ms]))


def ratios_of(samples: Iterable[Sample]) -> dict[str, list[float | None]]:
    """Each channel's share got to fair share at each time; None where it was not measured."""
    shares = [_shares_in(one) for one in samples]
    return {
        name: [one[name][0] / one[name][1] if name in one else None for one in shares]
        for name in {name for one in shares for name in one}
    }


def _shares_in(sample: Sample) -> dict[str, list[float]]:
    if sample.shares is None:
        return {}
    return msgspec.json.decode(sample.shares, type=dict[str, list[float]])


def _figures(one: QueueStats) -> tuple[int, ...]:
    return one.sent, one.done, one.dead, one.scheduled
