"""The values of each page, read by the verbs that everybody has, with the session's rights."""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from itertools import pairwise
from operator import itemgetter
from typing import Any, TypeVar

from starlette.requests import Request

from turnabout._async.queue import AsyncQueue
from turnabout._async.schedules import AsyncSchedules
from turnabout._async.shared import Shared
from turnabout.cli._check import Check
from turnabout.cli.doctor import checks_of
from turnabout.dashboard.samples import (
    CHANNELS_SHOWN,
    SLOW_SECONDS,
    STEP_MS,
    Sampler,
    ratios_of,
    samples_of,
)
from turnabout.dashboard.verbs import Sample
from turnabout.server.auth.authorized_store import AuthorizedStore
from turnabout.server.context import ServerContext
from turnabout.server.verbs import NamespaceList, TokenList
from turnabout.words import verbs as v
from turnabout.words.entities import AttemptError, Origin, Peeked, QueueStats
from turnabout.words.errors import Forbidden, QueueNotFound, TurnaboutError, UsageError
from turnabout.words.limits import DEAD_SUFFIX
from turnabout.words.namespaces import stored
from turnabout.words.policy import DEDUP_MODES, EVENT_LEVELS, NO_POLICY, ON_EXHAUSTED
from turnabout.words.records import OUTCOMES, Ending, HistoryEntry

PAGE = CHANNELS_SHOWN
LOOKED_AT = 1_000
"""Dead letters that are looked through to group them by their errors."""
ORDERS = {"oldest": "oldest_ready_ms", "ready": "ready", "leased": "leased", "sent": "sent"}
"""Orders of queues, the most first, by what of their stats; others are `dead` and `name`."""
RANGES = {"2h": 60_000, "2d": 600_000, "30d": 3_600_000}
"""Times that the charts show, and the distance of their samples."""
HEALTH_SECONDS = 60.0
STRIP = 60
"""Samples in the strip of a channel."""
CHOICES: Mapping[str, Sequence[str]] = {
    "dedup_mode": DEDUP_MODES,
    "dedup_scope": ("queue", "channel"),
    "events": EVENT_LEVELS,
    "on_exhausted": ON_EXHAUSTED,
}

KEPT_MAX = 100
OLD_SECONDS = 60.0
"""A slow answer may be shown for that long after its time is over."""

A = TypeVar("A")
Page = dict[str, Any]
Key = tuple[str | int, ...]
Look = Callable[[], Awaitable[A]]


