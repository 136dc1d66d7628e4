"""The raw limit on PostgreSQL: what two statements, or one, can do to a table with one index.

Unlike the raw limit of `on_postgres`, a lease that has ended is delivered again, as every queue
here does it: so the plan depends on the time, and PostgreSQL would rather plan each lease anew.
"""

from __future__ import annotations

import time
from collections.abc import Sequence

import psycopg

from benchmarks import on_postgres
from benchmarks.on_postgres import PostgresBase
from benchmarks.peers.peer import PeerJob, PostgresPeer

LEASE_MS = 30_000
GENERIC = ("seqscan", "bitmapscan", "hashjoin", "mergejoin")
"""What a plan that knows no values would use, as it fears to find the whole table."""


class Client(on_postgres.Raw):
    """Lease by an update, delete by id."""

    def __init__(self, job: PeerJob) -> None:
        super().__init__(job.url, job.channels, b"x" * job.size)

    def take(self, most: int) -> Sequence[int]:
        """Lease some that nobody has leased, or no longer has."""
        now = time.time_ns() // 1_000_000
        lease = (
            "update raw set leased_until = $1::bigint where id in ("  # noqa: S608
            "select id from raw where leased_until <= $2::bigint order by leased_until, id"
            f" limit {most} for update skip locked) returning id, payload"
        )
        return [row[0] for row in self.run(lease.encode(), (now + LEASE_MS, now)).fetchall()]


class GenericClient(Client):
    """The same, planned once."""

    def __init__(self, job: PeerJob) -> None:
        super().__init__(job)
        self.run(b"set plan_cache_mode = force_generic_plan", ())
        for method in GENERIC:
            self.run(f"set enable_{method} = off".encode(), ())


class OneStepClient(on_postgres.Raw):
    """Delete, and have it: a crash loses it."""

    def __init__(self, job: PeerJob) -> None:
        super().__init__(job.url, job.channels, b"x" * job.size)

    def take(self, most: int) -> Sequence[int]:
        """Delete some."""
        statement = (
            "delete from raw where id in (select id from raw order by id"  # noqa: S608
            f" limit {most} for update skip locked) returning id, payload"
        )
        return [row[0] for row in self.run(statement.encode(), ()).fetchall()]

    def done(self, receipts: Sequence[int]) -> None:
        """They are gone."""


class CombinedClient(Client):
    """Delete what is done and lease the next, in one statement."""

    def __init__(self, job: PeerJob) -> None:
        super().__init__(job)
        self._ended: Sequence[int] = ()

    def take(self, most: int) -> Sequence[int]:
        """Delete those before, and lease some."""
        now = time.time_ns() // 1_000_000
        ended, self._ended = self._ended, ()
        both = (
            "with ended as (delete from raw where id = any ($3::bigint[]))"  # noqa: S608
            " update raw set leased_until = $1::bigint where id in ("
            "select id from raw where leased_until <= $2::bigint order by leased_until, id"
            f" limit {most} for update skip locked) returning id, payload"
        )
        parameters = (now + LEASE_MS, now, on_postgres.literal(ended))
        return [row[0] for row in self.run(both.encode(), parameters).fetchall()]

    def done(self, receipts: Sequence[int]) -> None:
        """They are deleted by the next call."""
        self._ended = receipts

    def close(self) -> None:
        """Delete the last ones."""
        super().done(self._ended)
        super().close()


class Raw(PostgresPeer):
    """Two steps, as PostgreSQL plans them."""

    name = "raw"
    about = (
        "No queue, but its limit: one table, an update that leases, a delete. At least once; no"
        " channels."
    )
    skills = ("send", "receive", "leased", "flow", "bytes")
    tables = ("raw",)
    waiting = "select count(*) from raw where leased_until = 0"
    insert = (
        "insert into raw (payload) select repeat('x', {size})::bytea"
        " from generate_series(1, {count})"
    )

    def version(self) -> str:
        """Of what it is sent by."""
        return f"psycopg {psycopg.__version__}"

    def lease(self, base: PostgresBase, count: int) -> None:
        """Lease the oldest."""
        base.say(
            "update raw set leased_until = (extract(epoch from now()) * 1000)::bigint + 3600000"  # noqa: S608
            f" where id in (select id from raw order by id limit {count})"
        )

    def open(self, job: PeerJob) -> Client | OneStepClient:
        """One connection."""
        return Client(job)


class RawGeneric(Raw):
    """The same statements with plans that are made once."""

    name = "raw-generic"
    about = "The same with a plan that is made once and kept (`force_generic_plan`)."
    skills = ("receive",)

    def open(self, job: PeerJob) -> GenericClient:
        """One connection."""
        return GenericClient(job)


class RawCombined(Raw):
    """Two steps in one statement."""

    name = "raw-combined"
    about = "The same, each delete in one statement with the next update."
    skills = ("receive",)

    def open(self, job: PeerJob) -> CombinedClient:
        """One connection."""
        return CombinedClient(job)


class RawOneStep(Raw):
    """Delete on receive."""

    name = "raw-one-step"
    about = "Deletes what it receives: one statement, at most once."
    skills = ("receive",)

    def open(self, job: PeerJob) -> OneStepClient:
        """One connection."""
        return OneStepClient(job)
