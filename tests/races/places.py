"""Where a hammer runs, and what may go wrong there: a file; a server that is killed; a pair of
servers of which the second takes over; a file and a server whose clock is set.
"""

from __future__ import annotations

import json
import os
import signal
import sqlite3
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager, suppress
from pathlib import Path
from typing import Any

import psycopg
from click.testing import CliRunner

from tests.races.rig import Hammer, Place
from tests.races.world import World, world
from tests.support.doors import migrate
from tests.support.network import Network, network_to
from tests.support.pooler import pooled
from tests.support.postgres import deadlocks, own_server, program, programs_folder
from turnabout.cli import main

Fault = Callable[[Hammer], object]
DURABLE = {"synchronous_commit": "on", "full_page_writes": "on", "max_connections": "150"}
ORPHANS = """
select count(*) from turnabout.message m
where not exists (select from turnabout.ready r where r.id = m.id)
    and not exists (select from turnabout.scheduled s where s.id = m.id)
    and not exists (
        select from turnabout.lease l
        cross join unnest(l.ids, l.attempts) t (id, attempt)
        where t.id = m.id and t.attempt = m.attempt + 1
    )
"""
TWICE = """
select count(*) from (
    select from (
        select r.id from turnabout.ready r where r.id > 0
        union all
        select s.id from turnabout.scheduled s
    ) p
    group by p.id
    having count(*) > 1
) twice
"""


def doctor(url: str) -> list[str]:
    """What it finds broken: it must find nothing, with whatever a busy queue leaves behind."""
    told = json.loads(CliRunner().invoke(main, ["doctor", "--json", "--url", url]).stdout)
    return [
        f"doctor: {check}"
        for check in told["checks"]
        if check["level"] == "fail" or ("(P" in check["text"] and check["level"] != "ok")
    ]


@contextmanager
def sqlite(folder: Path) -> Iterator[Place]:
    """A file, on a disk that is full now and then."""
    with world() as around:
        faults = {} if around is None else {"full": lambda _: _full(around)}
        yield _file(folder, faults)


def _file(folder: Path, faults: Mapping[str, Fault], **more: Any) -> Place:
    url = f"sqlite:///{folder}/app.db"

    def rows(query: str) -> list[Any]:
        with closing(sqlite3.connect(folder / "app.db", timeout=20)) as file:
            file.execute("pragma wal_autocheckpoint = 0")
            return file.execute(query).fetchall()

    return Place(url, [url], rows, faults, check=lambda: doctor(url), **more)


@contextmanager
def postgres(_: Path, *, pooler: bool = False) -> Iterator[Place]:
    """A server that is killed, on a disk that is full now and then, behind a network that cuts,
    tears and swallows; or a pooler.
    """
    with ExitStack() as stack:
        around = stack.enter_context(world())
        server = stack.enter_context(own_server(settings=DURABLE))
        server.create_database("app")
        migrate(url := server.url("app"))
        network = stack.enter_context(network_to(url))
        through = f"{network.url}&call_seconds=5"
        roads = [stack.enter_context(pooled(url)) if pooler else through, url, url]
        full: dict[str, Fault] = {}
        if around is not None:
            full["full"] = lambda hammer: _full_server(hammer, server, url, around)
        yield Place(
            url,
            roads,
            _rows(url),
            {
                **full,
                "crash": lambda hammer: _crashed(hammer, server, server.kill),
                "immediate": lambda hammer: _crashed(
                    hammer, server, lambda: server.stop("immediate")
                ),
                "backend": lambda hammer: _backend_killed(hammer, server, url),
                "cut": lambda _: _cut(server.url()),
                "silence": lambda _: _silent(network),
                "tear": lambda _: network.tear(),
            },
            check=lambda: [*doctor(url), *_astray(url)],
        )


@contextmanager
def pair(_: Path) -> Iterator[Place]:
    """A server and its synchronous replica, which takes over once."""
    with ExitStack() as stack:
        first = stack.enter_context(own_server(settings=DURABLE))
        first.create_database("app")
        migrate(first.url("app"))
        data = stack.enter_context(programs_folder()) / "data"
        program(first, "pg_basebackup", "-D", str(data), "-d", first.url(), "-c", "fast", "-R")
        second = stack.enter_context(own_server(data=data, settings=DURABLE))
        first.psql("alter system set synchronous_standby_names = '*'")
        first.psql("select pg_reload_conf()")
        network = stack.enter_context(network_to(first.url("app")))
        now = [first]

        def failover(hammer: Hammer) -> bool:
            if now[0] is second:
                return False
            began = time.monotonic()
            first.kill()
            second.psql("select pg_promote()")
            network.lead_to(second.url("app"))
            now[0] = second
            hammer.void(began)
            return True

        yield Place(
            network.url,
            [network.url],
            lambda query: _rows(now[0].url("app"))(query),
            {"failover": failover, "cut": lambda _: _cut(now[0].url())},
            check=lambda: [*doctor(now[0].url("app")), *_astray(now[0].url("app"))],
        )