class Views:
    """The values of each page's template; `name of the template -> coroutine`."""

    def __init__(self, context: ServerContext) -> None:
        self._context = context
        self.sampler = Sampler(context.store)
        self._checking = asyncio.Lock()
        self._checked: tuple[float, tuple[Check, ...]] = (0.0, ())
        self._known: dict[Key, tuple[float, bool, Any]] = {}
        """Answers of a moment ago, until when they are shown, and whether they took long."""
        self._looking: set[asyncio.Task[Any]] = set()
        self._acts = 0

    async def queues(self, caller: AuthorizedStore, request: Request) -> Page:
        """All queues, each with its dead letters; sorted, found and paged here."""
        query = request.query_params
        sort, find = query.get("sort", "oldest"), query.get("find", "").lower()
        counted = await self._kept(caller, ("queues",), lambda: caller.whole(v.Stats()))
        known = {one.queue: one for one in counted}
        rows = [
            (one, known.get(one.queue + DEAD_SUFFIX))
            for one in known.values()
            if find in one.queue.lower()
            and not (one.queue.endswith(DEAD_SUFFIX) and one.queue[: -len(DEAD_SUFFIX)] in known)
        ]

        def place(row: tuple[QueueStats, QueueStats | None]) -> tuple[int, str]:
            one, letters = row
            if sort == "dead":
                return -(letters.ready if letters else 0), one.queue
            most: int | None = getattr(one, ORDERS[sort]) if sort in ORDERS else None
            return (0 if most is None else -1 - most), one.queue

        rows.sort(key=place)
        start = _number(query.get("start"), 0)
        return {
            "rows": rows[start : start + PAGE], "found": len(rows), "start": start, "page": PAGE,
            "sort": sort, "find": query.get("find", ""),
        }  # fmt: skip

    async def _kept(
        self, caller: AuthorizedStore, key: Key, look: Look[A], at_first: A | None = None
    ) -> A:
        """An answer of a moment ago, kept for twenty times as long as it took, as counting costs
        something where there is much; until something is done here. One that takes long is shown
        once more while it is asked for anew; `at_first`, where nobody has asked yet.
        """
        whose = (caller.namespace, caller.token.id if caller.token else "", *key)
        now = time.monotonic()
        first = (now, at_first is not None, at_first)
        until, is_slow, found = self._known.get(whose, first)
        if now < until:
            return found
        if found is not None and is_slow and now < until + OLD_SECONDS:
            self._known[whose] = (now + OLD_SECONDS, False, found)
            task = asyncio.create_task(self._look_later(whose, look))
            self._looking.add(task)
            task.add_done_callback(self._looking.discard)
            return found
        return await self._look(whose, look)

    async def _look_later(self, whose: Key, look: Look[Any]) -> None:
        with suppress(TurnaboutError):  # the next page will say it
            await self._look(whose, look)

    async def _look(self, whose: Key, look: Look[A]) -> A:
        began, acts = time.monotonic(), self._acts
        found = await look()
        took = time.monotonic() - began
        if len(self._known) > KEPT_MAX:
            self._known.clear()
        if acts == self._acts:  # else it may be from before the last one
            until = time.monotonic() + min(60.0, 20 * took)
            self._known[whose] = (until, took > SLOW_SECONDS, found)
        return found

    def forget(self) -> None:
        """Look at everything anew: something was done."""
        self._known.clear()
        self.sampler.slow.clear()
        self._acts += 1

    async def queue(self, caller: AuthorizedStore, request: Request) -> Page:
        """Fairness: each channel's share of the service, the worst off first."""
        handle, query = queue_of(caller, request), request.query_params
        sort: Any = query.get("sort", "fairness")
        find, start = query.get("find", ""), _number(query.get("start"), 0)
        name, key = stored(handle.name, caller.namespace), (handle.name, sort, find, start)
        is_sampled = key[1:] == ("fairness", "", 0) and caller.rights.allows(v.Fairness, key[0])
        shares = await self._kept(
            caller,
            key,
            lambda: handle.fairness(PAGE, sort=sort, find=find or None, offset=start),
            self.sampler.slow.get(name) if is_sampled else None,
        )
        policies = [NO_POLICY] * len(shares.channels)
        if caller.rights.allows(v.PolicyGet, handle.name):
            asking = [v.PolicyGet(handle.name, one.channel) for one in shares.channels]
            policies = await caller.run_transaction(asking) if asking else []
        step = RANGES.get(query.get("range", ""), STEP_MS)
        self.sampler.watch(name)
        samples = await samples_of(self._context.store, name, step, round(time.time() * 1000))
        return {
            **await _head(caller, handle), "shares": shares, "sort": sort, "find": find,
            "charts": charts_of(samples), "ranges": RANGES, "step": step,
            "strips": ratios_of(samples[-STRIP:]),
            "rows": list(zip(shares.channels, policies, strict=True)), "start": start, "page": PAGE,
        }  # fmt: skip

    async def messages(self, caller: AuthorizedStore, request: Request) -> Page:
        """Unfinished messages, or the history, of one state and channel."""
        handle, query = queue_of(caller, request), request.query_params
        state, channel = query.get("state", ""), query.get("channel")
        error, cursor = query.get("error", ""), query.get("after", "")
        page: Page = {"state": state, "channel": channel, "error": error, "rows": [], "ended": []}
        page["with_channel"] = "channel" in query and query["channel"] != ""
        only = channel or None
        if state in OUTCOMES or state == "ended":
            outcome: Any = None if state == "ended" else state
            found = await handle.history(
                PAGE, outcome=outcome, channel=only, error=error or None, cursor=cursor or None
            )
            page |= {"ended": found.entries, "after": found.cursor}
        else:
            only_state: Any = state or None
            some = await handle.peek(
                PAGE, state=only_state, channel=only, after_id=_number(cursor, 0)
            )
            page |= {"rows": some, "after": some[-1].id if len(some) == PAGE else None}
        return {**await _head(caller, handle), **page, "outcomes": OUTCOMES}

    async def message(self, caller: AuthorizedStore, request: Request) -> Page:
        """One message: what it is, each failed attempt, and what has happened to it."""
        handle = queue_of(caller, request)
        id_ = _number(request.path_params["id"], 0)
        some = await handle.peek(1, after_id=id_ - 1) if id_ > 0 else ()
        peeked = next((one for one in some if one.id == id_), None)
        (ending,) = await handle.endings([id_]) if id_ > 0 else (None,)
        entry = None if peeked or ending is None else await _entry_of(handle, ending)
        is_here = peeked or entry or (ending and ending.outcome != "unknown")
        if not is_here:
            raise UsageError(f"message {id_} is not in {handle.name}, or not any more")
        head = await _head(caller, handle)
        letter: Peeked | None = None
        dead = head["entry"].dead_letter
        if entry is not None and entry.outcome == "dead" and dead is not None:
            try:
                found = await AsyncQueue(Shared(caller), dead).peek(1, after_id=id_ - 1)
                letter = next((one for one in found if one.id == id_), None)
            except (QueueNotFound, Forbidden):
                letter = None
        unfinished = peeked or letter
        errors = unfinished.errors if unfinished else ()
        origin = unfinished.origin if unfinished else None
        is_letter = letter is None and origin is not None and origin.queue != handle.name
        errors = (*(origin.errors if origin else ()), *errors)
        return {
            **head, "id": id_, "moments": moments_of(peeked or entry, origin, errors),
            "message": peeked or entry, "peeked": peeked, "entry": entry,
            "ending": ending, "letter": letter, "origin": origin,
            "letters": handle.name if is_letter else dead if letter else None,
            "trace_of": self._trace_of, "errors": errors,
        }  # fmt: skip

    def _trace_of(self, headers: Mapping[str, str]) -> str | None:
        """The link of a message's trace, by its `traceparent` (W3C Trace Context)."""
        url, parts = self._context.options.trace_url, headers.get("traceparent", "").split("-")
        is_one = len(parts) > 2 and re.fullmatch("[0-9a-f]{32}", parts[1])
        return url.replace("{trace_id}", parts[1]) if url and is_one else None

    async def dead(self, caller: AuthorizedStore, request: Request) -> Page:
        """Dead letters by error; what a redrive would take, and redrives under way."""
        handle, query = queue_of(caller, request), request.query_params
        head = await _head(caller, handle)
        name = head["entry"].dead_letter or handle.name
        letters = AsyncQueue(Shared(caller), name)
        error, channel = query.get("error", ""), query.get("channel", "")
        page: Page = {"letters": name, "error": error, "channel": channel, "rows": [], "groups": {}}
        page |= {"would": None, "redrives": (), "count": 0}
        try:
            some = await letters.peek(LOOKED_AT)
            page["count"] = (await letters.stats()).ready
        except QueueNotFound:
            return {**head, **page}
        groups: dict[str, int] = {}
        for one in some:
            text = _last_line(one.origin.last_error if one.origin else None)
            groups[text] = groups.get(text, 0) + 1
            matches = error in ((one.origin and one.origin.last_error) or "")
            if matches and channel in ("", one.channel) and len(page["rows"]) < PAGE:
                page["rows"].append(one)
        page["groups"] = dict(sorted(groups.items(), key=lambda one: -one[1])[:20])
        page["looked_at"] = len(some)
        if caller.rights.allows(v.RedriveList, name):
            page["redrives"] = await caller.run(v.RedriveList(name, limit=10))
        if query.get("count") and caller.rights.allows(v.RedriveStart, name):
            page["would"] = await letters.redrive_start(
                error=error or None, channel=channel or None, dry_run=True
            )
        return {**head, **page}

    async def workers(self, caller: AuthorizedStore, request: Request) -> Page:
        """Workers and what they say of themselves; leased messages, and who holds them."""
        handle = queue_of(caller, request)
        some = await handle.peek(PAGE, state="leased")
        workers = await handle.workers()
        now = round(time.time() * 1000)
        held = {one.id: worker.worker for worker in workers for one in worker.state.messages}
        page = {"rows": some, "workers": workers[:PAGE], "found": len(workers)}
        return {**await _head(caller, handle), **page, "held": held, "now": now}

    async def settings(self, caller: AuthorizedStore, request: Request) -> Page:
        """The queue's settings, as a form."""
        head = await _head(caller, queue_of(caller, request))
        return {**head, "settings": settings_rows(head["entry"].settings), "choices": CHOICES}

    async def schedules(self, caller: AuthorizedStore, request: Request) -> Page:
        """Schedules, with their last and next runs."""
        entries = await AsyncSchedules(Shared(caller)).list()
        start = _number(request.query_params.get("start"), 0)
        return {
            "rows": entries[start : start + PAGE], "found": len(entries), "start": start,
            "page": PAGE,
        }  # fmt: skip

    async def access(self, caller: AuthorizedStore, request: Request) -> Page:
        """Namespaces with their quotas and use, and tokens; for operators."""
        store = self._context.store
        namespaces = await store.run(NamespaceList())
        start = _number(request.query_params.get("start"), 0)
        rows = [
            (one, await store.run(v.Stats(namespace=one.name)))
            for one in namespaces[start : start + PAGE]
        ]
        tokens = await store.run(TokenList())
        return {
            "rows": rows, "found": len(namespaces), "start": start, "page": PAGE, "tokens": tokens,
        }  # fmt: skip

    async def health(self, caller: AuthorizedStore, request: Request) -> Page:
        """Doctor's findings; for operators, and looked at again after a minute."""
        url = self._context.url
        async with self._checking:
            until, checks = self._checked
            if url is not None and until < time.monotonic():
                checks = await asyncio.to_thread(lambda: tuple(checks_of(url)))
                self._checked = (time.monotonic() + HEALTH_SECONDS, checks)
        return {"checks": checks, "known": url is not None}


