"""`dev`: a real PostgreSQL, for developing."""

from __future__ import annotations

import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import click

from turnabout.cli import _show
from turnabout.cli._app import UNAVAILABLE, App
from turnabout.cli._declare import command, option
from turnabout.cli._interrupt import stop_like_interrupt
from turnabout.words.errors import TurnaboutError
from turnabout.words.extras import refuse_windows
from turnabout.words.value import Value

if TYPE_CHECKING:
    from turnabout import Turnabout
    from turnabout._sync.upkeep import Upkeep
    from turnabout.dev.pgserver import PostgresServer

DATA_FOLDER = Path(".turnabout")
DATABASE = "turnabout"
KEEP_UP_SECONDS = 1.0


class Running(Value):
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
    """Do the workers' upkeep, as there may be none: schedules, expired leases, due messages."""
    with suppress(TurnaboutError):  # a database that its owner is just playing with
        turnabout.schedules.fire_due(on_error=lambda _: None)
        upkeep.step()


def _hide_from_git(folder: Path) -> None:
    """Data must not slip into a commit: the folder ignores itself."""
    folder.mkdir(exist_ok=True)
    ignore = folder / ".gitignore"
    if not ignore.exists():
        ignore.write_text("*\n")


SECTIONS = {"Programs": (dev,)}
