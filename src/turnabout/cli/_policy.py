"""Options that say limits and settings, as `policy` and `queue` share them; and how they show."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import click

from turnabout.cli import _show
from turnabout.cli._kinds import DURATION, DURATION_OR_NONE, NONE, RATE, WHOLE_OR_NONE
from turnabout.words.policy import (
    DEDUP_MODES,
    DEDUP_SCOPES,
    EVENT_LEVELS,
    ON_EXHAUSTED,
    Policy,
    QueueSettings,
    Rate,
)

F = TypeVar("F", bound=Callable[..., Any])

POLICY_FORM = (
    '"policy": {"max_concurrency", "rate": {"count", "per_seconds", "burst"},\n'
    '  "max_size", "weight", "paused", "pause_reason"}; null: not limited'
)


def policy_options(function: F) -> F:
    """`--max-concurrency --rate --max-size --weight`; each takes `none`."""
    for option in reversed(
        (
            click.option(
                "--max-concurrency", type=WHOLE_OR_NONE, metavar="N", help="Leased at once."
            ),
            click.option(
                "--rate",
                type=RATE,
                metavar="COUNT/PERIOD[:BURST]",
                help="Deliveries per time: 10/s, 100/1m; 10/1s:5 lets 5 go at once.",
            ),
            click.option(
                "--max-size", type=WHOLE_OR_NONE, metavar="N", help="Unfinished messages."
            ),
            click.option(
                "--weight", type=WHOLE_OR_NONE, metavar="N", help="Messages in a turn; else 1."
            ),
        )
    ):
        function = option(function)
    return function


def settings_options(function: F) -> F:
    """What `queue create` and `queue update` can set."""
    for option in reversed(
        (
            click.option(
                "--lease", "lease_seconds", type=DURATION, help="How long a delivery is held."
            ),
            click.option(
                "--max-attempts", type=WHOLE_OR_NONE, metavar="N", help="Charged, until dead."
            ),
            click.option(
                "--backoff", "backoff_seconds", type=DURATION, help="Wait after a failure; doubles."
            ),
            click.option("--backoff-max", "backoff_max_seconds", type=DURATION, help="At most so."),
            click.option(
                "--backoff-jitter", type=float, metavar="0-1", help="Share of it that is random."
            ),
            click.option(
                "--delay", "delay_seconds", type=DURATION, help="Of messages that name none."
            ),
            click.option(
                "--dead-letter",
                metavar="QUEUE|none",
                help="Where dead messages go; none: QUEUE-dead.",
            ),
            click.option(
                "--on-exhausted",
                type=click.Choice(ON_EXHAUSTED),
                help="What becomes of a message without attempts left.",
            ),
            click.option(
                "--ttl", "ttl_seconds", type=DURATION_OR_NONE, help="Expire if still waiting."
            ),
            click.option(
                "--max-messages", type=WHOLE_OR_NONE, metavar="N", help="Unfinished in the queue."
            ),
        )
    ):
        function = option(function)
    return policy_options(_record_options(_dedup_options(function)))


def _dedup_options(function: F) -> F:
    for option in reversed(
        (
            click.option(
                "--dedup-mode",
                type=click.Choice(DEDUP_MODES),
                help="How long a dedup key suppresses, unless a send says.",
            ),
            click.option(
                "--dedup-window", "dedup_window_seconds", type=DURATION, help="In window, sliding."
            ),
            click.option(
                "--dedup-scope", type=click.Choice(DEDUP_SCOPES), help="Where a key counts."
            ),
        )
    ):
        function = option(function)
    return function


def _record_options(function: F) -> F:
    for option in reversed(
        (
            click.option(
                "--history", "history_seconds", type=DURATION, help="Keep finished ones; 0: none."
            ),
            click.option(
                "--history-failed",
                "history_failed_seconds",
                type=DURATION_OR_NONE,
                help="Those that are not done; none: the same.",
            ),
            click.option(
                "--history-payload/--no-history-payload",
                default=None,
                help="Keep their payloads, too.",
            ),
            click.option(
                "--events", type=click.Choice(EVENT_LEVELS), help="What `turnabout events` tells."
            ),
        )
    ):
        function = option(function)
    return function


def given(options: Mapping[str, Any]) -> dict[str, Any]:
    """The options that were given; `none` becomes None."""
    return {
        name: None if value == NONE else value
        for name, value in options.items()
        if value is not None
    }


def split(options: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Given options as changes of a queue's settings, and of its default policy."""
    changes = given(options)
    policy = {name: changes.pop(name) for name in list(changes) if name in _POLICY_NAMES}
    return changes, policy


_POLICY_NAMES = ("max_concurrency", "rate", "max_size", "weight")


def rate(value: Rate | None) -> str:
    """A rate as it is typed."""
    if value is None:
        return "–"
    seconds = value.per_seconds
    if seconds < 1:
        period = f"{seconds * 1000:g}ms"
    else:
        period = f"{seconds:g}s" if seconds % 60 else f"{seconds / 60:g}m"
    text = f"{value.count}/{period}"
    return text if value.burst == 1 else f"{text}:{value.burst}"


def limit(value: int | None) -> str:
    return "–" if value is None else _show.count(value)


def paused(reason: str | None) -> str:
    """That it is paused, and why."""
    return "yes" if reason is None else f"yes: {_show.clean(reason)}"


def _optional(seconds: float | None) -> str:
    return "–" if seconds is None else _show.duration(seconds)


def _history(settings: QueueSettings) -> str:
    text = _show.duration(settings.history_seconds)
    if settings.history_failed_seconds is not None:
        text += f", {_show.duration(settings.history_failed_seconds)} of those that failed"
    return text + (", with payloads" if settings.history_payload else "")


def policy_facts(policy: Policy) -> list[tuple[str, str]]:
    """The limits of a policy, named as the options are."""
    return [
        ("max-concurrency", limit(policy.max_concurrency)),
        ("rate", rate(policy.rate)),
        ("max-size", limit(policy.max_size)),
        ("weight", limit(policy.weight)),
    ]


def settings_facts(settings: QueueSettings, dead_letter: str | None) -> list[tuple[str, str]]:
    """The settings of a queue, named as the options are."""
    pairs = [
        ("lease", _show.duration(settings.lease_seconds)),
        ("max-attempts", limit(settings.max_attempts)),
        ("backoff", _show.duration(settings.backoff_seconds)),
        ("backoff-max", _show.duration(settings.backoff_max_seconds)),
        ("backoff-jitter", f"{settings.backoff_jitter:g}"),
        ("delay", _show.duration(settings.delay_seconds)),
        ("fifo", "yes" if settings.fifo else "no"),
        ("paused", paused(settings.pause_reason) if settings.paused else "no"),
        ("on-exhausted", settings.on_exhausted),
        ("dead-letter", dead_letter or "–"),
        ("ttl", _optional(settings.ttl_seconds)),
        ("max-messages", limit(settings.max_messages)),
        (
            "dedup",
            f"{settings.dedup_mode}, {_show.duration(settings.dedup_window_seconds)}, by "
            + settings.dedup_scope,
        ),
        ("history", _history(settings)),
        ("events", settings.events),
    ]
    if settings.policy != Policy():
        pairs += [(f"each channel: {name}", v) for name, v in policy_facts(settings.policy)]
    return pairs
