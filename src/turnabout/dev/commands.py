"""`demo`, `dev` and `bench`."""

from __future__ import annotations

import secrets
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from turnabout.cli import _show
from turnabout.cli._app import NEGATIVE, UNAVAILABLE, App
from turnabout.cli._declare import command, option
from turnabout.cli._interrupt import stop_like_interrupt
from turnabout.cli._kinds import DURATION
from turnabout.cli._progress import progress
from turnabout.dev.bench import Bench, BenchPlan, BenchReport, Measured, throw_away
from turnabout.words import limits
from turnabout.words.errors import TurnaboutError
from turnabout.words.extras import refuse_windows

if TYPE_CHECKING:
    from turnabout import Turnabout
    from turnabout._sync.upkeep import Upkeep
    from turnabout.dev.pgserver import PostgresServer

DATA_FOLDER = Path(".turnabout")
DATABASE = "turnabout"
KEEP_UP_SECONDS = 1.0


# --- demo ----------------------------------------------------------------------------------------


@command(
    "demo",
    "turnabout demo",
    "turnabout demo --rows 20000 --workers 4",
    "turnabout demo --no-kill",
    "turnabout demo --pipeline",
    json="the verdict, as one document",
)
@option("--rows", "Flights. [default: all]", click.IntRange(1))
@option("--workers", "Worker processes.", click.IntRange(1), 3)
@option("--batch", "Flights that a worker takes at once.", click.IntRange(1))
@option("--lease", "How long a worker holds them.", DURATION, "3s")
@option("--no-kill", "Let all workers live.", bool)
@option("--keep", "Leave the queue and the workers' diaries.", bool)
@option("--pipeline", "Then archive it all with Spark, and report.", bool)
@option("--out", "Where the lake and the report go (--pipeline).",
        click.Path(path_type=Path), metavar="FOLDER")  # fmt: skip
@option("--no-open", "Don't open the report in a browser.", bool)
def demo(app: App, no_kill: bool, no_open: bool, **given: Any) -> None:
    """See it work: a year of flights, and a worker killed on the way.

    In the end it is counted that nothing was lost. It uses a new SQLite file of its own, unless
    --url names a database; TURNABOUT_URL is left alone, as that may be the one you work with.
    """
    from turnabout.dev.demo.run import DemoOptions, run

    options = DemoOptions(
        app.given_url, kill=not no_kill, opens=not no_open, as_json=app.as_json, **given
    )
    if not run(options):
        raise click.exceptions.Exit(NEGATIVE)


# --- dev -----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Running:
    """A PostgreSQL that takes connections."""

    url: str
    version: int
    data: str
    applied: tuple[str, ...]


@command(
    "dev",
    "turnabout dev --postgres",
    "turnabout dev --postgres --data /tmp/pg --port 5433",
    json=Running,
)
@option("--postgres", "Start PostgreSQL, migrated.", bool)
@option("--data", f"Folder for the data, kept. [default: {DATA_FOLDER}/postgres]",
        click.Path(path_type=Path, file_okay=False))  # fmt: skip
@option("--port", "Also open 127.0.0.1 on this port.", click.IntRange(1, 65_535))
@option("--version", "PostgreSQL's major version: 16 or 18.", int)
def dev(app: App, postgres: bool, data: Path | None, port: int | None, version: int | None) -> None:
    """Start a real PostgreSQL for development, and print its URL.

    There is nothing to install, and the schema is applied. Runs until Ctrl-C; the data is kept for
    the next time. Only this user can reach it, through a socket, unless --port opens 127.0.0.1.
    """
    if not postgres:
        raise click.UsageError(
            "say what to start: --postgres. SQLite needs no server: --url sqlite:///app.db"
        )
    refuse_windows("a PostgreSQL that this command starts")
    from turnabout.dev.pgserver import PostgresError, PostgresServer

    stop_like_interrupt()
    folder = data or DATA_FOLDER / "postgres"
    if data is None:
        _hide_from_git(DATA_FOLDER)
    try:
        with PostgresServer(version, profile="durable", data=folder, port=port) as server:
            _serve(app, server)
    except PostgresError as error:
        app.refuse("unavailable", str(error), UNAVAILABLE)


