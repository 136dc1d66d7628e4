"""What is measured: cells, each with its cases, and what a slice of a case is.

Slices are short, and all peers have theirs in turn, so that what else the machine does hits all of
them alike.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace

from benchmarks.jobs import EIGHTHS
from benchmarks.on_postgres import PostgresBase
from benchmarks.peers.peer import Peer, Shape, Skill
from benchmarks.peers.results import Figures, Setting, percentile
from benchmarks.peers.run import Run
from benchmarks.records import Slice

FEW = ("turnabout", "turnabout-no-history", "raw", "pgmq", "lonnymq")
"""Who is measured at what takes long: the limit, and queues whose calls are like ours."""
CALLED = (
    *FEW,
    "turnabout-two-calls",
    "raw-combined",
    "raw-generic",
    "raw-one-step",
    "pgmq-archive",
)
WORKERS = (
    "turnabout",
    "turnabout-no-history",
    "turnabout-worker",
    "turnabout-tasks",
    "raw",
    "pgqueuer",
    "procrastinate",
    "graphile-worker",
    "pg-boss",
)
"""Frameworks for jobs, and us: by calls, by our worker, by tasks."""
CONNECTIONS = 4
PASSING_BACKLOG = 1_000
MIXED_BACKLOG = 2_000
COUNTED_CALLS = 400
SNAPSHOT_BATCH = 10
PATIENCE_SECONDS = 5.0


@dataclass(frozen=True, slots=True)
class Cell:
    """A table of the page."""

    name: str
    title: str
    """With the sizes of the run in it."""
    settings: Callable[[Run], Sequence[Setting]]
    slice: Callable[[Run, Peer, Setting], Figures]
    skill: Skill
    peers: Collection[str] | None = None
    """None: all who have the skill."""
    rounds_max: int = 1_000
    measures: Sequence[str] = ("rate",)
    """What the table shows, the first of it as a picture."""


def _figures(of: Slice) -> dict[str, float]:
    figures = {"rate": of.rate, "client_us": of.client_us}
    return figures if of.server_us is None else {**figures, "server_us": of.server_us}


def _receive(run: Run, peer: Peer, setting: Setting) -> Figures:
    with run.base(peer, setting) as base:
        return _figures(_drain(run, peer, setting, base))


def _drain(run: Run, peer: Peer, setting: Setting, base: object) -> Slice:
    backlog = min(run.backlog(setting), peer.backlog_max)
    peer.fill(base, backlog, Shape(setting.channels, setting.size))
    most = int(backlog * 0.9 / setting.clients)
    return run.work(base, peer, setting, "drain", most=most)


def _send(run: Run, peer: Peer, setting: Setting) -> Figures:
    with run.base(peer, setting) as base:
        if setting.store == "PostgreSQL":  # a file is new each time
            peer.empty(base)
        return _figures(run.work(base, peer, setting, "put"))


def _mixed(run: Run, peer: Peer, setting: Setting) -> Figures:
    """As many producers as consumers. As more may be sent than received, the processor time is that
    of a message which was sent and received, on average.
    """
    with run.base(peer, setting) as base:
        peer.empty(base)
        peer.fill(base, MIXED_BACKLOG, Shape(setting.channels, setting.size))
        half = setting.clients // 2
        jobs = [run.job(base, peer, setting, action) for action in ("put", "consume")]
        tallies, server_ns = run.crew.tallies([jobs[0]] * half + [jobs[1]] * half, base)
        sent, received = tallies[:half], tallies[half:]
        passed = max(sum(tally.messages for tally in tallies) / 2, 1)
        return {
            "rate": sum(tally.messages / tally.seconds for tally in received),
            "sent": sum(tally.messages / tally.seconds for tally in sent),
            "client_us": sum(tally.client_ns for tally in tallies) / passed / 1000,
            "server_us": (server_ns or 0) / passed / 1000,
        }


def _in_flight(run: Run, peer: Peer, setting: Setting) -> Figures:
    def lease(base: PostgresBase) -> None:
        peer.fill(base, run.sizes.leased, Shape(setting.channels))
        peer.lease(base, run.sizes.leased)

    with run.base(peer, setting) as free, run.base(peer, setting, "leased", lease) as leased:
        return _kept(*(_drain(run, peer, setting, base) for base in (free, leased)))


def _backlog(run: Run, peer: Peer, setting: Setting) -> Figures:
    slices: list[Slice] = []
    for count in (run.sizes.small, run.sizes.large):
        with run.base(peer, setting, f"backlog {count}") as base:
            peer.fill(base, count, Shape(setting.channels))
            most = run.sizes.small // 2 // setting.clients
            slices.append(run.work(base, peer, setting, "drain", most=most))
    return _kept(*slices)


def _kept(free: Slice, loaded: Slice) -> Figures:
    """Of the rate, and of what could be done in the same processor time."""
    kept = {"kept": loaded.rate / free.rate, "kept_cpu": free.cost_us / loaded.cost_us}
    return {**_figures(loaded), "free": free.rate, **kept}


def _snapshot(run: Run, peer: Peer, setting: Setting) -> Figures:
    """Messages pass while somebody holds an old snapshot; the last eighth of the time is held
    against a fresh database without one. As it leaves dead rows behind, each has its own database.
    """
    rates: list[Sequence[float]] = []
    held_seconds = run.sizes.snapshot_seconds
    for held, seconds in ((False, held_seconds / 4), (True, held_seconds)):
        with ExitStack() as stack:
            base = stack.enter_context(run.base(peer, setting, fresh=True))
            peer.fill(base, PASSING_BACKLOG, Shape(setting.channels))
            if held:
                stack.enter_context(base.old_snapshot())
            job = replace(run.job(base, peer, setting, "flow"), seconds=seconds)
            tallies, _ = run.crew.tallies([job] * setting.clients, base)
        parts = [sum(tally.parts[i] for tally in tallies) for i in range(EIGHTHS)]
        rates.append([part / seconds * EIGHTHS for part in parts])
    free = max(sum(rates[0]) / EIGHTHS, 1.0)
    return {"rate": rates[1][-1], "free": free, "kept": rates[1][-1] / free}


def _latency(run: Run, peer: Peer, setting: Setting) -> Figures:
    with run.base(peer, setting) as base:
        peer.empty(base)
        seconds = run.sizes.latency_seconds
        count = int(seconds * setting.rate)
        listen = replace(run.job(base, peer, setting, "listen"), batch=10, most=count)
        listen = replace(listen, seconds=seconds + PATIENCE_SECONDS)
        pace = replace(run.job(base, peer, setting, "pace"), seconds=seconds)
        (heard, _), server_ns = run.crew.tallies([listen, pace], base)
        # Less those of the first half second, in which a worker starts.
        waits = [wait * 1000 for wait in heard.waits[int(setting.rate / 2) :]]
        return {
            **{f"p{share}_ms": percentile(waits, share / 100) for share in (50, 95, 99)},
            "heard": len(heard.waits) / count,
            "server_us": (server_ns or 0) / len(heard.waits) / 1000,
        }


TABLES = """
select coalesce(sum(pg_total_relation_size(c.oid)), 0),
    coalesce(sum(pg_total_relation_size(c.oid)) filter (where c.relpersistence = 'p'), 0)
