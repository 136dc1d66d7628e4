"""`completion`: the script that lets a shell complete commands, options and queue names."""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class

from turnabout.cli._app import App
from turnabout.cli._declare import argument, command


@command(
    "completion",
    "echo 'eval \"$(turnabout completion bash)\"' >> ~/.bashrc",
    "echo 'eval \"$(turnabout completion zsh)\"' >> ~/.zshrc",
    "turnabout completion fish > ~/.config/fish/completions/turnabout.fish",
    json='{"shell", "script"}',
)
@argument("shell", click.Choice(["bash", "zsh", "fish"]))
def completion(app: App, shell: str) -> None:
    """Print the script for completion in SHELL.

    It completes commands and options everywhere, and the names of queues where they are cheap to
    read: in an SQLite file.
    """
    kind = get_completion_class(shell)
    assert kind is not None
    found = kind(
        click.get_current_context().find_root().command, {}, "turnabout", "_TURNABOUT_COMPLETE"
    )
    # Not `source()`: for bash that starts a bash to ask its version.
    script = kind.source_template % found.source_vars()
    app.say({"shell": shell, "script": script}, script.rstrip("\n"))
