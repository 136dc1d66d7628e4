"""`channel`: one channel of a queue: pause, resume, delete; and `policy`: its limits."""

from __future__ import annotations

from typing import Any

import click

from turnabout.cli import _show
from turnabout.cli._app import App
from turnabout.cli._declare import YES, argument, group, option, options
from turnabout.cli._json import items
from turnabout.cli._kinds import DURATION, QUEUE
from turnabout.cli._settings import POLICY, policy_options, values_of
from turnabout.cli.queue import confirm
from turnabout.words.entities import ChannelPolicy
from turnabout.words.outcomes import Deleted
from turnabout.words.policy import Policy

WHICH = options(argument("queue", QUEUE), argument("name", metavar="CHANNEL"))


@group("channel", short_help="Channels: pause, resume, delete.")
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


# --- policy --------------------------------------------------------------------------------------

PAUSE = click.option("--pause/--resume", "paused", default=None, help="Hand out nothing; or again.")
CHANNELS: _show.Columns = (
    ("CHANNEL", "channel", _show.channel),
    *(
        (title.upper(), f"policy.{of}" if isinstance(of, str) else "policy", how)
        for title, of, how in POLICY
    ),
)


@group("policy", short_help="Limits of a channel: get, set, change, clear, list.")
def policy() -> None:
    """Limits of single channels. They hold for every lease granted from now on.

    What a channel's policy leaves open, the queue's default policy fills: `turnabout queue update`.
    The default channel is "".
    """


@policy.command("get", "turnabout policy get emails customer-42", json=Policy)
@WHICH
def get(app: App, queue: str, name: str) -> None:
    """Show the policy that CHANNEL of QUEUE has of its own."""
    with app.queue(queue) as handle:
        _print(app, handle.channel(name).policy())


@policy.command(
    "set",
    "turnabout policy set emails customer-42 --max-concurrency 2",
    "turnabout policy set emails customer-42 --rate 100/1m:10 --max-size 10000 --weight 3",
    json=Policy,
)
@WHICH
@policy_options
@PAUSE
def set_(app: App, queue: str, name: str, **options: Any) -> None:
    """Replace the policy of CHANNEL: limits not named are lifted."""
    with app.queue(queue) as handle:
        _print(app, handle.channel(name).set_policy(Policy(**values_of(options))))


@policy.command(
    "change",
    "turnabout policy change emails customer-42 --rate 5/s",
    "turnabout policy change emails customer-42 --rate none --pause",
    json=Policy,
)
@WHICH
@policy_options
@PAUSE
def change(app: App, queue: str, name: str, **options: Any) -> None:
    """Change some limits of CHANNEL; those not named stay. `none` lifts one."""
    changes = values_of(options)
    if not changes:
        raise click.UsageError("name a limit to change, for example --rate 5/s")
    with app.queue(queue) as handle:
        _print(app, handle.channel(name).change_policy(**changes))


@policy.command("clear", "turnabout policy clear emails customer-42", json=Policy)
@WHICH
def clear(app: App, queue: str, name: str) -> None:
    """Remove the policy of CHANNEL: the queue's default applies again."""
    with app.queue(queue) as handle:
        handle.channel(name).clear_policy()
    _print(app, Policy())


@policy.command("list", "turnabout policy list emails", json=items(ChannelPolicy))
@argument("queue", QUEUE)
def list_(app: App, queue: str) -> None:
    """List the channels of QUEUE that have a policy of their own."""
    with app.queue(queue) as handle:
        app.show(handle.policies(), CHANNELS, f"No channel of {queue} has a policy of its own.")


def _print(app: App, policy: Policy) -> None:
    app.say(policy, _show.facts(POLICY, policy))
