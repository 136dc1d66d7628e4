"""`completion`: the script that lets a shell complete commands, options and queue names."""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class

from turnabout.cli._app import App, command, pass_app

SHELLS = ("bash", "zsh", "fish")


@command(
    "completion",
    short_help="Print the script for completion in bash, zsh or fish.",
    examples=[
        "echo 'eval \"$(turnabout completion bash)\"' >> ~/.bashrc",
        "echo 'eval \"$(turnabout completion zsh)\"' >> ~/.zshrc",
        "turnabout completion fish > ~/.config/fish/completions/turnabout.fish",
    ],
    json_form='{"shell", "script"}',
)
@click.argument("shell", type=click.Choice(SHELLS))
@pass_app
def completion(app: App, shell: str) -> None:
    """Print the completion script for SHELL.

    It completes commands and options everywhere, and the names of queues where they are cheap to
    read: in an SQLite file.
    """
    kind = get_completion_class(shell)
    assert kind is not None
    root = click.get_current_context().find_root()
    found = kind(root.command, {}, "turnabout", "_TURNABOUT_COMPLETE")
    # Not `source()`: for bash that starts a bash to ask its version.
    script = kind.source_template % found.source_vars()
    app.outcome({"shell": shell, "script": script}, script.rstrip("\n"))