from pg_class c join pg_namespace n on n.oid = c.relnamespace
where c.relkind = 'r' and n.nspname not in ('pg_catalog', 'information_schema')
"""


def _bytes(run: Run, peer: Peer, setting: Setting) -> Figures:
    """All tables and indexes, less what they were when they were empty."""
    count = run.sizes.counted
    with run.base(peer, setting, fresh=True) as base:

        def sizes() -> tuple[int, int]:
            return tuple(int(value) for value in base.say(TABLES)[0])

        empty = sizes()
        peer.fill(base, count, Shape())
        full = sizes()
        job = replace(run.job(base, peer, setting, "drain"), seconds=3.0)
        while base.say(peer.waiting)[0][0]:
            run.crew.tallies([job] * setting.clients, base)
        base.say("vacuum")
        left = sizes()
    return {
        "waiting_bytes": (full[0] - empty[0]) / count,
        "logged_bytes": (full[1] - empty[1]) / count,
        "left_bytes": (left[0] - empty[0]) / count,
    }


def _wal(run: Run, peer: Peer, setting: Setting) -> Figures:
    """Of one client that sends, receives and acks in turn, once all of its pages are in the log."""
    with run.base(peer, setting) as base:
        peer.empty(base)
        job = run.job(base, peer, setting, "churn")
        job = replace(job, seconds=60.0, most=COUNTED_CALLS * setting.batch)
        run.crew.tallies([job], base)
        before = base.say("select pg_current_wal_insert_lsn()")[0][0]
        (tally,), _ = run.crew.tallies([job], base)
        written = base.say(f"select pg_current_wal_insert_lsn() - '{before}'::pg_lsn")[0][0]
        return {"wal_bytes": float(written) / tally.messages}


def _grid(run: Run, batches: Sequence[int], store: str = "PostgreSQL") -> list[Setting]:
    return [Setting(store, batch, clients) for batch in batches for clients in run.clients(store)]


def _concurrent(store: str) -> list[Setting]:
    return [Setting(store, number, 1, called="concurrency") for number in (1, 10)]


def _at(run: Run, clients: int, **words: int) -> list[Setting]:
    return [Setting("PostgreSQL", batch, clients, **words) for batch in run.sizes.batches]


CELLS: tuple[Cell, ...] = (
    Cell(
        "send",
        "Messages sent, one and a hundred a call",
        lambda run: _grid(run, (1, 100)),
        _send,
        "send",
        CALLED,
    ),
    Cell(
        "receive",
        "Messages received and acked",
        lambda run: _grid(run, run.sizes.batches),
        _receive,
        "receive",
        CALLED,
    ),
    Cell(
        "durable",
        "Received and acked one by one, each commit on disk",
        lambda run: [replace(setting, durable=True) for setting in _grid(run, (1,))],
        _receive,
        "receive",
        CALLED,
    ),
    Cell(
        "jobs-send",
        "Frameworks for jobs: sent, one and a hundred a call",
        lambda run: _grid(run, (1, 100)),
        _send,
        "send",
        WORKERS,
    ),
    Cell(
        "jobs",
        "Frameworks for jobs: handled by their workers, beside receive and ack",
        lambda run: _grid(run, run.sizes.batches),
        _receive,
        "receive",
        WORKERS,
    ),
    Cell(
        "tasks",
        "Empty tasks, run by one worker of a framework",
        lambda _: _concurrent("PostgreSQL"),
        _receive,
        "tasks",
    ),
    Cell(
        "channels",
        "Received and acked from many channels; the others have none",
        lambda run: [s for n in (100, 10_000) for s in _at(run, CONNECTIONS, channels=n)],
        _receive,
        "receive",
        FEW,
    ),
    Cell(
        "mixed",
        "Eight processes send, eight receive and ack: messages received",
        lambda _: [Setting("PostgreSQL", batch, 16) for batch in (1, 10)],
        _mixed,
        "flow",
    ),
    Cell(
        "inflight",
        "Received and acked beside {leased:,} leased messages; kept of the rate without",
        lambda run: _at(run, CONNECTIONS),
        _in_flight,
        "leased",
        measures=("rate", "kept"),
    ),
    Cell(
        "backlog",
        "Received and acked from a backlog of {large:,}; kept of the rate at {small:,}",
        lambda run: _at(run, CONNECTIONS),
        _backlog,
        "leased",
        measures=("rate", "kept"),
    ),
    Cell(
        "snapshot",
        "Sent, received and acked beside an old snapshot: the rate after {snapshot_seconds:g} s",
        lambda _: [Setting("PostgreSQL", SNAPSHOT_BATCH, 4, n) for n in (1, 100)],
        _snapshot,
        "flow",
        rounds_max=3,
        measures=("rate", "kept"),
    ),
    Cell(
        "big-send",
        "Messages of 64 kB sent",
        lambda _: [Setting("PostgreSQL", 1, 1, size=65_536)],
        _send,
        "flow",
    ),
    Cell(
        "big",
        "Messages of 64 kB received and acked",
        lambda _: [Setting("PostgreSQL", b, c, size=65_536) for b, c in ((1, 1), (10, 4))],
        _receive,
        "flow",
    ),
    Cell(
        "latency",
        "From send to receive, in another process that waits",
        lambda run: [Setting("PostgreSQL", 1, 0, rate=rate) for rate in run.sizes.rates],
        _latency,
        "wait",
        measures=("p50_ms", "p95_ms", "p99_ms"),
    ),
    Cell(
        "bytes",
        "Bytes a message of 100 bytes takes while it waits; and left behind when it is acked",
        lambda _: [Setting("PostgreSQL", 100, 2)],
        _bytes,
        "bytes",
        rounds_max=1,
        measures=("waiting_bytes", "logged_bytes", "left_bytes"),
    ),
    Cell(
        "wal",
        "Bytes written to the log by the send, receive and ack of a message",
        lambda _: [Setting("PostgreSQL", batch, 1) for batch in (1, 100)],
        _wal,
        "bytes",
        rounds_max=3,
        measures=("wal_bytes",),
    ),
    Cell(
        "sqlite-send",
        "SQLite: messages sent",
        lambda run: _grid(run, (1, 100), "SQLite"),
        _send,
        "send",
    ),
    Cell(
        "sqlite-receive",
        "SQLite: messages received and acked",
        lambda run: _grid(run, run.sizes.batches, "SQLite"),
        _receive,
        "receive",
    ),
    Cell(
        "sqlite-tasks",
        "SQLite: empty tasks, run by one worker of a framework",
        lambda _: _concurrent("SQLite"),
        _receive,
        "tasks",
    ),
)
BY_NAME = {cell.name: cell for cell in CELLS}