def charts_of(samples: Sequence[Sample]) -> Sequence[tuple[str, list[int], dict[str, list[float]]]]:
    """Charts of a queue: a title, times, and lines by their names. None before there are three
    samples: a rate takes two of them, and a line takes two rates.
    """
    pairs = [(a, b) for a, b in pairwise(samples) if b.sent >= a.sent and b.done >= a.done]
    if len(pairs) < 2:
        return ()
    times = [b.at for _, b in pairs]

    def rate(name: str) -> list[float]:
        return [1000 * (getattr(b, name) - getattr(a, name)) / (b.at - a.at) for a, b in pairs]

    return (
        ("messages a second", times, {"sent": rate("sent"), "done": rate("done")}),
        ("ready", times, {"ready": [float(b.ready) for _, b in pairs]}),
        ("oldest ready, seconds", times, {"age": [(b.oldest_ms or 0) / 1000 for _, b in pairs]}),
    )


def moments_of(
    message: Peeked | HistoryEntry | None, origin: Origin | None, errors: Sequence[AttemptError]
) -> Sequence[tuple[int, str]]:
    """Moments of a message, as far as they were kept: times in their order, and words."""
    found = [(message.sent_at, "sent")] if message else []
    for one in errors:
        by = f" by {one.worker}" if one.worker else ""
        if one.leased_at is not None:
            found.append((one.leased_at, f"attempt {one.attempt} began{by}"))
        found.append((one.at, f"attempt {one.attempt} failed{by}"))
    if origin is not None:
        found.append((origin.died_at, f"died in {origin.queue}"))
    if isinstance(message, HistoryEntry):
        if message.leased_at is not None and message.outcome == "done":
            found.append((message.leased_at, f"attempt {message.attempt} began"))
        if message.outcome != "dead" or origin is None:
            found.append((message.finished_at, message.outcome))
    elif message is not None and message.leased_at is not None:
        found.append((message.leased_at, f"attempt {message.attempt} began, and goes on"))
    return sorted(found, key=itemgetter(0))


