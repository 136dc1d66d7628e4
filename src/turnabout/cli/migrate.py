"""`migrate` and `sql`: the schema, applied here or printed for another tool."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import click

from turnabout.cli import _places, _show
from turnabout.cli._app import App, negative
from turnabout.cli._declare import argument, command, group, option
from turnabout.words.errors import UsageError
from turnabout.words.extras import UPGRADE_HINT
from turnabout.words.migration import SchemaStatus

POSTGRESQL = "--url postgresql://app@localhost/app"


@group("migrate", short_help="The database's schema: up, status, prune, allow, disallow.")
def migrate() -> None:
    """The database's schema. An SQLite file is migrated whenever it is opened."""


def _installer(app: App) -> Any:
    from turnabout._connect import installer

    return installer(app.url)


@migrate.command("up", f"turnabout migrate up {POSTGRESQL}", json='{"applied": [names]}')
def up(app: App) -> None:
    """Bring the database to this version's schema.

    Safe to repeat, and to run many at once. PostgreSQL: over a direct connection, not through a
    pooler; no superuser is needed.
    """
    names = list(_installer(app).up(app.url))
    text = "\n".join(f"applied {name}" for name in names)
    app.say({"applied": names}, text or "Nothing to do: the database is up to date.")


@migrate.command(
    "status",
    "turnabout migrate status",
    "turnabout migrate status || turnabout migrate up",
    json=SchemaStatus,
)
def status(app: App) -> None:
    """Say how far the database has come. Exit code 1 if this version cannot work on it yet."""
    app.need_file()
    found: SchemaStatus = _installer(app).status(app.url)
    app.say(found, "\n".join(_status_lines(found)))
    if found.too_new and not app.as_json:
        _show.note(f"This version is too old: {UPGRADE_HINT}")
    elif found.pending and not app.as_json:
        _show.note("Apply it with: turnabout migrate up")
    if found.pending or found.too_new:
        negative()


def _status_lines(found: SchemaStatus) -> Iterator[str]:
    if found.too_new:
        yield f"At step {found.current}, where this version of turnabout cannot follow."
    elif found.pending:
        yield f"At step {found.current} of {found.wanted}. To be applied:"
        yield from (f"  {name}" for name in found.pending)
    elif found.current > found.wanted:
        newer = f"At step {found.current}, of a newer version"
        yield f"{newer}; this one knows {found.wanted} and works."
    else:
        yield f"Up to date, at step {found.current}."
    if found.revisions:
        yield f"Functions: {', '.join(f'revision {number}' for number in found.revisions)}."


@migrate.command("prune", f"turnabout migrate prune {POSTGRESQL}", json='{"dropped": [schemas]}')
def prune(app: App) -> None:
    """Drop the functions that only older versions call.

    Programs that still run one of these versions stop working.
    """
    app.need_file()
    names = list(_installer(app).prune(app.url))
    text = "\n".join(f"dropped {name}" for name in names)
    app.say(
        {"dropped": names}, text or "Nothing to drop: there are no functions of older versions."
    )


def _change(app: App, what: str, role: str, kind: str, **limits: Any) -> None:
    """`allow` or `disallow`."""
    if _places.is_sqlite(app.url):
        raise UsageError(
            "SQLite has no roles: anyone who can write the file and its folder may do anything"
        )
    getattr(_installer(app), what)(app.url, role, kind, **limits)
    done = "may" if what == "allow" else "may no longer"
    app.say({"role": role, "kind": kind}, f"{role} {done} {kind}.")


_KIND = argument("kind", click.Choice(["produce", "consume", "operate"]))


@migrate.command(
    "allow",
    f"turnabout migrate allow produce web {POSTGRESQL}",
    f"turnabout migrate allow produce shop --queues 'orders*' {POSTGRESQL}",
    json='{"role", "kind"}',
)
@_KIND
@argument("role")
@option("--queues", "Only to these; once for each; * is any part.", str, multiple=True)
@option("--max-payload-bytes", "Of what it sends; 1 MiB unless given.", int)
def allow(app: App, kind: str, role: str, queues: tuple[str, ...], **limits: Any) -> None:
    """Let a PostgreSQL role produce, consume or operate.

    This holds after later upgrades, too. produce: send. consume: what a worker does. operate:
    everything. No role needs rights on tables; `public` is all roles. The options are for produce.
    """
    _change(app, "allow", role, kind, queues=queues, **limits)


@migrate.command(
    "disallow", f"turnabout migrate disallow produce web {POSTGRESQL}", json='{"role", "kind"}'
)
@_KIND
@argument("role")
def disallow(app: App, kind: str, role: str) -> None:
    """Take a permission back from a PostgreSQL role. Running calls end as they began."""
    _change(app, "disallow", role, kind)


def _steps(_: click.Context, option: click.Parameter, texts: tuple[str, ...]) -> dict[str, int]:
    found: dict[str, int] = {}
    for text in texts:
        name, _equals, number = text.rpartition("=")
        if not number.isdecimal():
            raise click.BadParameter(f"{text!r} is not a step: 2, or pipeline=1", param=option)
        found[name] = int(number)
    return found


@command(
    "sql",
    "turnabout sql --dialect postgresql | psql --single-transaction",
    "turnabout sql --dialect postgresql --since 1 --since pipeline=1 > upgrade.sql",
    "turnabout sql --dialect postgresql --json | jq '.statements[]'",
    json='{"dialect", "statements": [sql]}\n'
    "statements: to be run one by one, in this order, functions included",
)
@option("--dialect", "Unless given, as the URL says.", ("postgresql", "sqlite"))
@option(
    "--since",
    "The last step that the database has, as `migrate status` says: `2`, and `pipeline=1` for that"
    " of a slice. What is not named is missing.",
    metavar="STEP",
    multiple=True,
    callback=_steps,
)
def sql(app: App, dialect: str | None, since: dict[str, int]) -> None:
    """Print the schema as SQL, for any migration tool. Touches no database.

    Nothing in it begins or ends a transaction: run all of it in one, as migration tools do.
    """
    from turnabout._connect import installer

    if dialect is None:
        if not (_places.is_sqlite(app.url) or _places.is_postgres(app.url)):
            raise UsageError("say which one: --dialect postgresql or --dialect sqlite")
        dialect = "sqlite" if _places.is_sqlite(app.url) else "postgresql"
    statements = installer(f"{dialect}://").steps(since)
    app.say({"dialect": dialect, "statements": statements}, ";\n\n".join(statements) + ";")
