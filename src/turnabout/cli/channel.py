"""`channel`: one channel of a queue: pause, resume, delete. Its limits: `policy`."""

from __future__ import annotations

import click

from turnabout.cli import _show
from turnabout.cli._app import App, command, group, pass_app
from turnabout.cli._kinds import QUEUE
from turnabout.cli.queue import YES, confirm


@group(
    "channel",
    short_help="Channels: pause, resume, delete.",
    examples=[
        "turnabout channel pause emails customer-42 --reason 'their server is down'",
        "turnabout channel delete emails customer-42",
    ],
)
def channel() -> None:
    """Single channels of a queue. The default channel is ""; limits: `turnabout policy`."""


@command(
    "pause",
    short_help="Hand out nothing of a channel until resume.",
    examples=["turnabout channel pause emails customer-42 --reason 'their server is down'"],
    json_form='{"queue", "channel", "paused": true, "reason"}',
)
@click.argument("queue", type=QUEUE)
@click.argument("name", metavar="CHANNEL")
@click.option("--reason", metavar="TEXT", help="Why; `turnabout policy get` shows it.")
@pass_app
def pause(app: App, queue: str, name: str, reason: str | None) -> None:
    """Hand out no message of CHANNEL of QUEUE until `resume`. Sends are still taken."""
    with app.open() as turnabout:
        turnabout.queue(queue).channel(name).pause(reason=reason)
    value = {"queue": queue, "channel": name, "paused": True, "reason": reason}
    app.outcome(value, f"Paused channel {_show.channel(name)} of {queue}.")


@command(
    "resume",
    short_help="Hand out a channel's messages again.",
    examples=["turnabout channel resume emails customer-42"],
    json_form='{"queue", "channel", "paused": false}',
)
@click.argument("queue", type=QUEUE)
@click.argument("name", metavar="CHANNEL")
@pass_app
def resume(app: App, queue: str, name: str) -> None:
    """Hand out the messages of CHANNEL of QUEUE again."""
    with app.open() as turnabout:
        turnabout.queue(queue).channel(name).resume()
    value = {"queue": queue, "channel": name, "paused": False}
    app.outcome(value, f"Channel {_show.channel(name)} of {queue} hands out messages again.")


@command(
    "delete",
    short_help="Cancel a channel's messages and clear its policy.",
    examples=["turnabout channel delete emails customer-42 --yes"],
    json_form='{"queue", "channel", "messages"}   messages: those that were cancelled',
)
@click.argument("queue", type=QUEUE)
@click.argument("name", metavar="CHANNEL")
@YES
@pass_app
def delete(app: App, queue: str, name: str, yes: bool) -> None:
    """Cancel the waiting messages of CHANNEL of QUEUE and clear its policy; leases run on.

    The next message sent to it makes it again, without limits.
    """
    shown = f"channel {_show.channel(name)} of {queue}"
    with app.open() as turnabout:
        handle = turnabout.queue(queue)
        handle.settings()  # a wrong name is told before a question is asked
        confirm(yes, f"Cancel the waiting messages of {shown}, and clear its policy?")
        outcome = handle.channel(name).delete()
    app.outcome(
        {"queue": queue, "channel": name, "messages": outcome.messages},
        f"Removed {shown}: {_show.plural(outcome.messages, 'message')} cancelled.",
    )


channel.add_section("Commands", pause, resume, delete)
