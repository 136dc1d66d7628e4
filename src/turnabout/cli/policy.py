"""`policy`: the limits of a channel."""

from __future__ import annotations

from typing import Any

import click

from turnabout.cli import _show
from turnabout.cli._app import App
from turnabout.cli._declare import argument, group, options
from turnabout.cli._json import items
from turnabout.cli._kinds import QUEUE
from turnabout.cli._settings import POLICY, given, policy_options
from turnabout.words.entities import ChannelPolicy
from turnabout.words.policy import Policy

PAUSE = click.option("--pause/--resume", "paused", default=None, help="Hand out nothing; or again.")
WHICH = options(argument("queue", QUEUE), argument("channel"))
CHANNELS: _show.Columns = (
    ("CHANNEL", "channel", _show.channel),
    *(
        (title.upper(), f"policy.{of}" if isinstance(of, str) else "policy", how)
        for title, of, how in POLICY
    ),
)


@group(
    "policy",
    "turnabout policy set emails customer-42 --max-concurrency 2 --rate 10/s",
    "turnabout policy change emails customer-42 --pause",
    "turnabout policy list emails",
    short_help="Limits of a channel: get, set, change, clear, list.",
)
def policy() -> None:
    """Limits of single channels. They hold for every lease granted from now on.

    What a channel's policy leaves open, the queue's default policy fills: `turnabout queue update`.
    The default channel is "".
    """


@policy.command("get", "turnabout policy get emails customer-42", json=Policy)
@WHICH
def get(app: App, queue: str, channel: str) -> None:
    """Show the policy that CHANNEL of QUEUE has of its own."""
    with app.queue(queue) as handle:
        _print(app, handle.channel(channel).policy())


@policy.command(
    "set",
    "turnabout policy set emails customer-42 --max-concurrency 2",
    "turnabout policy set emails customer-42 --rate 100/1m:10 --max-size 10000 --weight 3",
    json=Policy,
)
@WHICH
@policy_options
@PAUSE
def set_(app: App, queue: str, channel: str, **options: Any) -> None:
    """Replace the policy of CHANNEL: limits not named are lifted."""
    with app.queue(queue) as handle:
        _print(app, handle.channel(channel).set_policy(Policy(**given(options))))


@policy.command(
    "change",
    "turnabout policy change emails customer-42 --rate 5/s",
    "turnabout policy change emails customer-42 --rate none --pause",
    json=Policy,
)
@WHICH
@policy_options
@PAUSE
def change(app: App, queue: str, channel: str, **options: Any) -> None:
    """Change some limits of CHANNEL; those not named stay. `none` lifts one."""
    changes = given(options)
    if not changes:
        raise click.UsageError("name a limit to change, for example --rate 5/s")
    with app.queue(queue) as handle:
        _print(app, handle.channel(channel).change_policy(**changes))


@policy.command("clear", "turnabout policy clear emails customer-42", json=Policy)
@WHICH
def clear(app: App, queue: str, channel: str) -> None:
    """Remove the policy of CHANNEL: the queue's default applies again."""
    with app.queue(queue) as handle:
        handle.channel(channel).clear_policy()
    _print(app, Policy())


@policy.command("list", "turnabout policy list emails", json=items(ChannelPolicy))
@argument("queue", QUEUE)
def list_(app: App, queue: str) -> None:
    """List the channels of QUEUE that have a policy of their own."""
    with app.queue(queue) as handle:
        app.show(handle.policies(), CHANNELS, f"No channel of {queue} has a policy of its own.")


def _print(app: App, policy: Policy) -> None:
    app.say(policy, _show.facts(POLICY, policy))
