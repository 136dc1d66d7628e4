"""`token`: who may use a server."""

from __future__ import annotations

import time
from typing import Any

import click

from turnabout.cli import _show
from turnabout.cli._app import App
from turnabout.cli._declare import command, group
from turnabout.cli._kinds import DURATION
from turnabout.server.commands.owner import namespace_given, open_database, shown_namespace
from turnabout.words import credentials as c
from turnabout.words.errors import UsageError
from turnabout.words.limits import shown

SHAPE = (
    '{"id", "namespace", "label", "scopes": ["consume:emails", …], "created_at", "expires_at",\n'
    '  "revoked_at", "state": "live" | "expired" | "revoked"}\n'
    "times are milliseconds since 1970 by the database's clock"
)
DEFAULT_SCOPES = ("produce", "consume")


@group(
    "token",
    "turnabout token create acme --label website --scope produce:emails",
    "turnabout token create acme --label workers --scope consume --expires 90d",
    "turnabout token list acme",
    "turnabout token revoke mzxw6ytboi2a",
    short_help="Tokens of a server's clients: create, list, revoke.",
)
def token() -> None:
    """Tokens open the door of a server (`turnabout serve`). They are kept in its database.

    A token is for one namespace, whose queues it sees as if there were no others, and for what its
    scopes allow there. Who has the database's URL needs none.
    """


@command(
    "create",
    "turnabout token create acme --label website --scope produce:emails",
    "turnabout token create acme --scope 'consume:report-*' --scope peek --expires 30d",
    "turnabout token create acme --label admin --scope operate",
    "export TURNABOUT_TOKEN=$(turnabout token create acme)",
    json='{"token": "tbt_…", "id", …}: beside the token what `list` shows of it',
)
@click.argument("namespace", required=False)
@click.option("--label", default="", help="What it is for, to know it again in the list.")
@click.option(
    "--scope",
    "scopes",
    multiple=True,
    metavar="WHAT[:QUEUES]",
    help="produce, consume, operate or a verb such as peek; at queues: a name, * for any part. "
    "May be repeated. [default: produce and consume at all queues]",
)
@click.option("--expires", type=DURATION, help="After so long (12h, 30d); else when revoked.")
def create(
    app: App, namespace: str | None, label: str, scopes: tuple[str, ...], expires: float | None
) -> None:
    """Make a token for NAMESPACE, and print it: this once.

    The namespace is made if it is missing. Only a digest of it is kept: a token that is lost cannot
    be shown again, make another one. Without a NAMESPACE it is for the queues that have none: those
    that programs use by the database's URL.
    """
    if expires == 0:
        raise UsageError("a token that ends at once is for nobody: --expires 12h, 30d, or no end")
    token_id, secret, digest = c.new_token()
    verb = c.TokenCreate(
        token_id,
        digest,
        namespace_given(namespace),
        label,
        c.scopes(scopes or DEFAULT_SCOPES),
        None if expires is None else max(1, round(expires * 1000)),
    )
    with open_database(app, create=True) as turnabout:
        made = turnabout.store.run(verb)
    text = c.token_text(token_id, secret)
    if app.as_json:
        app.say({"token": text, **_as_dict(made)}, "")
        return
    _show.out(text)
    ends = (
        "until it is revoked"
        if made.expires_at is None
        else f"it ends {_show.when(made.expires_at)}"
    )
    _show.note(
        f"For {shown_namespace(made.namespace)}: {', '.join(map(str, made.scopes))}; {ends}. "
        f"It is shown this once. To end it: turnabout token revoke {made.id}"
    )


@command(
    "list",
    "turnabout token list",
    "turnabout token list acme",
    json='{"tokens": [one for each]}, and of each:\n' + SHAPE,
)
@click.argument("namespace", required=False)
def list_(app: App, namespace: str | None) -> None:
    """List the tokens of NAMESPACE, or of all, the newest first. Their secrets are not kept.

    NAMESPACE '' is the unnamed one.
    """
    wanted = None if namespace is None else namespace_given(namespace)
    with open_database(app) as turnabout:
        found = turnabout.store.run(c.TokenList(wanted))
    if app.as_json:
        app.say({"tokens": [_as_dict(one) for one in found]}, "")
        return
    if not found:
        _show.note("There is no token: `turnabout token create NAMESPACE` makes one.")
        return
    heads = ("ID", "NAMESPACE", "LABEL", "SCOPES", "STATE", "MADE", "ENDS")
    rows = [
        (
            one.id,
            shown_namespace(one.namespace),
            _show.clean(one.label) or "–",
            " ".join(map(str, one.scopes)) or "–",
            _state(one),
            _show.when(one.created_at),
            "–" if one.expires_at is None else _show.when(one.expires_at),
        )
        for one in found
    ]
    _show.out(_show.grid(heads, rows, range(5, 99)))


@command(
    "revoke",
    "turnabout token revoke mzxw6ytboi2a",
    json=SHAPE,
)
@click.argument("token_id", metavar="ID")
def revoke(app: App, token_id: str) -> None:
    """End the token ID. Servers let it in for up to five seconds more."""
    if token_id.startswith(c.TOKEN_PREFIX):  # the token itself
        token_id = token_id.removeprefix(c.TOKEN_PREFIX).partition("_")[0]
    with open_database(app) as turnabout:
        ended = turnabout.store.run(c.TokenRevoke(token_id))
    if ended is None:
        raise UsageError(
            f"there is no token of the id {shown(token_id)}: see `turnabout token list`"
        )
    app.say(_as_dict(ended), f"Token {ended.id} is revoked.")


def _state(one: c.Token) -> str:
    if one.revoked_at is not None:
        return "revoked"
    return "live" if one.is_live(round(time.time() * 1000)) else "expired"


def _as_dict(one: c.Token) -> dict[str, Any]:
    return {
        "id": one.id,
        "namespace": one.namespace,
        "label": one.label,
        "scopes": [str(scope) for scope in one.scopes],
        "created_at": one.created_at,
        "expires_at": one.expires_at,
        "revoked_at": one.revoked_at,
        "state": _state(one),
    }


token.add_section("Commands", create, list_, revoke)