def queue_of(caller: AuthorizedStore, request: Request) -> AsyncQueue:
    """The queue that the path names. Raises: UsageError."""
    return AsyncQueue(Shared(caller), request.path_params["queue"])


def settings_rows(settings: Any) -> dict[str, Any]:
    """The settings by their names, without the policy's parts, which are shown apart."""
    return {name: getattr(settings, name) for name in settings.__struct_fields__}


async def _head(caller: AuthorizedStore, handle: AsyncQueue) -> Page:
    """The values at the top of all pages of a queue."""
    stats, entry = await handle.stats(), await caller.run(v.QueueGet(handle.name))
    return {"queue": handle.name, "stats": stats, "entry": entry}


async def _entry_of(handle: AsyncQueue, ending: Ending) -> HistoryEntry | None:
    """The history's entry of a message: by the millisecond in which it ended."""
    if (at := ending.finished_at) is None:
        return None
    async for entry in handle.history_entries(finished_from=at, finished_until=at + 1):
        if entry.id == ending.id:
            return entry
    return None


def _last_line(text: str | None) -> str:
    """The line of an error that names it: a traceback's last one."""
    lines = [line for line in (text or "").splitlines() if line.strip()]
    return lines[-1][:200] if lines else "(no error text: its lease ran out)"


def _number(text: str | None, default: int) -> int:
    """A number of a query; anything else is the default."""
    return int(text) if text and text.isascii() and text.isdecimal() and len(text) < 19 else default
