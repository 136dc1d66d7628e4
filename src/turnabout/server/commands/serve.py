"""`serve`: HTTP in front of the database, until it is stopped.

Each field of `ServerOptions` is an option here, under one name: `--max-polls`, in the environment
`TURNABOUT_SERVE_MAX_POLLS`, in the file of `--config` `max_polls`; the first that says it counts.
"""

from __future__ import annotations

import os
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from turnabout.cli import _places, _show
from turnabout.cli._app import NEGATIVE, App
from turnabout.cli._declare import command, option, options
from turnabout.server.options import OptionSpec, ServerOptions
from turnabout.words.errors import UsageError
from turnabout.words.extras import install_hint, refuse_windows
from turnabout.words.limits import shown

if TYPE_CHECKING:
    from turnabout.server.serve import Serving

VARIABLES = "TURNABOUT_SERVE_"
ALSO = {"port": ["PORT"]}
"""Variables set by platforms: many pass the port in this one."""
_FILE = "turnabout.serve.file"


class Setting(click.Option):
    """An option that may come from the environment or from the file as well."""

    def __init__(self, *words: Any, **more: Any) -> None:
        super().__init__(*words, **more)
        self.key = self.opts[0].removeprefix("--").replace("-", "_")
        self.envvar = [VARIABLES + self.key.upper(), *ALSO.get(self.key, ())]

    def source(self, context: click.Context) -> str:
        """The origin of a value, as part of an error; empty for one on the command line."""
        match context.get_parameter_source(self.name or ""):
            case ParameterSource.ENVIRONMENT:
                found = next(name for name in self.envvar or () if os.environ.get(name))
                return f" (from the variable {found})"
            case ParameterSource.DEFAULT_MAP:
                return f" (from {context.meta[_FILE]})"
            case _:
                return ""

    def process_value(self, ctx: click.Context, value: Any) -> Any:
        """Process a value like click; an error also names the value's origin."""
        try:
            return super().process_value(ctx, value)
        except click.BadParameter as error:
            raise type(error)(f"{error.message}{self.source(ctx)}", ctx, self) from error

    def typed(self, value: Any) -> str | list[str]:
        """A value of the file as it would be typed, to be checked in the same way: click would take
        2.5 for 2. Raises: UsageError.
        """
        if not self.multiple:
            return str(value)
        if value.__class__ is not list:
            raise UsageError(f"{self.key} is a list of strings, not {shown(value)}")
        return [str(one) for one in value]


def _setting(names: str, text: str, kind: Any = None, default: Any = None, **more: Any) -> Any:
    return option(names, text, kind, default, cls=Setting, **more)


def _declared(name: str, default: Any, spec: OptionSpec) -> Any:
    """The option of the command line for a field of `ServerOptions`."""
    flag = spec.flag or name.replace("_", "-")
    if isinstance(default, bool):
        words = f"--{flag}/--no-{flag} {name}"
        return _setting(words, spec.text, default=default)
    if isinstance(default, tuple):
        return _setting(f"--{flag} {name}", spec.text, multiple=True, metavar=spec.metavar)
    number = click.FLOAT if isinstance(default, float) else click.INT
    kind = spec.choices or (number if isinstance(default, (int, float)) else click.STRING)
    metavar = spec.metavar or (None if spec.choices or isinstance(default, str) else "N")
    return _setting(f"--{flag} {name}", spec.text, kind, default, metavar=metavar)


def _read_settings(context: click.Context, _: click.Parameter, path: str | None) -> None:
    """Take the file's values as the defaults. Raises: UsageError for what is not an option."""
    known = {one.key: one for one in context.command.params if isinstance(one, Setting)}
    variables = {name for one in known.values() for name in one.envvar or ()}
    for name in os.environ:
        if name.startswith(VARIABLES) and name not in {*variables, f"{VARIABLES}CONFIG"}:
            raise UsageError(f"the variable {name} is not an option: see `turnabout serve --help`")
    if path is None:
        return
    try:
        found = tomllib.loads(Path(path).read_text("utf-8"))
        url = found.pop("url", None)
        if url is not None and not os.environ.get("TURNABOUT_URL"):
            app = context.find_root().ensure_object(App)
            app.given_url = app.given_url or url
        defaults: dict[str, Any] = {}
        for key, value in found.items():
            setting = known.get(key.replace("-", "_"))
            if setting is None:
                raise UsageError(f"{shown(key)} is not an option: see `turnabout serve --help`")
            defaults[setting.name or ""] = setting.typed(value)
    except (OSError, ValueError, UsageError) as error:
        raise UsageError(f"{path}: {error}") from error
    context.default_map = defaults
    context.meta[_FILE] = path


def _options(context: click.Context, values: Mapping[str, Any]) -> ServerOptions:
    """The options of a server. Raises: UsageError, with where the wrong one comes from."""
    try:
        return ServerOptions(**values)
    except UsageError as error:
        for one in context.command.params:
            if not isinstance(one, Setting) or not (source := one.source(context)):
                continue
            others = {name: value for name, value in values.items() if name != one.name}
            if _is_right(others):
                raise UsageError(f"{error}{source}") from error
        raise


def _is_right(values: Mapping[str, Any]) -> bool:
    try:
        ServerOptions(**values)
    except UsageError:
        return False
    return True


@command(
    "serve",
    "turnabout serve --url sqlite:///app.db",
    "turnabout serve --url postgresql://app@localhost/app --port 9000",
    "turnabout serve --host 0.0.0.0 --allow-host queue.example.com",
    json='{"url", "port", "dashboard", "pid", "token"} as soon as it takes connections',
)
@option("--config", "A TOML file with options, such as max_polls = 100, and the url.",
        envvar=f"{VARIABLES}CONFIG", is_eager=True, expose_value=False, callback=_read_settings,
        metavar="FILE")  # fmt: skip
@_setting("--migrate", "First run `turnabout migrate up`.", bool)
@_setting("--log-level", "From here on.", ("debug", "info", "warning", "error"), "info")
@options(*(_declared(one.name, one.default, one.metadata["spec"]) for one in fields(ServerOptions)))
@click.pass_context
def serve(context: click.Context, app: App, migrate: bool, log_level: str, **values: Any) -> None:
    """Serve the queues over HTTP until Ctrl-C or SIGTERM.

    Requests that run then may end, waiting ones are answered at once; a second signal ends it at
    once. Clients need a token: where the database never had one, this makes the first and prints
    it, this once. Limits are in bytes and seconds.

    Options may also come from the environment (TURNABOUT_SERVE_MAX_POLLS for --max-polls; PORT for
    --port) or from a file (--config). The command line counts before the environment, and that
    before the file.

    Exit code 1: requests had to be cut off.
    """
    refuse_windows("the server")
    try:
        from turnabout.server.http.logs import configure
        from turnabout.server.processes import run_processes
        from turnabout.server.serve import prepare, run
    except ImportError as error:
        raise UsageError(
            f"the server needs the package {error.name}: {install_hint('server')}"
        ) from error

    options = _options(context, values)
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

    prepare(app.url, migrate=migrate)
    if options.processes > 1:
        well = run_processes(app.url, options, log_level=log_level.upper(), announce=announce)
    else:
        well = run(app.url, options, announce=announce)
    if not well:
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
