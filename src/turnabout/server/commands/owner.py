"""Tokens and namespaces: kept by the owner of the database, without a server."""

from __future__ import annotations

from typing import TYPE_CHECKING

from turnabout.cli import _places, _show
from turnabout.cli._app import App
from turnabout.words.errors import UsageError
from turnabout.words.namespaces import NO_NAMESPACE, namespace_name

if TYPE_CHECKING:
    from turnabout import Turnabout

UNNAMED = "(unnamed)"
"""Text shown for queues without a namespace."""


def open_database(app: App, *, create: bool = False) -> Turnabout:
    """The database itself. Raises: UsageError for the URL of a server."""
    if _places.is_server(app.url):
        raise UsageError(
            "tokens and quotas are kept in its database, not set through a server: "
            "give the database's URL (--url postgresql://… or --url sqlite:///path)"
        )
    return app.open(create=create)


def namespace_given(text: str | None) -> str:
    """A namespace from the command line; none, or an empty one, is the unnamed one."""
    return namespace_name(text) if text else NO_NAMESPACE


def shown_namespace(name: str) -> str:
    """A namespace's name as text for people."""
    return _show.clean(name) if name else UNNAMED
