"""The `doctor` of pipelines: `doctor.sql`, and verbs that only read."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import closing

from turnabout._connect import counts_of, database
from turnabout.cli import _show
from turnabout.pipeline import verbs as p
from turnabout.pipeline.slice import SLICE
from turnabout.store import Store
from turnabout.words.errors import TurnaboutError
from turnabout.words.findings import Finding, Question, fail, ok, warn
from turnabout.words.verbs import QueueList

UNSEEN_MS = 600_000
"""A reader shows itself every third of its `leaseSeconds`, 300 unless told otherwise."""

QUESTIONS: Mapping[str, Question] = {
    "staged": Question(
        "nothing is left of failed writes of pipelines",
        "messages were staged by a pipeline more than a day ago, and never published",
        "the next batch of any sink removes them; nobody has sent them, so nothing is lost",
    )
}


def checks(url: str) -> Iterator[Finding]:
    """Collect findings about staged messages, subscriptions and archives."""
    yield from counts_of(url, SLICE, QUESTIONS)
    try:
        with closing(database(url)) as store:
            yield from _subscriptions(store.run(p.SubscriptionList()))
            yield from _archives(store, store.run(p.WatermarkList()))
    except TurnaboutError as error:
        yield fail("pipelines", str(error), "see what it says, then run doctor again")


def _subscriptions(found: tuple[p.Subscription, ...]) -> Iterator[Finding]:
    now = time.time_ns() // 1_000_000
    lost = [one for one in found if one.messages and now - one.seen_at > UNSEEN_MS]
    for one in lost:
        yield warn(
            "subscriptions",
            f"{one.name}: its reader ({one.owner or 'none'}) was not seen for "
            f"{_show.milliseconds(now - one.seen_at)}, and "
            f"{_show.plural(one.messages, 'message')} are leased for it",
            f"start its query again, or give them back: turnabout pipeline release {one.name}",
        )
    if not lost:
        text = "none" if not found else f"{_show.plural(len(found), 'subscription')} looked after"
        yield ok("subscriptions", text)


def _archives(store: Store, found: tuple[p.Watermark, ...]) -> Iterator[Finding]:
    """Whether each archive reads the log before it is swept."""
    if not found:
        yield ok("archives", "none")
        return
    queues = [(queue.settings.history_seconds, queue.name) for queue in store.run(QueueList())]
    kept = [(seconds, name) for seconds, name in queues if seconds]
    shortest, queue = min(kept, default=(None, ""))
    bad = False
    for one in found:
        for check in _archive(store, one, shortest, queue):
            bad = True
            yield check
    if not bad:
        yield ok("archives", f"{_show.plural(len(found), 'archive')} in time")


def _archive(store: Store, one: p.Watermark, kept: float | None, queue: str) -> Iterator[Finding]:
    answer = store.run(p.LogNext(one.position, 1))
    behind = f"{_show.plural(one.lag, 'row')} and {_show.milliseconds(one.lag_ms)} behind"
    if isinstance(answer, p.LogLost):
        yield warn(
            "archives",
            f"{one.archive}: history was removed before it was archived",
            "keep it for longer (`turnabout queue update --history …`) or archive more often; how "
            "to go on: docs/how-to/archive.md; if nobody wants it any more: "
            f"turnabout pipeline forget {one.archive}",
        )
    elif isinstance(answer, p.LogAhead):
        yield warn(
            "archives",
            f"{one.archive}: it is ahead of this database, as after a backup was restored",
            "see docs/how-to/archive.md: begin a new archive, under another name",
        )
    elif kept is not None and one.lag_ms * 2 > kept * 1000:
        yield warn(
            "archives",
            f"{one.archive} is {behind}, and {queue} keeps history for "
            f"{_show.duration(kept)} only: what is swept first is never archived",
            "run `turnabout pipeline run archive` more often, or keep history for longer: "
            f"`turnabout queue update {queue} --history …`",
        )