@contextmanager
def clock_sqlite(folder: Path) -> Iterator[Place]:
    """A file, on a machine whose clock is set."""
    with world() as around:
        yield _file(folder, **_clock(around))


@contextmanager
def clock_postgres(_: Path) -> Iterator[Place]:
    """A server that is killed, on a machine whose clock is set."""
    with ExitStack() as stack:
        around = stack.enter_context(world())
        server = stack.enter_context(own_server(settings=DURABLE))
        server.create_database("app")
        migrate(url := server.url("app"))
        set_at_will = _clock(around)
        set_at_will["faults"]["crash"] = lambda hammer: _crashed(hammer, server, server.kill)
        yield Place(
            url, [url], _rows(url), **set_at_will, check=lambda: [*doctor(url), *_astray(url)]
        )


PLACES: dict[str, Callable[..., Any]] = {
    "sqlite": sqlite,
    "postgres": postgres,
    "pair": pair,
    "clock-sqlite": clock_sqlite,
    "clock-postgres": clock_postgres,
}


def _rows(url: str) -> Callable[[str], list[Any]]:
    def rows(query: str) -> list[Any]:
        with psycopg.connect(url, autocommit=True) as connection:
            cursor = connection.execute(query.encode())
            return cursor.fetchall() if cursor.description else []

    return rows


def _crashed(hammer: Hammer, server: Any, end: Callable[[], None]) -> None:
    began = time.monotonic()
    end()
    server.start()
    hammer.void(began)


def _backend_killed(hammer: Hammer, server: Any, url: str) -> None:
    """With one of its processes PostgreSQL ends all of them, and recovers."""
    began = time.monotonic()
    found = _rows(server.url())(
        "select pid from pg_stat_activity where backend_type = 'client backend'"
        " and pid <> pg_backend_pid() order by random() limit 1"
    )
    for (pid,) in found:
        os.kill(pid, signal.SIGKILL)
    _await(url, server)
    hammer.void(began)


def _await(url: str, server: Any) -> None:
    """Until it has recovered."""
    for turn in range(600):
        with suppress(psycopg.OperationalError), psycopg.connect(url):
            return
        time.sleep(0.05)
        if turn == 100:
            server.start()


def _full(around: World) -> None:
    around.fill_disk(True)
    time.sleep(0.5)
    around.fill_disk(False)


def _full_server(hammer: Hammer, server: Any, url: str, around: World) -> None:
    """Where its journal can't grow PostgreSQL ends, and recovers; or can't, and is started."""
    began = time.monotonic()
    _full(around)
    _await(url, server)
    hammer.void(began)


def _clock(around: World | None) -> dict[str, Any]:
    """Of a place where the clock is set."""
    if around is None:
        return {"clock": lambda: time.time_ns() // 1_000_000, "faults": {}}
    return {
        "clock": around.now_ms,
        "later": lambda hammer: _at(hammer, around, 3 * 86_400),
        "faults": {"clock": lambda hammer: _set(hammer, around)},
    }


def _set(hammer: Hammer, around: World) -> None:
    """To a time between two days ago and in two days."""
    seconds = hammer.dice.choice([1, 30, 3_600, 86_400]) * hammer.dice.choice([-2, -1, 0, 1, 2])
    _at(hammer, around, seconds)


def _at(hammer: Hammer, around: World, seconds: int) -> None:
    """Leases end by it, or last."""
    began = time.monotonic()
    around.set_clock(seconds * 1000)
    hammer.void(began)


def _cut(url: str) -> None:
    with suppress(psycopg.OperationalError):
        _rows(url)(
            "select pg_terminate_backend(pid) from pg_stat_activity where"
            " backend_type = 'client backend' and pid <> pg_backend_pid() and random() < 0.4"
        )


def _silent(network: Network) -> None:
    network.fall_silent()
    time.sleep(0.5)
    network.speak_again()


def _astray(url: str) -> list[str]:
    """Messages that stand nowhere, or in two places; deadlocks that PostgreSQL broke."""
    rows = _rows(url)
    rows("select turnabout.rebuild()")
    counts = {name: rows(query)[0][0] for name, query in (("nowhere", ORPHANS), ("twice", TWICE))}
    counts["deadlocks"] = deadlocks(url)
    return [f"{count} × {name}" for name, count in counts.items() if count]
