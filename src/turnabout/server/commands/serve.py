"""`serve`: HTTP in front of the database, until it is stopped."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, TypeVar

import click

from turnabout.cli import _places, _show
from turnabout.cli._app import NEGATIVE, App
from turnabout.cli._declare import command
from turnabout.words.errors import UsageError
from turnabout.words.extras import install_hint

if TYPE_CHECKING:
    from turnabout.server.serve import Serving

F = TypeVar("F", bound=Callable[..., Any])

LIMITS = {
    "max_payload_bytes": "Of one message.",
    "max_body_bytes": "Of one request.",
    "max_header_bytes": "Of the request line and all headers.",
    "max_headers": "Of one request.",
    "max_messages": "In one request.",
    "head_seconds": "For a request's headers to come.",
    "body_idle_seconds": "Between two pieces of a body.",
    "body_seconds": "For a whole body to come.",
    "idle_seconds": "For a connection without a request.",
    "write_seconds": "For a client to take an answer.",
    "max_connections": "At once.",
    "max_polls": "Requests that wait at once.",
    "max_wait_seconds": "A longer wait_seconds is cut to this.",
    "max_pending": "Requests that want the database at once.",
    "drain_seconds": "For requests to end after SIGTERM.",
}
"""Options of `ServerOptions` that are numbers, in the order of the help."""


def _limits(function: F) -> F:
    """An option for each limit; what is not given stays at the server's default."""
    for name, text in reversed(LIMITS.items()):
        kind = click.FLOAT if name.endswith("_seconds") else click.INT
        option = click.option(f"--{name.replace('_', '-')}", type=kind, metavar="N", help=text)
        function = option(function)
    return function


@command(
    "serve",
    "turnabout serve --url sqlite:///app.db",
    "turnabout serve --url postgresql://app@localhost/app --port 9000",
    "turnabout serve --host 0.0.0.0 --allow-host queue.example.com",
    json='{"url", "port", "dashboard", "pid"} as soon as it takes connections',
)
@click.option("--host", help="Address to listen on. [default: 127.0.0.1]")
@click.option("--port", type=click.IntRange(0, 65_535), help="0: any. [default: 8080]")
@click.option("--allow-host", "allowed_hosts", multiple=True, metavar="NAME", help="Also known as.")
@click.option(
    "--allow-origin", "allowed_origins", multiple=True, metavar="ORIGIN",
    help="Its web pages may use the server.",
)  # fmt: skip
@click.option(
    "--auth", type=click.Choice(["auto", "tokens", "none"]),
    help="Whether tokens are needed; auto: as soon as there is one.",
)  # fmt: skip
@click.option("--tls-cert", type=click.Path(exists=True, dir_okay=False), help="Speak HTTPS. PEM.")
@click.option("--tls-key", type=click.Path(exists=True, dir_okay=False), help="Its key. PEM.")
@click.option("--migrate", is_flag=True, help="First do what `turnabout migrate up` does.")
@click.option("--no-dashboard", is_flag=True, help="Without the pages for people.")
@click.option("--metrics-public", is_flag=True, default=None, help="/metrics without a token.")
@click.option("--metrics-queues", type=int, metavar="N", help="With figures of their own there.")
@click.option("--tracing", is_flag=True, default=None, help="Spans, by OpenTelemetry.")
@click.option("--log-format", type=click.Choice(["text", "json"]), help="[default: text]")
@click.option(
    "--log-level", type=click.Choice(["debug", "info", "warning", "error"]), default="info",
    show_default=True, help="From here on.",
)  # fmt: skip
@click.option("--access-log", is_flag=True, default=None, help="A line for every request.")
@_limits
def serve(app: App, migrate: bool, no_dashboard: bool, log_level: str, **given: Any) -> None:
    """Serve the queues over HTTP until Ctrl-C or SIGTERM.

    Requests that run then may end, waiting ones are answered at once; a second signal ends it at
    once. Without tokens it serves this machine only. Limits are in bytes and seconds.

    Exit code 1: requests had to be cut off.
    """
    try:
        from turnabout.server import ServerOptions
        from turnabout.server.http.logs import configure
        from turnabout.server.serve import run
    except ImportError as error:
        raise UsageError(
            f"the server needs the package {error.name}: {install_hint('server')}"
        ) from error

    said = {name: value for name, value in given.items() if value not in (None, ())}
    options = ServerOptions(dashboard=not no_dashboard, **said)
    configure(options.log_format, log_level.upper())

    def announce(serving: Serving) -> None:
        facts = {
            "url": serving.url,
            "port": serving.port,
            "dashboard": serving.dashboard,
            "pid": os.getpid(),
        }
        app.say(facts, "\n".join(_welcome(app, serving)))
        _show.flush()

    if not run(app.url, options, migrate=migrate, announce=announce):
        _show.flush()
        raise click.exceptions.Exit(NEGATIVE)


def _welcome(app: App, serving: Serving) -> Iterator[str]:
    yield f"Turnabout listens on {serving.url}"
    yield ""
    yield f"  database   {_places.without_password(app.url)}"
    yield f"  API        {serving.url}/v1"
    if serving.dashboard is not None:
        yield f"  dashboard  {serving.dashboard}"
    yield ""
    yield "Ctrl-C stops it."
