"""The session of a browser: a token that was shown once, in a cookie that no script can read.

The cookie is sent to this server's dashboard alone, and by its own pages alone (SameSite=Strict);
what changes anything is a POST whose Origin is this server. So no other site can act by it.
"""

from __future__ import annotations

from base64 import urlsafe_b64decode, urlsafe_b64encode
from urllib.parse import parse_qsl

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from turnabout.server.auth.authorized_store import AuthorizedStore
from turnabout.server.auth.rights import Rights
from turnabout.server.context import ServerContext
from turnabout.words import verbs as v
from turnabout.words.administration import Totals
from turnabout.words.errors import Forbidden, UsageError
from turnabout.words.namespaces import NO_NAMESPACE, namespace_name

PLACE = "/dashboard"
COOKIE = "turnabout_token"
NOTICE = "turnabout_notice"
SESSION_SECONDS = 12 * 3600
NOTICE_CHARS_MAX = 3_000
FIELDS_MAX = 1_200
"""Fields of one form: the rows of a page are far fewer."""


async def caller_of(context: ServerContext, request: Request) -> AuthorizedStore:
    """The store of the request's session; in the namespace of its path, for an operator.

    Raises: Unauthorized, Forbidden, TooManyRequests.
    """
    token = request.cookies.get(COOKIE)
    if token and "authorization" not in request.headers:
        with_token = (b"authorization", f"Bearer {token}".encode("latin-1", "replace"))
        request.scope["headers"] = [*request.scope["headers"], with_token]
    caller = await context.caller(request)
    name = request.path_params.get("namespace")
    if name is None:
        return caller
    if not is_operator(caller.rights):
        raise Forbidden("only an operator sees the queues of other namespaces")
    return AuthorizedStore(context, Rights(namespace_name(name)))


def is_operator(rights: Rights) -> bool:
    """Whether the caller may do everything, in all namespaces: the first token's rights are
    `operate:*` and `totals:*`, without a namespace.
    """
    if rights.namespace != NO_NAMESPACE or rights.scopes is None:
        return rights.namespace == NO_NAMESPACE
    totals = any(scope.verbs == Totals.name and scope.queues == "*" for scope in rights.scopes)
    return totals and rights.allows(v.QueueDelete, None)


def set_cookie(request: Request, response: Response, name: str, value: str, seconds: int) -> None:
    """Keep a value in the browser, where only requests to the dashboard have it."""
    response.set_cookie(
        name, value, seconds, path=PLACE, secure=request.url.scheme == "https",
        httponly=True, samesite="strict",
    )  # fmt: skip


class Flash(msgspec.Struct):
    """A sentence for the next page about what was done, and the form that takes it back."""

    text: str
    undo: dict[str, str] | None = None


def notify(request: Request, response: Response, notice: Flash) -> None:
    """Leave a notice for the next page. One that is too large for a cookie is cut."""
    for some in (notice, Flash(notice.text), Flash(notice.text[:500] + "…")):
        value = urlsafe_b64encode(msgspec.json.encode(some)).decode()
        if len(value) <= NOTICE_CHARS_MAX:
            set_cookie(request, response, NOTICE, value, 60)
            return


def notice_of(request: Request) -> Flash | None:
    """Read what the last request has left to be told."""
    try:
        packed = urlsafe_b64decode(request.cookies[NOTICE])
        return msgspec.json.decode(packed, type=Flash)
    except (KeyError, ValueError, msgspec.MsgspecError):
        return None


async def form_of(request: Request) -> dict[str, list[str]]:
    """The fields of a form that one of our own pages has sent. Raises: UsageError, Forbidden."""
    origin = request.headers.get("origin", "")
    if origin.partition("://")[2].lower() != request.headers.get("host", "").lower():
        raise Forbidden("a form has to come from a page of this server")
    try:
        pairs = parse_qsl(
            (await request.body()).decode(), keep_blank_values=True, max_num_fields=FIELDS_MAX
        )
    except ValueError as error:
        raise UsageError("the form cannot be read") from error
    fields: dict[str, list[str]] = {}
    for name, value in pairs:
        fields.setdefault(name, []).append(value)
    return fields
