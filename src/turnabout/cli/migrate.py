"""`migrate` and `sql`: the schema, applied here or printed for another tool."""

from __future__ import annotations

from dataclasses import asdict

import click

from turnabout.cli import _places, _show
from turnabout.cli._app import NOT_AS_WISHED, App, Command, command, group, pass_app
from turnabout.words.errors import UsageError
from turnabout.words.extras import UPGRADE_HINT
from turnabout.words.migration import SchemaStatus


@group(
    "migrate",
    short_help="Bring the database to this version's schema: up, status, prune, allow.",
    examples=[
        "turnabout migrate up --url postgresql://app@localhost/app",
        "turnabout migrate status",
        "turnabout migrate allow produce web --url postgresql://app@localhost/app",
    ],
)
def migrate() -> None:
    """The database's schema. An SQLite file is migrated whenever it is opened."""


@command(
    "up",
    short_help="Apply what is missing.",
    examples=["turnabout migrate up --url postgresql://app@localhost/app"],
    json_form='{"applied": [names]}',
)
@pass_app
def up(app: App) -> None:
    """Bring the database to this version's schema. Safe to repeat, and to run many at once.

    PostgreSQL: over a direct connection, not through a pooler; no superuser is needed.
    """
    from turnabout._connect import installer

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
    examples=["turnabout migrate status", "turnabout migrate status || turnabout migrate up"],
    json_form='{"current", "wanted", "pending": [names], "slices": {name: step},\n'
    ' "revisions": [numbers], "too_new"}\n'
    "slices: their last steps; revisions: the sets of functions that are installed (PostgreSQL)",
)
@pass_app
def status(app: App) -> None:
    """Say how far the database has come. Exit code 1 if this version cannot work on it yet."""
    from turnabout._connect import installer

    app.need_file()
    found = installer(app.url).status(app.url)
    if app.as_json:
        app.document(asdict(found))
    else:
        _tell(found)
    if found.pending or found.too_new:
        raise click.exceptions.Exit(NOT_AS_WISHED)


def _tell(found: SchemaStatus) -> None:
    if found.too_new:
        _show.out(f"At step {found.current}, where this version of turnabout cannot follow.")
        _show.note(f"Too old: {UPGRADE_HINT}")
    elif found.pending:
        _show.out(f"At step {found.current} of {found.wanted}. To be applied:")
        for name in found.pending:
            _show.out(f"  {name}")
        _show.note("Apply it with: turnabout migrate up")
    elif found.current > found.wanted:
        _show.out(
            f"At step {found.current}, of a newer version; this one knows {found.wanted} and works."
        )
    else:
        _show.out(f"Up to date, at step {found.current}.")
    if found.revisions:
        _show.out(f"Functions: {', '.join(f'revision {number}' for number in found.revisions)}.")


@command(
    "prune",
    short_help="Drop what only older versions of turnabout call.",
    examples=["turnabout migrate prune --url postgresql://app@localhost/app"],
    json_form='{"dropped": [schemas]}',
)
@pass_app
def prune(app: App) -> None:
    """Drop the functions of older versions. Programs that still run one of them stop working."""
    from turnabout._connect import installer

    app.need_file()
    dropped = installer(app.url).prune(app.url)
    if app.as_json:
        app.document({"dropped": list(dropped)})
        return
    for name in dropped:
        _show.out(f"dropped {name}")
    if not dropped:
        _show.out("Nothing to drop: there are no functions of older versions.")


def _permission(what: str, done: str, short_help: str, text: str) -> Command:
    """`allow` or `disallow`: they differ in a word."""

    @click.argument("kind", type=click.Choice(["produce", "consume", "operate"]))
    @click.argument("role")
    @pass_app
    def run(app: App, kind: str, role: str) -> None:
        if _places.is_sqlite(app.url):
            raise UsageError(
                "SQLite has no roles: who may read and write the file and its folder may do all"
            )
        from turnabout._connect import installer

        getattr(installer(app.url), what)(app.url, role, kind)
        app.outcome({"role": role, "kind": kind}, f"{role} {done} {kind}.")

    run.__doc__ = text
    return command(
        what,
        short_help=short_help,
        examples=[f"turnabout migrate {what} produce web --url postgresql://app@localhost/app"],
        json_form='{"role", "kind"}',
    )(run)


allow = _permission(
    "allow",
    "may",
    "Let a PostgreSQL role produce, consume or operate.",
    """Let a role of PostgreSQL use the queues, also after later upgrades; `public` is all roles.

    produce: send. consume: what a worker does. operate: everything. No role needs rights on tables.
    """,
)
disallow = _permission(
    "disallow",
    "may no longer",
    "Take such a permission back.",
    """Take a permission back from a role of PostgreSQL. Running calls end as they began.""",
)


def _steps(_: click.Context, option: click.Parameter, given: tuple[str, ...]) -> dict[str, int]:
    found: dict[str, int] = {}
    for text in given:
        name, _equals, number = text.rpartition("=")
        if not number.isdecimal():
            raise click.BadParameter(f"{text!r} is not a step: 2, or pipeline=1", param=option)
        found[name] = int(number)
    return found


@command(
    "sql",
    short_help="Print the schema as SQL, for any migration tool.",
    examples=[
        "turnabout sql --dialect postgresql > turnabout.sql",
        "turnabout sql --dialect postgresql --since 1 --since pipeline=1 > upgrade.sql",
        "turnabout sql --dialect sqlite | sqlite3 app.db",
        "turnabout sql --dialect postgresql --json | jq -r '.migrations[].name'",
    ],
    json_form='{"dialect", "script",\n'
    ' "migrations": [{"number", "name", "sql", "oldest", "slice"}]}\n'
    "script: the whole, functions included; migrations: the numbered steps for tables",
)
@click.option(
    "--dialect",
    type=click.Choice(["postgresql", "sqlite"]),
    help="Unless given, as the URL says.",
)
@click.option(
    "--since",
    multiple=True,
    metavar="STEP",
    callback=_steps,
    help="The last step that the database has, as `migrate status` says: `2`, and `pipeline=1` for"
    " that of a slice. What is not named is missing.",
)
@pass_app
def sql(app: App, dialect: str | None, since: dict[str, int]) -> None:
    """Print all SQL that a database needs, in order, as one transaction. Touches no database."""
    from turnabout._connect import installer

    if dialect is None:
        if not (_places.is_sqlite(app.url) or _places.is_postgres(app.url)):
            raise UsageError("say which one: --dialect postgresql or --dialect sqlite")
        dialect = "sqlite" if _places.is_sqlite(app.url) else "postgresql"
    module = installer(f"{dialect}://")
    script: str = module.script(since)
    steps = [asdict(step) for step in module.migrations() if step.number > since.get(step.slice, 0)]
    app.outcome({"dialect": dialect, "script": script, "migrations": steps}, script.rstrip("\n"))


migrate.add_section("Commands", up, status, prune, allow, disallow)
