"""`serve`: HTTP in front of the database, until it is stopped."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import click

from turnabout.cli import _places, _show
from turnabout.cli._app import NEGATIVE, App
from turnabout.cli._declare import command, option, options
from turnabout.words.errors import UsageError
from turnabout.words.extras import install_hint

if TYPE_CHECKING:
    from turnabout.server.serve import Serving

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


def _limit(name: str, text: str) -> Any:
    kind = click.FLOAT if name.endswith("_seconds") else click.INT
    return option(f"--{name.replace('_', '-')}", text, kind, metavar="N")


@command(
    "serve",
    "turnabout serve --url sqlite:///app.db",
    "turnabout serve --url postgresql://app@localhost/app --port 9000",
    "turnabout serve --host 0.0.0.0 --allow-host queue.example.com",
    json='{"url", "port", "dashboard", "pid", "token"} as soon as it takes connections',
)
@option("--host", "Address to listen on. [default: 127.0.0.1]")
@option("--port", "0: any. [default: 8080]", click.IntRange(0, 65_535))
@option("--allow-host allowed_hosts", "Another of its names.", multiple=True, metavar="NAME")
@option("--allow-origin allowed_origins", "Let its web pages use the server.", multiple=True,
        metavar="ORIGIN")  # fmt: skip
@option("--auth", "none: no tokens; on this machine only. [default: tokens]", ("tokens", "none"))
@option("--tls-cert", "A certificate: serve HTTPS (PEM).", click.Path(exists=True, dir_okay=False))
@option("--tls-key", "Its key (PEM).", click.Path(exists=True, dir_okay=False))
@option("--migrate", "First run `turnabout migrate up`.", bool)
@option("--no-dashboard", "Don't serve the dashboard.", bool)
@option("--metrics-public", "Serve /metrics without a token.", bool)
@option("--metrics-queues", "At most this many queues with figures of their own.", int, metavar="N")
@option("--tracing", "Record spans, by OpenTelemetry.", bool)
@option("--log-format", "[default: text]", ("text", "json"))
@option("--log-level", "From here on.", ("debug", "info", "warning", "error"), "info")
@option("--access-log", "A line for every request.", bool)
@options(*(_limit(name, text) for name, text in LIMITS.items()))
def serve(app: App, migrate: bool, no_dashboard: bool, log_level: str, **given: Any) -> None:
    """Serve the queues over HTTP until Ctrl-C or SIGTERM.

    Requests that run then may end, waiting ones are answered at once; a second signal ends it at
    once. Clients need a token: where the database never had one, this makes the first and prints
    it, this once. Limits are in bytes and seconds.

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

    said = {n: v for n, v in given.items() if v is not None and v is not False and v != ()}
    options = ServerOptions(dashboard=not no_dashboard, **said)
    configure(options.log_format, log_level.upper())

    def announce(serving: Serving) -> None:
        facts = {
            "url": serving.url,
            "port": serving.port,
            "dashboard": serving.dashboard,
            "pid": os.getpid(),
            "token": serving.first_token,
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
    token = serving.first_token
    if serving.dashboard is not None:
        yield f"  dashboard  {serving.dashboard}{'' if token is None else f'#token={token}'}"
    yield ""
    if token is not None:
        yield "Clients need a token. This is the first, shown this once; it may do everything:"
        yield ""
        yield f"  export TURNABOUT_TOKEN={token}"
        yield ""
    yield "Ctrl-C stops it."