def _serve(app: App, server: PostgresServer) -> None:
    from turnabout import connect
    from turnabout._connect import installer
    from turnabout._sync.upkeep import Upkeep

    if DATABASE not in server.psql("select datname from pg_database").split():
        server.create_database(DATABASE)
    url = server.url(DATABASE)
    applied = installer(url).up(url)
    app.say(
        Running(url, server.version, str(server.data), tuple(applied)),
        f"PostgreSQL {server.version} runs, with its data in {server.data}\n\n"
        f"  export TURNABOUT_URL='{url}'\n\n"
        "Ctrl-C stops it; the data stays.",
    )
    _show.flush()
    try:
        with connect(url) as turnabout:
            upkeep = Upkeep(turnabout._shared)
            while server.pid is not None:
                _keep_up(turnabout, upkeep)
                time.sleep(KEEP_UP_SECONDS)
    except KeyboardInterrupt:
        _show.note("Stopping PostgreSQL …")
        return
    log = server.log.read_text(errors="replace").strip().splitlines()[-5:]
    app.refuse("unavailable", "PostgreSQL ended by itself:\n" + "\n".join(log), UNAVAILABLE)


def _keep_up(turnabout: Turnabout, upkeep: Upkeep) -> None:
    """What workers do, as there may be none: schedules, leases that ran out, what is due."""
    with suppress(TurnaboutError):  # a database that its owner is just playing with
        turnabout.schedules.fire_due(on_error=lambda _: None)
        upkeep.step()


def _hide_from_git(folder: Path) -> None:
    """Data must not slip into a commit: the folder ignores itself."""
    folder.mkdir(exist_ok=True)
    ignore = folder / ".gitignore"
    if not ignore.exists():
        ignore.write_text("*\n")


# --- bench ---------------------------------------------------------------------------------------


def _ms(field: str) -> Callable[[Measured], str | None]:
    def tell(one: Measured) -> str | None:
        seconds = getattr(one, field)
        if seconds is None:
            return None
        return f"{seconds * 1000:.2f}ms" if seconds < 0.1 else f"{seconds * 1000:,.0f}ms"

    return tell


CALLS: _show.Columns = (
    ("CALL", "name", str),
    ("MESSAGES/S", lambda one: round(one.messages_per_second), _show.count),
    ("CALLS", "calls", _show.count),
    ("P50", _ms("p50_seconds"), _show.figure),
    ("P95", _ms("p95_seconds"), _show.figure),
    ("P99", _ms("p99_seconds"), _show.figure),
    ("MAX", _ms("max_seconds"), _show.figure),
)


@command(
    "bench",
    "turnabout bench",
    "turnabout bench --seconds 30 --threads 8 --url postgresql://app@localhost/app",
    json=BenchReport,
)
@option("--seconds", "In all.", DURATION, "10s")
@option("--threads", "Callers at once.", click.IntRange(1, 64), 4)
@option("--batch", "Large calls.", click.IntRange(2, 1000), 100)
@option("--payload-bytes", "Of each message.", click.IntRange(0, limits.PAYLOAD_BYTES_MAX), 200)
@option("--channels", "In turn.", click.IntRange(1, 10_000), 10)
def bench(
    app: App, seconds: float, threads: int, batch: int, payload_bytes: int, channels: int
) -> None:
    """Measure throughput and latency of your database.

    Threads of this one process send, receive and ack. It works in a queue of its own with a name
    that nobody else has, and deletes it afterwards, also after Ctrl-C. Other users of the database
    will feel it while it runs.
    """
    plan = BenchPlan(max(0.5, seconds), threads, batch, payload_bytes, channels)
    name = f"bench-{secrets.token_hex(4)}"
    results: list[Measured] = []
    with app.open() as turnabout:
        _show.note(
            f"Measuring {app.place} for about {_show.duration(plan.seconds)} in the queue {name}, "
            f"which is deleted afterwards. {_show.plural(threads, 'thread')}, payloads of "
            f"{_show.plural(payload_bytes, 'byte')}, {_show.plural(channels, 'channel')}."
        )
        with throw_away(turnabout, name) as queue:
            phases = Bench(queue, plan).phases()
            with progress("", len(phases), "calls") as bar:
                for i, (title, phase) in enumerate(phases.items()):
                    if not _show.is_coloured(sys.stderr):
                        _show.note(f"  {title} …")
                    results += phase()
                    bar(sum(one.calls for one in results), i + 1)
    app.say(BenchReport(app.place, name, plan, tuple(results)), _show.table(CALLS, results))


SECTIONS = {"Database": (bench,), "Programs": (demo, dev)}
