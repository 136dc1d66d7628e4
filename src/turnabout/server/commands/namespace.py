"""`namespace`: the tenants of a server, and their quotas."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import click

from turnabout.cli import _show
from turnabout.cli._app import NEGATIVE, App
from turnabout.cli._declare import command, group
from turnabout.cli._kinds import NONE, WHOLE_OR_NONE
from turnabout.server.commands.owner import namespace_given, open_database, shown_namespace
from turnabout.words import credentials as c

SHAPE = '{"name", "max_messages", "max_bytes", "requests_per_second", "created_at"}'
USAGE = '"queues", "messages", "bytes", "tokens"'


@dataclass(frozen=True, slots=True)
class _Usage:
    """A namespace, and what is in it. bytes: None unless they were measured."""

    namespace: c.Namespace
    queues: int
    messages: int
    bytes: int | None
    tokens: int


@group(
    "namespace",
    "turnabout namespace set acme --max-messages 100000 --requests-per-second 50",
    "turnabout namespace list --bytes",
    "turnabout namespace delete acme",
    short_help="Tenants of a server and their quotas: set, list, delete.",
)
def namespace() -> None:
    """A namespace is a tenant of a server: its clients see its queues and no others.

    What they call emails is acme/emails in the database, and for who has the database's URL. A
    namespace begins with its first token (`turnabout token create`).
    """


@command(
    "set",
    "turnabout namespace set acme --max-messages 100000 --max-bytes 1000000000",
    "turnabout namespace set acme --requests-per-second none",
    json=SHAPE,
)
@click.argument("name", required=False)
@click.option("--max-messages", type=WHOLE_OR_NONE, help="Unfinished messages.")
@click.option("--max-bytes", type=WHOLE_OR_NONE, help="Bytes of their payloads.")
@click.option(
    "--requests-per-second", type=WHOLE_OR_NONE, help="Over all its tokens, at each server."
)
def set_(app: App, name: str | None, **quotas: int | str | None) -> None:
    """Set quotas of the namespace NAME, and make it if it is missing.

    `none` takes a quota away; those that are not given stay as they are. Without a NAME they are
    for the queues that have no namespace. Servers hold to them within seconds.
    """
    wanted = namespace_given(name)
    changes: dict[str, Any] = {
        quota: None if value == NONE else value
        for quota, value in quotas.items()
        if value is not None
    }
    with open_database(app, create=True) as turnabout:
        known = {one.name: one for one in turnabout.store.run(c.NamespaceList())}
        changed = replace(known.get(wanted, c.Namespace(wanted)), **changes)
        kept = turnabout.store.run(c.NamespaceSet(changed))
    app.say(asdict(kept), f"{shown_namespace(kept.name)}: {_told(kept)}.")


@command(
    "list",
    "turnabout namespace list",
    "turnabout namespace list --bytes --json",
    json=f'{{"namespaces": [{SHAPE[:-1]},\n  {USAGE}}}]}}',
)
@click.option("--bytes", "measure", is_flag=True, help="Measure payloads, too: reads all messages.")
def list_(app: App, measure: bool) -> None:
    """List namespaces with quotas, tokens or queues, and what they use.

    MESSAGES are unfinished ones, TOKENS live ones.
    """
    with open_database(app) as turnabout:
        run = turnabout.store.run
        found = _usage(
            run(c.NamespaceList()),
            run(c.Totals(bytes=measure)),
            run(c.TokenList()),
            measured=measure,
        )
    if app.as_json:
        documents = [
            {
                **asdict(one.namespace),
                "queues": one.queues,
                "messages": one.messages,
                "bytes": one.bytes,
                "tokens": one.tokens,
            }
            for one in found
        ]
        app.say({"namespaces": documents}, "")
        return
    if not found:
        _show.note("There is no namespace: `turnabout token create NAMESPACE` makes one.")
        return
    heads = ("NAMESPACE", "QUEUES", "TOKENS", "MESSAGES", "BYTES", "REQUESTS/S")
    rows = [
        (
            shown_namespace(one.namespace.name),
            _show.count(one.queues),
            _show.count(one.tokens),
            _of(one.messages, one.namespace.max_messages),
            _of(one.bytes, one.namespace.max_bytes),
            _limit(one.namespace.requests_per_second),
        )
        for one in found
    ]
    _show.out(_show.grid(heads, rows, range(1, 99)))


@command(
    "delete",
    "turnabout namespace delete acme",
    json='{"namespace", "deleted"}',
)
@click.argument("name")
def delete(app: App, name: str) -> None:
    """Remove the namespace NAME with its tokens. It is refused while it has queues or schedules."""
    wanted = namespace_given(name)
    with open_database(app) as turnabout:
        deleted = turnabout.store.run(c.NamespaceDelete(wanted))
    told = shown_namespace(wanted)
    text = f"Deleted {told}." if deleted else f"There is no namespace {told}."
    app.say({"namespace": wanted, "deleted": deleted}, text)
    if not deleted:
        raise click.exceptions.Exit(NEGATIVE)


def _usage(
    namespaces: Sequence[c.Namespace],
    totals: Sequence[c.QueueTotals],
    tokens: Sequence[c.Token],
    *,
    measured: bool,
) -> list[_Usage]:
    """What each namespace has, by name; of namespaces that nobody has set, too."""
    now = round(time.time() * 1000)
    kept = {one.name: one for one in namespaces}
    queues: dict[str, list[c.QueueTotals]] = {name: [] for name in kept}
    for one in totals:
        queues.setdefault(c.namespace_of(one.queue), []).append(one)
    live = [token.namespace for token in tokens if token.is_live(now)]
    return [
        _Usage(
            kept.get(name, c.Namespace(name)),
            len(has),
            sum(one.unfinished for one in has),
            sum(one.bytes or 0 for one in has) if measured else None,
            live.count(name),
        )
        for name, has in sorted(queues.items())
    ]


def _of(number: int | None, limit: int | None) -> str:
    """How much of how much."""
    used = "–" if number is None else _show.count(number)
    return used if limit is None else f"{used} of {_show.count(limit)}"


def _limit(limit: int | None) -> str:
    return "–" if limit is None else _show.count(limit)


def _told(one: c.Namespace) -> str:
    parts = [
        _show.plural(limit, *what)
        for limit, what in (
            (one.max_messages, ("message",)),
            (one.max_bytes, ("byte",)),
            (one.requests_per_second, ("request a second", "requests a second")),
        )
        if limit is not None
    ]
    return f"at most {', '.join(parts)}" if parts else "not limited"


namespace.add_section("Commands", set_, list_, delete)
