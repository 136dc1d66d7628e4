"""Verbs that change nothing: peek, stats, settings, policies."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable
from typing import Any

from turnabout.sqlite._connection import Connection
from turnabout.sqlite._statements import statements
from turnabout.sqlite.procedures import _channel, _queue, _queue_limits
from turnabout.sqlite.procedures._channel_limits import ChannelLimits
from turnabout.sqlite.procedures._queue import Queue
from turnabout.sqlite.procedures._rows import in_room, value_of
from turnabout.words.entities import (
    NO_HEADERS,
    BlockedBy,
    ChannelPolicy,
    ChannelStats,
    Peeked,
    QueueEntry,
    QueueStats,
    State,
    errors_of,
    note_of,
    origin_of,
)
from turnabout.words.errors import QueueNotFound
from turnabout.words.fairness import ChannelShare, FairShares
from turnabout.words.limits import FOREVER_MS
from turnabout.words.policy import NO_POLICY, Policy
from turnabout.words.verbs import (
    Fairness,
    Peek,
    PolicyGet,
    PolicyList,
    QueueGet,
    QueueList,
    Stats,
    StatsOfChannels,
)

_CHANNELS = statements("stats_of_channels")
_FAIRNESS = statements("fairness")
_LEASED = 2
_OF_QUEUE: dict[str | None, BlockedBy | None] = {
    "concurrency": "queue_concurrency",
    "rate": "queue_rate",
}


def peek(connection: Connection, verb: Peek, now: int) -> tuple[Peeked, ...]:
    """Messages as they are, by id."""
    queue = _queue.need(connection, verb.queue)
    parameters: dict[str, Any] = {"channel": verb.channel, "state": verb.state, "now": now}
    parameters |= {"queue": queue["id"], "after": verb.after_id, "most": verb.limit}
    texts, rows = statements("peek"), list[sqlite3.Row]()  # commonly they stand close together
    for text in (texts["near"], texts.get(verb.state or "", texts["all"])):
        rows = in_room(connection.execute(text, parameters), verb.room_bytes, "payload", "state")
        taken = sum(len(row["payload"]) + len(row["state"] or b"") for row in rows)
        if len(rows) == verb.limit or (verb.room_bytes is not None and taken >= verb.room_bytes):
            break
    return tuple(_peeked(row, now) for row in rows)


def stats(connection: Connection, verb: Stats, now: int) -> tuple[QueueStats, ...]:
    """Counts of one queue, of all, or of a namespace's."""
    step = "count" if verb.namespace is None else "of_namespace"
    parameters = {
        "queue": verb.queue,
        "namespace": verb.namespace,
        "after": verb.after,
        "most": verb.limit,
        "now": now,
    }
    found = connection.execute(statements("stats")[step], parameters).fetchall()
    if verb.queue is not None and not found:
        raise QueueNotFound(verb.queue)
    return tuple(_queue_stats(row, now) for row in found)


def stats_of_channels(
    connection: Connection, verb: StatsOfChannels, now: int
) -> tuple[ChannelStats, ...]:
    """Counts of the fullest channels, and what blocks them."""
    queue = _queue.need(connection, verb.queue)
    parameters = {"queue": queue["id"], "mixed": queue["mixed"], "now": now, "most": verb.limit}
    counts = connection.execute(_CHANNELS["count"], parameters).fetchall()
    oldest = [row["oldest"] for row in counts if row["oldest"] is not None]
    sent_at = {at: at for at in oldest}
    if not queue["mixed"]:
        sent_at = dict(connection.execute(_CHANNELS["sent_at"], (json.dumps(oldest),)).fetchall())
    blocked = _blockages(connection, queue, counts, now)
    return tuple(
        ChannelStats(
            row["channel"],
            row["scheduled"],
            row["ready"],
            row["leased"],
            None if row["oldest"] is None else max(0, now - sent_at[row["oldest"]]),
            blocked(row),
            row["ran_out"],
        )
        for row in counts
    )


