"""PGMQ, by its SQL functions. A server that has the extension needs nothing; else a file of its
functions is named (`--pgmq pgmq.sql`), as PGMQ's own documentation has it for servers without.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.on_postgres import PostgresBase, Wire, literal
from benchmarks.peers.peer import FilePeer, LeftOut, PeerJob

LEASE_SECONDS = 30
POLL_MS = 10


class Client(Wire):
    """Its functions, called as raw calls its statements: prepared, binary."""

    def __init__(self, job: PeerJob) -> None:
        super().__init__(job.url)
        self._payload = json.dumps({"p": "x" * (job.size - 10)})

    ENDED = "delete"
    """The function that ends messages."""

    def take(self, most: int) -> Sequence[int]:
        """Read: visible again after a while."""
        read = b"select msg_id, message from pgmq.read('bench', $1::int, $2::int)"
        return [row[0] for row in self.run(read, (LEASE_SECONDS, most)).fetchall()]

    def done(self, receipts: Sequence[int]) -> None:
        """Delete, or archive."""
        end = f"select pgmq.{self.ENDED}('bench', $1::bigint"
        if len(receipts) == 1:
            self.run(f"{end})".encode(), (receipts[0],)).fetchall()
        else:
            self.run(f"{end}[])".encode(), (literal(receipts),)).fetchall()

    def put(self, count: int) -> None:
        """Send."""
        if count == 1:
            self._send(self._payload)
        else:
            statement = b"select pgmq.send_batch('bench', $1::text[]::jsonb[])"
            self.run(statement, ([self._payload] * count,)).fetchall()

    def tell(self, payload: bytes) -> None:
        """Send this."""
        self._send(json.dumps({"p": payload.decode()}))

    def wait(self, seconds: float) -> Sequence[bytes]:
        """Have the server poll, every 10 ms; its default is 100."""
        poll = (
            b"select msg_id, message from"
            b" pgmq.read_with_poll('bench', $1::int, 10, $2::int, $3::int)"
        )
        parameters: tuple[Any, ...] = (LEASE_SECONDS, max(round(seconds), 1), POLL_MS)
        rows = self.run(poll, parameters).fetchall()
        if rows:
            self.done([row[0] for row in rows])
        return [row[1]["p"].encode() for row in rows]

    def _send(self, payload: str) -> None:
        self.run(b"select pgmq.send('bench', $1::text::jsonb)", (payload,)).fetchall()


class ArchivingClient(Client):
    """What is done goes to PGMQ's table of archived messages."""

    ENDED = "archive"


def _of_source(file: Path) -> str:
    """As the control file of the extension's source has it, beside the folder of its SQL."""
    control = file.parent.parent / "pgmq.control"
    if not control.is_file():
        return ""
    found = re.search(r"default_version\s*=\s*'(.+)'", control.read_text(encoding="utf-8"))
    return found[1] if found else ""


class Pgmq(FilePeer):
    """One queue, logged."""

    name = option = "pgmq"
    about = "By its SQL functions, `read` and `delete`. At least once; no channels."
    how = (
        "name the file of its SQL functions: --pgmq FILE (pgmq-extension/sql/pgmq.sql of its"
        " source)"
    )
    skills = ("send", "receive", "leased", "flow", "wait", "bytes")
    tables = ("pgmq.q_bench",)
    waiting = "select count(*) from pgmq.q_bench where vt <= clock_timestamp()"
    insert = (
        "insert into pgmq.q_bench (vt, message)"
        " select clock_timestamp(), jsonb_build_object('p', repeat('x', {size} - 10))"
        " from generate_series(1, {count})"
    )

    def version(self) -> str:
        """Of the extension, if the server has it; else what the file's source says."""
        if self.file is None:
            return self._of_extension
        return _of_source(self.file) or super().version()

    def install(self, base: PostgresBase) -> None:
        """Make the functions, and a queue."""
        if self.file is not None:
            base.say(self.sql())
        else:
            known = "select default_version from pg_available_extensions where name = 'pgmq'"
            found = base.say(known)
            if not found:
                raise LeftOut(f"this server has no extension pgmq; {self.how}")
            base.say("create extension pgmq")
            self._of_extension = str(found[0][0])
        base.say("select pgmq.create('bench')")

    def lease(self, base: PostgresBase, count: int) -> None:
        """Hide the oldest."""
        base.say(
            "update pgmq.q_bench set vt = clock_timestamp() + interval '1 hour', read_ct = 1"  # noqa: S608
            f" where msg_id in (select msg_id from pgmq.q_bench order by msg_id limit {count})"
        )

    def open(self, job: PeerJob) -> Client:
        """One connection."""
        return Client(job)


class PgmqArchive(Pgmq):
    """The same with what is closest to history."""

    name = "pgmq-archive"
    about = "The same with `archive` for `delete`: it keeps what has ended, for ever."
    skills = ("receive",)
    tables = ("pgmq.q_bench", "pgmq.a_bench")

    def open(self, job: PeerJob) -> ArchivingClient:
        """One connection."""
        return ArchivingClient(job)
