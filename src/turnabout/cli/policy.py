"""`policy`: the limits of a channel."""

from __future__ import annotations

from typing import Any

import click

from turnabout.cli import _show
from turnabout.cli._app import App, command, group, pass_app
from turnabout.cli._kinds import QUEUE
from turnabout.cli._policy import (
    POLICY_FORM,
    given,
    limit,
    paused,
    policy_facts,
    policy_options,
    rate,
)
from turnabout.words.policy import Policy, as_dict

SHAPE = '{"queue", "channel", "policy"}\n' + POLICY_FORM
PAUSE = click.option("--pause/--resume", "paused", default=None, help="Hand out nothing; or again.")


@group(
    "policy",
    short_help="Limits of a channel: get, set, change, clear, list.",
    examples=[
        "turnabout policy set emails customer-42 --max-concurrency 2 --rate 10/s",
        "turnabout policy change emails customer-42 --pause",
        "turnabout policy list emails",
    ],
)
def policy() -> None:
    """Limits of single channels. They hold for every lease granted from now on.

    What a channel's policy leaves open, the queue's default policy fills: `turnabout queue update`.
    The default channel is "".
    """


@command(
    "get",
    short_help="Show a channel's own policy.",
    examples=["turnabout policy get emails customer-42"],
    json_form=SHAPE,
)
@click.argument("queue", type=QUEUE)
@click.argument("channel")
@pass_app
def get(app: App, queue: str, channel: str) -> None:
    """Show the policy that CHANNEL of QUEUE has of its own."""
    with app.open() as turnabout:
        found = turnabout.queue(queue).channel(channel).policy()
    _print(app, queue, channel, found)


@command(
    "set",
    short_help="Replace a channel's policy.",
    examples=[
        "turnabout policy set emails customer-42 --max-concurrency 2",
        "turnabout policy set emails customer-42 --rate 100/1m:10 --max-size 10000 --weight 3",
    ],
    json_form=SHAPE,
)
@click.argument("queue", type=QUEUE)
@click.argument("channel")
@policy_options
@PAUSE
@pass_app
def set_(app: App, queue: str, channel: str, **options: Any) -> None:
    """Replace the whole policy of CHANNEL: limits that are not named are lifted."""
    wanted = Policy(**given(options))
    with app.open() as turnabout:
        now = turnabout.queue(queue).channel(channel).set_policy(wanted)
    _print(app, queue, channel, now)


@command(
    "change",
    short_help="Change some limits of a channel.",
    examples=[
        "turnabout policy change emails customer-42 --rate 5/s",
        "turnabout policy change emails customer-42 --rate none --pause",
    ],
    json_form=SHAPE,
)
@click.argument("queue", type=QUEUE)
@click.argument("channel")
@policy_options
@PAUSE
@pass_app
def change(app: App, queue: str, channel: str, **options: Any) -> None:
    """Change some limits of CHANNEL; those not named stay. `none` lifts one."""
    changes = given(options)
    if not changes:
        raise click.UsageError("name a limit to change, for example --rate 5/s")
    with app.open() as turnabout:
        now = turnabout.queue(queue).channel(channel).change_policy(**changes)
    _print(app, queue, channel, now)


@command(
    "clear",
    short_help="Remove a channel's policy.",
    examples=["turnabout policy clear emails customer-42"],
    json_form=SHAPE,
)
@click.argument("queue", type=QUEUE)
@click.argument("channel")
@pass_app
def clear(app: App, queue: str, channel: str) -> None:
    """Remove the policy of CHANNEL, all of it: the queue's default holds again."""
    with app.open() as turnabout:
        turnabout.queue(queue).channel(channel).clear_policy()
    _print(app, queue, channel, Policy())


@command(
    "list",
    short_help="List channels with a policy of their own.",
    examples=["turnabout policy list emails"],
    json_form='{"queue", "channels": [{"channel", "policy"}]}\n' + POLICY_FORM,
)
@click.argument("queue", type=QUEUE)
@pass_app
def list_(app: App, queue: str) -> None:
    """List the channels of QUEUE that have a policy of their own."""
    with app.open() as turnabout:
        found = turnabout.queue(queue).policies()
    if app.as_json:
        channels = [{"channel": one.channel, "policy": as_dict(one.policy)} for one in found]
        app.document({"queue": queue, "channels": channels})
        return
    if not found:
        _show.note(f"No channel of {queue} has a policy of its own.")
        return
    heads = ("CHANNEL", "MAX-CONCURRENCY", "RATE", "MAX-SIZE", "WEIGHT", "PAUSED")
    rows = [
        (
            _show.channel(one.channel),
            limit(one.policy.max_concurrency),
            rate(one.policy.rate),
            limit(one.policy.max_size),
            limit(one.policy.weight),
            paused(one.policy.pause_reason) if one.policy.paused else "",
        )
        for one in found
    ]
    _show.out(_show.table(heads, rows))


def _print(app: App, queue: str, channel: str, policy: Policy) -> None:
    pairs = [
        *policy_facts(policy),
        ("paused", paused(policy.pause_reason) if policy.paused else "no"),
    ]
    value = {"queue": queue, "channel": channel, "policy": as_dict(policy)}
    app.outcome(value, _show.facts(pairs))


policy.add_section("Commands", get, set_, change, clear, list_)
