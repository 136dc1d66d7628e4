"""`token`: access to a server."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

from turnabout.cli import _show
from turnabout.cli._app import App
from turnabout.cli._declare import argument, group, option
from turnabout.cli._json import items
from turnabout.cli._kinds import DURATION
from turnabout.server import verbs as c
from turnabout.server.commands.owner import namespace_given, open_database, shown_namespace
from turnabout.words.entities import QueueEntry
from turnabout.words.errors import UsageError
from turnabout.words.limits import shown
from turnabout.words.namespaces import NO_NAMESPACE
from turnabout.words.urls import TOKEN_PREFIX
from turnabout.words.value import Value
from turnabout.words.verbs import QueueList

DEFAULT_SCOPES = ("produce", "consume")


class ShownToken(Value):
    """A token as it may be shown; state: live, expired or revoked."""

    id: str
    namespace: str
    label: str
    scopes: tuple[str, ...]
    created_at: int
    expires_at: int | None
    revoked_at: int | None
    state: str


def _shown(one: c.Token) -> ShownToken:
    is_live = one.is_live(round(time.time() * 1000))
    state = "live" if is_live else "expired" if one.revoked_at is None else "revoked"
    scopes = tuple(map(str, one.scopes))
    times = (one.created_at, one.expires_at, one.revoked_at)
    return ShownToken(one.id, one.namespace, one.label, scopes, *times, state)


TOKENS: _show.Columns = (
    ("ID", "id", str),
    ("NAMESPACE", "namespace", shown_namespace),
    ("LABEL", lambda one: one.label or None, _show.clean),
    ("SCOPES", lambda one: " ".join(one.scopes) or None, str),
    ("STATE", "state", str),
    ("MADE", "created_at", _show.when),
    ("ENDS", "expires_at", _show.when),
)


@group("token", short_help="Tokens of a server's clients: create, list, revoke.")
def token() -> None:
    """Tokens let clients use a server (`turnabout serve`). They are kept in its database.

    A token is for one namespace, whose queues it sees as if there were no others, and for what its
    scopes allow there. With the database's URL no token is needed.
    """


@token.command(
    "create",
    "turnabout token create acme --label website --scope produce:emails",
    "turnabout token create acme --scope 'consume:report-*' --scope peek --expires 30d",
    "turnabout token create acme --label admin --scope operate",
    "turnabout token create acme --scope produce --scope consume --scope sign  # for SQS's clients",
    "export TURNABOUT_TOKEN=$(turnabout token create acme)",
    json='{"token": "tbt_…", "id", …}: the token, and what `list` shows of it',
)
@argument("namespace", required=False)
@option("--label", "What it is for; shown in the list.", default="", show_default=False)
@option(
    "--scope scopes",
    "produce, consume, operate or a verb such as peek; after a colon, queues: a name, * for any "
    "part. May be repeated. [default: produce and consume, all queues]",
    multiple=True,
    metavar="WHAT[:QUEUES]",
)
@option("--expires", "It ends after this time (12h, 30d); else when revoked.", DURATION)
def create(
    app: App, namespace: str | None, label: str, scopes: tuple[str, ...], expires: float | None
) -> None:
    """Make a token for NAMESPACE, and print it: this once.

    The namespace is made if it is missing. Only a digest is kept: a token that is lost cannot be
    shown again, make another one. Without a NAMESPACE it is for the queues that have none: those
    that programs use by the database's URL. With one it sees none of those. It locks nobody out.
    """
    if expires == 0:
        raise UsageError("a token that ends at once is useless: use --expires 12h, or leave it out")
    token_id, secret, digest = c.new_token()
    ends_after = None if expires is None else max(1, round(expires * 1000))
    allowed = c.scopes(scopes or DEFAULT_SCOPES)
    verb = c.TokenCreate(token_id, digest, namespace_given(namespace), label, allowed, ends_after)
    with open_database(app, create=True) as turnabout:
        unseen = _unseen(turnabout.store.run(QueueList(namespace=NO_NAMESPACE)), verb.namespace)
        made = _shown(turnabout.store.run(verb))
    text = c.token_text(token_id, secret)
    signs = any(scope.verbs == c.SIGN for scope in allowed)
    more: dict[str, Any] = {"secret_access_key": c.signing_secret(digest)} if signs else {}
    app.say(made, text, token=text, **more)
    if not app.as_json:
        ends = "until it is revoked"
        if made.expires_at is not None:
            ends = f"it ends {_show.when(made.expires_at)}"
        _show.note(
            f"For {shown_namespace(made.namespace)}: {', '.join(made.scopes)}; {ends}. "
            f"It is shown this once. To end it: turnabout token revoke {made.id}{unseen}"
        )
        if signs:
            _show.note(
                f"For clients of SQS:\nexport AWS_ACCESS_KEY_ID={made.id}\n"
                f"export AWS_SECRET_ACCESS_KEY={c.signing_secret(digest)}"
            )


def _unseen(without: Sequence[QueueEntry], namespace: str) -> str:
    """A warning that a token does not see queues made before there were namespaces."""
    if namespace == NO_NAMESPACE or not without:
        return ""
    return (
        f"\nIt does not see the {_show.plural(len(without), 'queue')} without a namespace, such as "
        f"{without[0].name}: `turnabout token create` without {namespace} makes one that does."
    )


@token.command("list", "turnabout token list", "turnabout token list acme", json=items(ShownToken))
@argument("namespace", required=False)
def list_(app: App, namespace: str | None) -> None:
    """List the tokens of NAMESPACE, or of all, the newest first.

    Expired and revoked ones are listed, too; their secrets are not kept. NAMESPACE '' is the
    unnamed one.
    """
    wanted = None if namespace is None else namespace_given(namespace)
    with open_database(app) as turnabout:
        found = map(_shown, turnabout.store.run(c.TokenList(wanted)))
    app.show(found, TOKENS, "There are no tokens: `turnabout token create NAMESPACE` makes one.")


@token.command("revoke", "turnabout token revoke mzxw6ytboi2a", json=ShownToken)
@argument("token_id", metavar="ID")
def revoke(app: App, token_id: str) -> None:
    """End the token ID. Servers accept it for up to five seconds more."""
    if token_id.startswith(TOKEN_PREFIX):  # the token itself
        token_id = token_id.removeprefix(TOKEN_PREFIX).partition("_")[0]
    with open_database(app) as turnabout:
        ended = turnabout.store.run(c.TokenRevoke(token_id))
    if ended is None:
        raise UsageError(f"there is no token with id {shown(token_id)}: see `turnabout token list`")
    app.say(_shown(ended), f"Token {ended.id} is revoked.")
