"""`channel`: one channel of a queue: pause, resume, delete. Its limits: `policy`."""

from __future__ import annotations

from turnabout.cli import _show
from turnabout.cli._app import App
from turnabout.cli._declare import YES, argument, group, option, options
from turnabout.cli._kinds import DURATION, QUEUE
from turnabout.cli.queue import confirm
from turnabout.words.outcomes import Deleted
from turnabout.words.policy import Policy

WHICH = options(argument("queue", QUEUE), argument("name", metavar="CHANNEL"))


@group(
    "channel",
    "turnabout channel pause emails customer-42 --reason 'their server is down'",
    "turnabout channel delete emails customer-42",
    short_help="Channels: pause, resume, delete.",
)
def channel() -> None:
    """Single channels of a queue. The default channel is ""; limits: `turnabout policy`."""


@channel.command(
    "pause",
    "turnabout channel pause emails customer-42 --reason 'their server is down'",
    "turnabout channel pause emails customer-42 --for 10m",
    json=Policy,
)
@WHICH
@option("--for seconds", "For so long; unless given, until `resume`.", DURATION)
@option("--reason", "Why; `turnabout policy get` shows it.", metavar="TEXT")
def pause(app: App, queue: str, name: str, seconds: float | None, reason: str | None) -> None:
    """Hand out no message of CHANNEL of QUEUE until `resume`. Sends are still taken."""
    with app.queue(queue) as handle:
        one = handle.channel(name)
        one.pause(seconds=seconds, reason=reason)
        app.say(one.policy(), f"Paused channel {_show.channel(name)} of {queue}.")


@channel.command("resume", "turnabout channel resume emails customer-42", json=Policy)
@WHICH
def resume(app: App, queue: str, name: str) -> None:
    """Hand out the messages of CHANNEL of QUEUE again."""
    with app.queue(queue) as handle:
        one = handle.channel(name)
        one.resume()
        text = f"Channel {_show.channel(name)} of {queue} hands out messages again."
        app.say(one.policy(), text)


@channel.command("delete", "turnabout channel delete emails customer-42 --yes", json=Deleted)
@WHICH
@YES
def delete(app: App, queue: str, name: str, yes: bool) -> None:
    """Cancel the waiting messages of CHANNEL and clear its policy.

    Leased messages are left to their workers. The next message sent to it makes it again, without
    limits.
    """
    shown = f"channel {_show.channel(name)} of {queue}"
    with app.queue(queue) as handle:
        confirm(yes, f"Cancel the waiting messages of {shown}, and clear its policy?", handle)
        outcome = handle.channel(name).delete()
    app.say(outcome, f"Removed {shown}: {_show.plural(outcome.messages, 'message')} cancelled.")
