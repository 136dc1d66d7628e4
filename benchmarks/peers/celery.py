"""Celery on PostgreSQL, by the SQLAlchemy transport of kombu. As a program it is its worker."""

from __future__ import annotations

import contextlib
import importlib.metadata
import json
import os
import select
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

from benchmarks.jobs import Tally
from benchmarks.on_postgres import PostgresBase
from benchmarks.peers import ROOT
from benchmarks.peers.peer import PeerJob, PostgresPeer, Shape

NAME = "bench"
STAMP_BYTES = 8
"""What a task writes: when it began."""
READY_SECONDS = 30.0
STOP_SECONDS = 15.0
SECONDS_A_TICK = 1 / os.sysconf("SC_CLK_TCK")


def app_at(url: str, stamps: int = -1) -> Any:
    """An app with a task that writes its time into a pipe, which pool processes inherit."""
    import celery

    broker = url.replace("postgresql://", "sqla+postgresql+psycopg://", 1)
    app = celery.Celery(NAME, broker=broker, set_as_current=False)

    @app.task(name=NAME, ignore_result=True)
    def run(_: str) -> None:
        os.write(stamps, time.monotonic_ns().to_bytes(STAMP_BYTES, "big"))

    app.finalize()
    return app


class Client:
    """Its worker by its own command, which forks a pool of processes."""

    def __init__(self) -> None:
        self._stamps, self._there = os.pipe()
        self._worker: subprocess.Popen[bytes] | None = None

    def warm(self, job: PeerJob) -> None:
        """A worker is ready when it runs."""

    def run(self, job: PeerJob) -> Tally:
        """Have it work until there was enough, or for so long since its first task. So is its
        processor time: its start takes longer than all of the tasks.
        """
        words = [sys.executable, "-m", "benchmarks.peers.celery", job.url, str(self._there)]
        self._worker = subprocess.Popen(
            [*words, str(job.batch)],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            pass_fds=[self._there],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        if not (found := self._read(READY_SECONDS)):
            raise TimeoutError(f"its worker began no task in {READY_SECONDS:.0f} s")
        before, ends_at = processor_ns(self._worker.pid), time.monotonic() + job.seconds
        while len(found) < job.most * STAMP_BYTES and (left := ends_at - time.monotonic()) > 0:
            found += self._read(left)
        spent = processor_ns(self._worker.pid) - before
        times = sorted(
            int.from_bytes(found[i : i + STAMP_BYTES], "big") / 1e9
            for i in range(0, len(found), STAMP_BYTES)
        )
        span = (times[0], times[-1]) if len(times) > 1 else None
        return Tally(len(times), len(times), 0, job.seconds, spent, span=span)

    def close(self) -> None:
        """Stop the worker: it puts back what it fetched and did not do."""
        if self._worker is not None:
            self._worker.terminate()
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._worker.wait(STOP_SECONDS)
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._worker.pid, signal.SIGKILL)
            self._worker.wait()
        os.close(self._stamps)
        os.close(self._there)

    def _read(self, seconds: float) -> bytes:
        ready, _, _ = select.select([self._stamps], [], [], seconds)
        return os.read(self._stamps, 65_536) if ready else b""


def processor_ns(pid: int) -> int:
    """Processor time of a process and of its children so far; none where there is no /proc."""
    spent = 0.0
    with contextlib.suppress(OSError):
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
        for each in (pid, *children):
            # Behind the name, which may hold spaces.
            words = Path(f"/proc/{each}/stat").read_text().rpartition(")")[2].split()
            spent += (int(words[11]) + int(words[12])) * SECONDS_A_TICK
    return int(spent * 1e9)


class Celery(PostgresPeer):
    """Its tables as its transport makes them."""

    name = "celery"
    about = (
        "Its worker with its pool of processes, as many as the concurrency, on the SQLAlchemy"
        " transport of kombu. Each task is fetched by itself, up to four ahead for each process;"
        " after a look that found none the worker rests for a second. What was fetched stays as a"
        " row, and makes each fetch slower: here such rows are deleted before each slice. Its"
        " processor time is that since its first task."
    )
    skills = ("tasks",)
    backlog_max = 5_000
    slices = 10
    package = module = "celery"
    tables = ("kombu_message",)
    waiting = "select count(*) from kombu_message where visible"
    insert = (
        "insert into kombu_message (id, visible, payload, version, queue_id)"
        " select nextval('message_id_sequence'), true,"
        " replace(replace('{message}', '{id}', gen_random_uuid()::text), '{tag}',"
        " gen_random_uuid()::text), 1, (select id from kombu_queue where name = 'celery')"
        " from generate_series(1, {count})"
    )

    def version(self) -> str:
        """Of all three."""
        kombu, sqlalchemy = map(importlib.metadata.version, ("kombu", "sqlalchemy"))
        return f"{super().version()} (kombu {kombu}, SQLAlchemy {sqlalchemy})"

    def install(self, base: PostgresBase) -> None:
        """The transport makes its tables when something is sent."""
        self._send(base, "")
        self.empty(base)

    def fill(self, base: PostgresBase, count: int, shape: Shape) -> None:
        """Send one, and insert what is missing like it, with names of their own. A fetch passes
        the rows of all that were fetched before: without them a round is like the next.
        """
        base.say("delete from kombu_message where not visible")
        self._send(base, shape.payload.decode())
        last = "select payload from kombu_message where visible order by id desc limit 1"
        message = base.say(last)[0][0]
        sent = json.loads(message)
        names = {"id": sent["headers"]["id"], "tag": sent["properties"]["delivery_tag"]}
        self.add(base, count, message=message.replace("'", "''"), **names)

    def _send(self, base: PostgresBase, payload: str) -> None:
        app = app_at(base.url)
        app.tasks[NAME].delay(payload)
        app.close()

    def open(self, job: PeerJob) -> Client:
        """A process."""
        return Client()


def main(url: str, stamps: str, concurrency: str) -> None:
    """What `celery worker` does, with its own options but for how many it runs at once."""
    threading.Thread(target=end_with_parent, daemon=True).start()
    app_at(url, int(stamps)).worker_main(["worker", "--concurrency", concurrency])


def end_with_parent() -> None:
    """Nobody stops a worker whose client was killed: it does it itself when its input ends."""
    os.read(sys.stdin.fileno(), 1)  # takes no lock, which its pool processes would inherit
    os.killpg(0, signal.SIGKILL)


if __name__ == "__main__":
    main(*sys.argv[1:])
