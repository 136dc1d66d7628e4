"""`dev` and `demo`."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from turnabout.cli import _show
from turnabout.cli._app import NEGATIVE, UNAVAILABLE, App
from turnabout.cli._declare import command
from turnabout.cli._interrupt import stop_like_interrupt
from turnabout.cli._kinds import DURATION

if TYPE_CHECKING:
    from turnabout.dev.pgserver import PostgresServer

DATA_FOLDER = Path(".turnabout")
DATABASE = "turnabout"


@command(
    "dev",
    "turnabout dev --postgres",
    "turnabout dev --postgres --data /tmp/pg --port 5433",
    json='{"url", "version", "data", "applied": [names]} as soon as it takes connections',
)
@click.option("--postgres", is_flag=True, help="Start PostgreSQL, migrated.")
@click.option(
    "--data", type=click.Path(path_type=Path, file_okay=False),
    help=f"Folder for the data, kept. [default: {DATA_FOLDER}/postgres]",
)  # fmt: skip
@click.option("--port", type=click.IntRange(1, 65_535), help="Also open 127.0.0.1 on this port.")
@click.option("--version", "version", type=int, help="PostgreSQL's major version: 16 or 18.")
def dev(app: App, postgres: bool, data: Path | None, port: int | None, version: int | None) -> None:
    """Start a real PostgreSQL for development, and print its URL.

    There is nothing to install, and the schema is applied. Runs until Ctrl-C; the data is kept for
    the next time. Only this user can reach it, through a socket, unless --port opens 127.0.0.1.
    """
    if not postgres:
        raise click.UsageError(
            "say what to start: --postgres. SQLite needs no server: --url sqlite:///app.db"
        )
    try:
        from turnabout.dev.pgserver import PostgresError, PostgresServer
    except ImportError as error:  # Windows: it is for Linux and macOS
        app.refuse("unavailable", f"no PostgreSQL can be started here: {error}", NEGATIVE)
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
    from turnabout._connect import installer

    if DATABASE not in server.psql("select datname from pg_database").split():
        server.create_database(DATABASE)
    url = server.url(DATABASE)
    applied = installer(url).up(url)
    facts: dict[str, Any] = {
        "url": url,
        "version": server.version,
        "data": str(server.data),
        "applied": list(applied),
    }
    app.say(
        facts,
        f"PostgreSQL {server.version} runs, with its data in {server.data}\n\n"
        f"  export TURNABOUT_URL='{url}'\n\n"
        "Ctrl-C stops it; the data stays.",
    )
    _show.flush()
    try:
        while server.pid is not None:
            time.sleep(0.2)
    except KeyboardInterrupt:
        _show.note("Stopping PostgreSQL …")
        return
    log = server.log.read_text(errors="replace").strip().splitlines()[-5:]
    app.refuse("unavailable", "PostgreSQL ended by itself:\n" + "\n".join(log), UNAVAILABLE)


def _hide_from_git(folder: Path) -> None:
    """Data must not slip into a commit: the folder ignores itself."""
    folder.mkdir(exist_ok=True)
    ignore = folder / ".gitignore"
    if not ignore.exists():
        ignore.write_text("*\n")


@command(
    "demo",
    "turnabout demo",
    "turnabout demo --rows 20000 --workers 4",
    "turnabout demo --no-kill",
    "turnabout demo --pipeline",
    json="the verdict, as one document",
)
@click.option("--rows", type=click.IntRange(1), help="Flights. [default: all]")
@click.option("--workers", type=click.IntRange(1), help="Worker processes. [default: 3]")
@click.option("--batch", type=click.IntRange(1), help="Flights that a worker takes at once.")
@click.option("--lease", type=DURATION, help="How long a worker holds them. [default: 3s]")
@click.option("--no-kill", is_flag=True, help="Let all workers live.")
@click.option("--keep", is_flag=True, help="Leave the queue and the workers' diaries.")
@click.option("--pipeline", is_flag=True, help="Then archive it all with Spark, and report.")
@click.option("--out", metavar="FOLDER", help="Where the lake and the report go (--pipeline).")
@click.option("--no-open", is_flag=True, help="Don't open the report in a browser.")
def demo(
    app: App,
    no_kill: bool,
    keep: bool,
    pipeline: bool,
    out: str | None,
    no_open: bool,
    **numbers: float | None,
) -> None:
    """See it work: a year of flights, and a worker killed on the way.

    In the end it is counted that nothing was lost.
    It uses a new SQLite file of its own, unless --url names a database; TURNABOUT_URL is left
    alone, as that may be the one you work with.
    """
    from turnabout.dev.demo import main

    words = [f"--{name}={value:.15g}" for name, value in numbers.items() if value is not None]
    switches = {
        "--no-kill": no_kill,
        "--keep": keep,
        "--json": app.as_json,
        "--pipeline": pipeline,
        "--no-open": no_open,
    }
    words += [name for name, is_on in switches.items() if is_on]
    if app.given_url is not None:
        words.append(f"--url={app.given_url}")
    if out is not None:
        words.append(f"--out={out}")
    raise click.exceptions.Exit(main(words))