def fairness(connection: Connection, verb: Fairness, now: int) -> FairShares:
    """Channels' parts of the service, beside their fair shares."""
    queue = _queue.need(connection, verb.queue)
    parameters: dict[str, Any] = {
        "queue": queue["id"],
        "now": now,
        "keeps": queue["history_ms"] > 0,
        "sort": verb.sort,
        "find": verb.find,
        "offset": verb.offset,
        "limit": verb.limit,
    }
    newest = connection.execute(_FAIRNESS["from"], parameters).fetchone()
    parameters["from"] = max(now - verb.window_ms, 0 if newest is None else newest["finished_at"])
    parameters["slice"] = max(1, (now - parameters["from"]) // 30)
    sums, *rows = connection.execute(_FAIRNESS["shares"], parameters).fetchall()
    blocked = _blockages(connection, queue, rows, now)
    return FairShares(
        tuple(
            value_of(
                ChannelShare,
                row,
                oldest_ready_ms=row["waits_ms"],
                blocked=blocked(row),
                starved=bool(row["starved"]),
            )
            for row in rows
        ),
        sums["channels"] or 0,
        sums["ready"] or 0,
        sums["leased"] or 0,
        sums["waiting"] or 0,
        sums["held"] or 0,
        sums["starved"] or 0,
        sums["waits_ms"],
        sums["served"] or 0,
        sums["busy_ms"] or 0,
        now - parameters["from"],
        by_leases=not parameters["keeps"],
    )


def queue_get(connection: Connection, verb: QueueGet, _now: int) -> QueueEntry:
    """One queue with its settings."""
    return queue_entry(connection, verb.queue)


def queue_list(connection: Connection, verb: QueueList, _now: int) -> tuple[QueueEntry, ...]:
    """List all queues with their settings, or a namespace's, by name."""
    step = "entries" if verb.namespace is None else "of_namespace"
    found = connection.execute(
        statements("queue_list")[step],
        {"namespace": verb.namespace, "after": verb.after, "most": verb.limit},
    )
    return tuple(_queue.entry(row) for row in found)


def policy_get(connection: Connection, verb: PolicyGet, _now: int) -> Policy:
    """The channel's own policy."""
    queue = _queue.need(connection, verb.queue)
    parameters = {"queue": queue["id"], "channel": verb.channel}
    row = connection.execute(statements("policy_get")["policy"], parameters).fetchone()
    return NO_POLICY if row is None else _channel.policy(row)


def policy_list(connection: Connection, verb: PolicyList, _now: int) -> tuple[ChannelPolicy, ...]:
    """Channels with a policy of their own, by name."""
    queue = _queue.need(connection, verb.queue)
    parameters = {"queue": queue["id"], "after": verb.after, "most": verb.limit}
    found = connection.execute(statements("policy_list")["policies"], parameters)
    return tuple(ChannelPolicy(row["name"], _channel.policy(row)) for row in found)


def queue_entry(connection: Connection, name: str) -> QueueEntry:
    """A queue with its settings, or QueueNotFound."""
    row = connection.execute(statements("queue_get")["entry"], {"name": name}).fetchone()
    if row is None:
        raise QueueNotFound(name)
    return _queue.entry(row)


def _peeked(row: sqlite3.Row, now: int) -> Peeked:
    state: State = "ready"
    if row["status"] == _LEASED:
        state = "leased"
    elif row["at"] > now:
        state = "scheduled"
    return value_of(
        Peeked,
        row,
        state=state,
        due_at=row["sent_at"] if state == "ready" else row["at"],
        headers=NO_HEADERS if row["headers"] is None else json.loads(row["headers"]),
        saved_state=row["state"],
        error=row["last_error"],
        origin=origin_of(row["origin"]),
        errors=errors_of(json.loads(row["errors"] or "[]")),
        note=note_of(row["note"]),
        leased_at=row["leased_at"] if state == "leased" else None,
        cancel_requested=bool(row["cancel_requested"]),
        ran_out=state == "leased" and row["at"] <= now,
    )


def _queue_stats(row: sqlite3.Row, now: int) -> QueueStats:
    return value_of(
        QueueStats,
        row,
        queue=row["name"],
        ready=_queue.unfinished(row) - row["scheduled"] - row["leased"],
        cancelled=row["cancelled"] - row["expired"],
        oldest_ready_ms=None if row["oldest"] is None else max(0, now - row["oldest"]),
        paused=bool(row["paused"]),
    )


def _blockages(
    connection: Connection, queue: Queue, counts: list[sqlite3.Row], now: int
) -> Callable[[sqlite3.Row], BlockedBy | None]:
    """A function that names the limit that holds a channel with these counts back."""
    limited = _channel.rows(connection, queue["id"], (row["channel"] for row in counts))
    own = _queue_limits.of(connection, queue, now)
    of_queue = own and _OF_QUEUE.get(own.blocks())
    return lambda row: _blocked(connection, queue, limited.get(row["channel"]), row, now, of_queue)


def _blocked(  # noqa: PLR0917 - what there is to know of a channel
    connection: Connection,
    queue: Queue,
    channel: sqlite3.Row | None,
    counts: sqlite3.Row,
    now: int,
    of_queue: BlockedBy | None,
) -> BlockedBy | None:
    """The reason why ready messages wait: a limit, or a message that waits for a person."""
    head = None
    if channel is not None and queue["fifo"]:
        parameters = {"queue": queue["id"], "channel": channel["name"]}
        head = connection.execute(_CHANNELS["first"], parameters).fetchone()
    if head is not None and head["at"] == FOREVER_MS:
        return "exhausted"
    if not counts["ready"]:
        return None
    if queue["paused"]:
        return "paused"
    if channel is None:
        return of_queue
    limit = ChannelLimits(channel, queue, now).blocks()
    if not queue["fifo"]:
        return limit or of_queue
    held = head is not None and head["at"] > now
    return "fifo" if limit == "concurrency" or (limit is None and held) else limit or of_queue
