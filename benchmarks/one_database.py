"""One PostgreSQL: what waiting messages, channels and connections cost it.

`python -m benchmarks.one_database` starts a server of its own and measures `docs/scale.md`'s first
tables: a message sent, received and acked beside others that wait, over channels, and beside idle
connections. Cases take turns in rounds. `--json` keeps the figures; the page shows that file.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import statistics
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import psycopg

import turnabout
from benchmarks import report
from benchmarks.crew import Crew
from benchmarks.jobs import Job
from benchmarks.library import QUEUE
from benchmarks.on_postgres import SETTINGS, PostgresBase, PostgresPlace
from turnabout.dev.pgserver import PostgresServer

WAITING = (100_000, 1_000_000, 10_000_000)
CHANNELS = (1, 100, 10_000, 100_000)
IDLE = (0, 100, 400, 800)
CLIENTS = (1, 4, 16)
BATCHES = (1, 10, 100)
SECONDS = 1.0
PATIENT = "call_seconds=3600&busy_seconds=3600"
Case = dict[str, Any]


def made(place: PostgresPlace, waiting: int, channels: int) -> tuple[PostgresBase, Case]:
    """A database with so many messages waiting, and what it cost to make it."""
    base = place.base()
    base.make_queue(history=True)
    begun = time.monotonic()
    base.fill(waiting, channels)
    seconds = time.monotonic() - begun
    size = base.say("select pg_database_size(current_database())")[0][0]
    return base, {
        "waiting": waiting,
        "channels": channels,
        "filled_s": round(seconds, 1),
        "bytes": size,
    }


def passed(crew: Crew, base: PostgresBase, case: Case, batch: int, clients: int = 1) -> None:
    """Send, receive and ack for a while, and note the rate and the processor time of a message."""
    job = Job(base.url, "ours", "churn", batch, SECONDS, channels=case.get("channels", 1))
    of = crew.work(job, clients, base)
    figures = case.setdefault("rounds", {}).setdefault(str(batch), [])
    figures.append(
        {
            "rate": round(of.rate, 1),
            "client_us": round(of.client_us, 1),
            "server_us": round(of.server_us or 0.0, 1),
        }
    )


def side_by_side(crew: Crew, cases: Sequence[tuple[PostgresBase, Case]], rounds: int) -> list[Case]:
    """Measure the same in each database, one after the other, in each round."""
    for number in range(rounds):
        for batch in BATCHES:
            for base, case in cases if number % 2 else reversed(cases):
                passed(crew, base, case, batch)
    return [case for _, case in cases]


def rebuild(server: PostgresServer, cases: Sequence[tuple[PostgresBase, Case]]) -> None:
    """Crash the server, and note how long the first receive in each database takes."""
    cases[0][0].say("checkpoint")
    server.restart("immediate")
    for base, case in cases:
        patient = base.url + ("&" if "?" in base.url else "?") + PATIENT
        begun = time.monotonic()
        with turnabout.connect(patient) as connection:
            connection.queue(QUEUE).receive(1)
        case["rebuilt_s"] = round(time.monotonic() - begun, 1)


def own_kb(pids: Sequence[int]) -> float:
    """Anonymous memory of a server process, without its part of the shared buffers: the median."""
    sizes: list[int] = []
    for pid in pids:
        with contextlib.suppress(FileNotFoundError):  # of a client that has just gone
            lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
            sizes += [int(line.split()[1]) for line in lines if line.startswith("Pss_Anon:")]
    return statistics.median(sizes)


def connections(crew: Crew, base: PostgresBase, rounds: int) -> dict[str, list[Case]]:
    """Idle connections, what each takes and whether others are slower; and busy ones."""
    mine = "select pid from pg_stat_activity where datname = current_database() and pid <> {}"
    idle: list[Case] = [{"idle": count} for count in IDLE]
    for number in range(rounds):
        for case in idle if number % 2 else reversed(idle):
            with contextlib.ExitStack() as stack:
                for _ in range(case["idle"]):
                    stack.enter_context(psycopg.connect(base.url, autocommit=True))
                pids = [row[0] for row in base.say(mine.format("pg_backend_pid()"))]
                if case["idle"]:
                    case["own_kb"] = own_kb(pids)
                passed(crew, base, case, 1)
    busy: list[Case] = [{"clients": count} for count in CLIENTS]
    for number in range(rounds):
        for case in busy if number % 2 else reversed(busy):
            for batch in BATCHES:
                passed(crew, base, case, batch, case["clients"])
    with turnabout.connect(base.url) as connection:
        queue = connection.queue(QUEUE)
        for _ in range(100):
            queue.send("x")
            queue.ack([message.receipt for message in queue.receive(10)])
        used = "application_name like 'turnabout%' and pid <> pg_backend_pid()"
        rows = base.say(f"select pid from pg_stat_activity where {used}")  # noqa: S608
        idle.append({"used": True, "own_kb": own_kb([row[0] for row in rows])})
    return {"idle": idle, "busy": busy}


def measure(
    found: dict[str, Any], rounds: int, waiting: Sequence[int], channels: Sequence[int]
) -> None:
    """Everything, on a server that is made for it."""
    settings = {**SETTINGS, "max_connections": "1000"}
    server = PostgresServer(18, profile="durable", settings=settings)
    with server, Crew() as crew:
        place = PostgresPlace(url=server.url(), version=18, durable=False)
        found |= {"machine": report.machine(), "server": place.about()}
        found["load"] = {}
        wide = [made(place, max(channels), count) for count in channels]
        _note_load(found, "channels")
        found["channels"] = side_by_side(crew, wide, rounds)
        _note_load(found, "connections")
        found["connections"] = connections(crew, wide[0][0], rounds)
        deep = [made(place, count, 1_000) for count in waiting]
        _note_load(found, "waiting")
        found["waiting"] = side_by_side(crew, deep, rounds)
        _note_load(found, "crash")
        rebuild(server, deep)


def _note_load(found: dict[str, Any], part: str) -> None:
    """Keep the load of the machine as a part begins."""
    found["load"][part] = round(os.getloadavg()[0], 1)


def _cells(case: Case, batches: Sequence[int] = BATCHES) -> str:
    """The rates of a case, and the processor time of a message, both ends: medians, and a range."""
    cells: list[str] = []
    for batch in batches:
        rounds = case["rounds"][str(batch)]
        rates = sorted(each["rate"] for each in rounds)
        cost = statistics.median(each["client_us"] + each["server_us"] for each in rounds)
        cells.append(
            f"{statistics.median(rates):,.0f} [{rates[0]:,.0f}–{rates[-1]:,.0f}], {cost:,.0f} µs"
        )
    return " | ".join(cells)


def _table(title: str, rows: Sequence[str], batches: Sequence[int] = BATCHES) -> str:
    of = " | ".join(f"batch {batch}" for batch in batches)
    rule = "---:|" * (title.count("|") + 1 + len(batches))
    return "\n".join([f"| {title} | {of} |", f"|{rule}", *rows])


def tables(found: dict[str, Any]) -> dict[str, str]:
    """The tables of `docs/scale.md`, by what they are about."""
    idle = [case for case in found["connections"]["idle"] if "rounds" in case]
    return {
        "channels": _table(
            "channels", [f"| {c['channels']:,} | {_cells(c)} |" for c in found["channels"]]
        ),
        "waiting": _table(
            "waiting | on disk | first receive after a crash",
            [
                f"| {c['waiting']:,} | {c['bytes'] / 1e6:,.0f} MB | {c['rebuilt_s']:.1f} s"
                f" | {_cells(c)} |"
                for c in found["waiting"]
            ],
        ),
        "busy": _table(
            "busy connections",
            [f"| {c['clients']} | {_cells(c)} |" for c in found["connections"]["busy"]],
        ),
        "idle": _table(
            "idle connections beside it",
            [f"| {c['idle']} | {_cells(c, (1,))} |" for c in idle],
            (1,),
        ),
    }


def main() -> None:
    """Measure, and print or keep the figures."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--rounds", type=int, default=3)
    options.add_argument("--waiting", type=int, default=max(WAITING), help="the most")
    options.add_argument("--channels", type=int, default=max(CHANNELS), help="the most")
    options.add_argument("--json", type=Path)
    told = options.parse_args()
    found: dict[str, Any] = {}
    try:
        measure(
            found,
            told.rounds,
            [count for count in WAITING if count < told.waiting] + [told.waiting],
            [count for count in CHANNELS if count < told.channels] + [told.channels],
        )
    finally:  # what was measured before an error is kept
        text = json.dumps(found, indent=1) + "\n"
        told.json.write_text(text) if told.json else print(text)


if __name__ == "__main__":
    main()
