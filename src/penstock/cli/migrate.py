"""`migrate` and `sql`: the schema, applied here or printed for another tool."""

from __future__ import annotations

from dataclasses import asdict

import click

from penstock.cli import _places, _show
from penstock.cli._app import NOT_AS_WISHED, App, command, group, pass_app
from penstock.words.errors import UsageError


@group(
    "migrate",
    short_help="Bring the database to this version's schema: up, status.",
    examples=[
        "penstock migrate up --url postgresql://app@localhost/app",
        "penstock migrate status",
    ],
)
def migrate() -> None:
    """The database's schema. An SQLite file is migrated whenever it is opened."""


@command(
    "up",
    short_help="Apply what is missing.",
    examples=["penstock migrate up --url postgresql://app@localhost/app"],
    json_form='{"applied": [names]}',
)
@pass_app
def up(app: App) -> None:
    """Bring the database to this version's schema. Safe to repeat, and to run many at once.

    PostgreSQL: over a direct connection, not through a pooler; no superuser is needed.
    """
    from penstock._connect import installer

    applied = installer(app.url).up(app.url)
    if app.as_json:
        app.document({"applied": list(applied)})
        return
    for name in applied:
        _show.out(f"applied {name}")
    if not applied:
        _show.out("Nothing to do: the database is up to date.")


@command(
    "status",
    short_help="Say what is missing.",
    examples=["penstock migrate status", "penstock migrate status || penstock migrate up"],
    json_form='{"current", "wanted", "pending": [names]}',
)
@pass_app
def status(app: App) -> None:
    """Say how far the database has come. Exit code 1 if something is to be applied."""
    from penstock._connect import installer

    app.need_file()
    found = installer(app.url).status(app.url)
    if app.as_json:
        app.document(asdict(found) | {"pending": list(found.pending)})
    elif found.pending:
        _show.out(f"At step {found.current} of {found.wanted}. To be applied:")
        for name in found.pending:
            _show.out(f"  {name}")
        _show.note("Apply it with: penstock migrate up")
    elif found.current > found.wanted:
        _show.out(f"At step {found.current}; this version of penstock knows {found.wanted}.")
    else:
        _show.out(f"Up to date, at step {found.current}.")
    if found.pending or found.current > found.wanted:
        raise click.exceptions.Exit(NOT_AS_WISHED)


@command(
    "sql",
    short_help="Print the schema as SQL, for any migration tool.",
    examples=[
        "penstock sql --dialect postgresql > penstock.sql",
        "penstock sql --dialect sqlite | sqlite3 app.db",
        "penstock sql --dialect postgresql --json | jq -r '.migrations[].name'",
    ],
    json_form='{"dialect", "script", "migrations": [{"number", "name", "sql"}]}\n'
    "script: the whole, functions included; migrations: the numbered steps for tables",
)
@click.option(
    "--dialect",
    type=click.Choice(["postgresql", "sqlite"]),
    help="Unless given, as the URL says.",
)
@pass_app
def sql(app: App, dialect: str | None) -> None:
    """Print all SQL that an empty database needs, in order. Touches no database."""
    from penstock._connect import installer

    if dialect is None:
        if not (_places.is_sqlite(app.url) or _places.is_postgres(app.url)):
            raise UsageError("say which one: --dialect postgresql or --dialect sqlite")
        dialect = "sqlite" if _places.is_sqlite(app.url) else "postgresql"
    module = installer(f"{dialect}://")
    script: str = module.script()
    steps = [asdict(step) for step in module.migrations()]
    app.outcome({"dialect": dialect, "script": script, "migrations": steps}, script.rstrip("\n"))


migrate.add_section("Commands", up, status)
