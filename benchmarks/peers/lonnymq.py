"""LonnyMQ, by its SQL functions: a queue with channels, one message a call. Its library prints them
(`queue.install()`, for the schema `lonnymq`); a file of them is named (`--lonnymq lonnymq.sql`).
"""

from __future__ import annotations

import itertools
import json
import os
from collections.abc import Sequence
from typing import Any

from benchmarks.on_postgres import PostgresBase, Wire
from benchmarks.peers.peer import FilePeer, PeerJob, Shape

LEASE_MS = 30_000
CHANNELS = 10_000
"""Where a case says nothing of channels: all of one channel's messages share a lock."""
NO_CHANNELS = """
truncate lonnymq.message, lonnymq.channel restart identity;
insert into lonnymq.channel (
    name, released, max_concurrency, max_size, release_interval_ms, current_size,
    current_concurrency, dequeue_prev_at
)
select 'tenant-' || i, false, 2147483647, 2147483647, 0, 0, 0, lonnymq.epoch() - 1000000
from generate_series(0, {channels} - 1) i
"""
MESSAGES = """
insert into lonnymq.message (channel_id, content, num_attempts, dequeue_at)
select i % {channels} + 1, repeat('x', {size})::bytea, 0, lonnymq.epoch() - 1000000 + i / 10
from generate_series(1, {count}) i;
update lonnymq.channel c
set current_size = m.waiting, message_id = m.id, message_dequeue_at = m.at, dequeue_next_at = m.at
from (
    select channel_id, count(*) as waiting, min(id) as id, min(dequeue_at) as at
    from lonnymq.message group by channel_id
) m
where m.channel_id = c.id
"""


class Client(Wire):
    """Its functions, called as raw calls its statements: prepared, binary."""

    def __init__(self, job: PeerJob) -> None:
        super().__init__(job.url)
        self._payload = b"x" * job.size
        self._channels = _channels(job.channels)
        self._number = itertools.count(os.getpid())

    def take(self, most: int) -> Sequence[dict[str, Any]]:
        """One message, of the channel whose turn it is."""
        dequeue = b"select metadata::text, content from lonnymq.message_dequeue($1::bigint)"
        found = self.run(dequeue, (LEASE_MS,)).fetchall()
        return [json.loads(row[0]) for row in found if row[0] is not None]

    def done(self, receipts: Sequence[dict[str, Any]]) -> None:
        """Complete it."""
        (receipt,) = receipts
        complete = b"select result_code from lonnymq.message_complete($1::bigint, $2::bigint)"
        self.run(complete, (int(receipt["id"]), int(receipt["num_attempts"]))).fetchall()

    def put(self, count: int) -> None:
        """Create one."""
        create = (
            b"select result_code from lonnymq.message_create($1::text, $2::bytea, null::bigint)"
        )
        channel = f"tenant-{next(self._number) % self._channels}"
        self.run(create, (channel, self._payload)).fetchall()


class LonnyMq(FilePeer):
    """Channels without limits."""

    name = option = "lonnymq"
    about = (
        "By its SQL functions. At least once, fair between channels; one message a call. Where a"
        " case has one channel it has 10,000, as it locks a channel for each call."
    )
    how = (
        "name the file of its SQL functions: --lonnymq FILE (what its library's `queue.install()`"
        " gives for the schema `lonnymq`)"
    )
    skills = ("send", "receive", "channels", "flow", "bytes")
    batches = (1,)
    tables = ("lonnymq.message", "lonnymq.channel")
    waiting = "select count(*) from lonnymq.message where unlock_at is null"

    def install(self, base: PostgresBase) -> None:
        """Run the file."""
        base.say("create schema lonnymq")
        base.say(self.sql())
        self.empty(base)

    def empty(self, base: PostgresBase) -> None:
        """Have channels, with nothing in them."""
        self._make(base, NO_CHANNELS, 0, Shape())

    def fill(self, base: PostgresBase, count: int, shape: Shape) -> None:
        """Have so many, as if each had been created, unless there are enough."""
        if base.say(self.waiting)[0][0] < count:
            self._make(base, f"{NO_CHANNELS};{MESSAGES}", count, shape)
        for table in self.tables:
            base.say(f"vacuum (analyze, skip_locked) {table}")

    def open(self, job: PeerJob) -> Client:
        """One connection."""
        return Client(job)

    @staticmethod
    def _make(base: PostgresBase, statements: str, count: int, shape: Shape) -> None:
        words = {"channels": _channels(shape.channels), "count": count, "size": shape.size}
        for statement in statements.format(**words).split(";"):
            base.say(statement)


def _channels(asked: int) -> int:
    return asked if asked > 1 else CHANNELS
