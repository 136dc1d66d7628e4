"""`namespace`: the tenants of a server, and their quotas."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

from turnabout.cli import _show
from turnabout.cli._app import App, negative
from turnabout.cli._declare import argument, group, option
from turnabout.cli._json import items
from turnabout.cli._kinds import WHOLE_OR_NONE
from turnabout.cli._settings import values_of
from turnabout.server import verbs as c
from turnabout.server.commands.owner import namespace_given, open_database, shown_namespace
from turnabout.words.administration import QueueTotals, Totals
from turnabout.words.namespaces import namespace_of
from turnabout.words.value import Value, replace


class NamespaceRow(Value):
    """A namespace, its quotas, and its contents. bytes: None unless they were measured."""

    name: str
    max_messages: int | None
    max_bytes: int | None
    requests_per_second: int | None
    created_at: int | None
    queues: int
    messages: int
    bytes: int | None
    tokens: int


def _of(used: str, most: str) -> Callable[[NamespaceRow], str]:
    """A column that shows an amount and its limit."""

    def tell(one: NamespaceRow) -> str:
        text, limit = _show.cell(one, used, _show.count), getattr(one, most)
        return text if limit is None else f"{text} of {_show.count(limit)}"

    return tell


USAGE: _show.Columns = (
    ("NAMESPACE", "name", shown_namespace),
    ("QUEUES", "queues", _show.count),
    ("TOKENS", "tokens", _show.count),
    ("MESSAGES", _of("messages", "max_messages"), _show.figure),
    ("BYTES", _of("bytes", "max_bytes"), _show.figure),
    ("REQUESTS/S", "requests_per_second", _show.count),
)


@group("namespace", short_help="Tenants of a server and their quotas: set, list, delete.")
def namespace() -> None:
    """A namespace is a tenant of a server: its clients see its queues and no others.

    What they call emails is acme/emails in the database, and for programs that use the database's
    URL. A namespace begins with its first token (`turnabout token create`).
    """


@namespace.command(
    "set",
    "turnabout namespace set acme --max-messages 100000 --max-bytes 1000000000",
    "turnabout namespace set acme --requests-per-second none",
    json=c.Namespace,
)
@argument("name", required=False)
@option("--max-messages", "Unfinished messages.", WHOLE_OR_NONE)
@option("--max-bytes", "Bytes of their payloads.", WHOLE_OR_NONE)
@option("--requests-per-second", "Over all its tokens, at each server.", WHOLE_OR_NONE)
@option("--max-queues", "Queues, dead-letter queues included.", WHOLE_OR_NONE)
@option("--max-policies", "Channels with a policy of their own.", WHOLE_OR_NONE)
@option("--max-schedules", "Schedules.", WHOLE_OR_NONE)
@option("--max-history-bytes", "Bytes that history keeps.", WHOLE_OR_NONE)
@option("--max-polls", "Requests that wait at once, at each server.", WHOLE_OR_NONE)
@option("--weight", "Share of a server's time beside others.", WHOLE_OR_NONE)
def set_(app: App, name: str | None, **quotas: Any) -> None:
    """Set quotas of the namespace NAME, and make it if it is missing.

    `none` takes a quota away; those that are not given stay as they are. Without a NAME they are
    for the queues that have no namespace. Servers hold to them within seconds.
    """
    wanted = namespace_given(name)
    with open_database(app, create=True) as turnabout:
        known = {one.name: one for one in turnabout.store.run(c.NamespaceList())}
        changed = replace(known.get(wanted, c.Namespace(wanted)), **values_of(quotas))
        kept = turnabout.store.run(c.NamespaceSet(changed))
    app.say(kept, f"{shown_namespace(kept.name)}: {_quotas_text(kept)}.")


@namespace.command(
    "list",
    "turnabout namespace list",
    "turnabout namespace list --bytes --json",
    json=items(NamespaceRow),
)
@option("--bytes measure", "Measure payloads, too: reads all messages.", bool)
def list_(app: App, measure: bool) -> None:
    """List namespaces with quotas, tokens or queues, and what they use.

    MESSAGES are unfinished ones, TOKENS live ones.
    """
    with open_database(app) as turnabout:
        run = turnabout.store.run
        totals = run(Totals(bytes=measure))
        found = _usage(run(c.NamespaceList()), totals, run(c.TokenList()), measured=measure)
    none = "There are no namespaces: `turnabout token create NAMESPACE` makes one."
    app.show(found, USAGE, none)


@namespace.command("delete", "turnabout namespace delete acme", json='{"namespace", "deleted"}')
@argument("name")
def delete(app: App, name: str) -> None:
    """Remove the namespace NAME with its tokens.

    It is refused while it has queues or schedules.
    """
    wanted = namespace_given(name)
    with open_database(app) as turnabout:
        deleted = turnabout.store.run(c.NamespaceDelete(wanted))
    label = shown_namespace(wanted)
    text = f"Deleted {label}." if deleted else f"There is no namespace {label}."
    app.say({"namespace": wanted, "deleted": deleted}, text)
    if not deleted:
        negative()


def _usage(
    namespaces: Sequence[c.Namespace],
    totals: Sequence[QueueTotals],
    tokens: Sequence[c.Token],
    *,
    measured: bool,
) -> list[NamespaceRow]:
    """The queues of each namespace, by name; also of namespaces without a row of their own."""
    now = round(time.time() * 1000)
    kept = {one.name: one for one in namespaces}
    queues: dict[str, list[QueueTotals]] = {name: [] for name in kept}
    for one in totals:
        queues.setdefault(namespace_of(one.queue), []).append(one)
    live = [token.namespace for token in tokens if token.is_live(now)]
    found: list[NamespaceRow] = []
    for name, has in sorted(queues.items()):
        quotas = kept.get(name, c.Namespace(name))
        found.append(
            NamespaceRow(
                name,
                quotas.max_messages,
                quotas.max_bytes,
                quotas.requests_per_second,
                quotas.created_at,
                len(has),
                sum(one.unfinished for one in has),
                sum(one.bytes or 0 for one in has) if measured else None,
                live.count(name),
            )
        )
    return found


def _quotas_text(one: c.Namespace) -> str:
    limits = (
        (one.max_messages, ("message",)),
        (one.max_bytes, ("byte",)),
        (one.requests_per_second, ("request per second", "requests per second")),
        (one.max_queues, ("queue",)),
        (one.max_policies, ("channel with a policy", "channels with policies")),
        (one.max_schedules, ("schedule",)),
        (one.max_history_bytes, ("byte of history", "bytes of history")),
        (one.max_polls, ("waiting request",)),
    )
    parts = [_show.plural(limit, *what) for limit, what in limits if limit is not None]
    return f"at most {', '.join(parts)}" if parts else "not limited"
