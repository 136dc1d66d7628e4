"""Limits and settings, each said once: its option, and how its value shows."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import click

from turnabout.cli import _show
from turnabout.cli._declare import option, options
from turnabout.cli._kinds import DURATION, DURATION_OR_NONE, LABELS, NONE, RATE, WHOLE_OR_NONE
from turnabout.words.entities import QueueEntry
from turnabout.words.policy import (
    DEDUP_MODES,
    DEDUP_SCOPES,
    EVENT_LEVELS,
    ON_EXHAUSTED,
    Policy,
    Rate,
)

Row = tuple[str, Any, str, Callable[[Any], str]]


def labels(value: Mapping[str, str]) -> str:
    """Labels as they are typed."""
    return _show.clean(",".join(f"{name}={text}" for name, text in value.items()))


def rate(value: Rate) -> str:
    """A rate as it is typed."""
    seconds = value.per_seconds
    if seconds < 1:
        period = f"{seconds * 1000:g}ms"
    else:
        period = f"{seconds:g}s" if seconds % 60 else f"{seconds / 60:g}m"
    text = f"{value.count}/{period}"
    return text if value.burst == 1 else f"{text}:{value.burst}"


LIMITS: tuple[Row, ...] = (
    ("max_concurrency", WHOLE_OR_NONE, "At most this many leased at once.", _show.count),
    ("rate", RATE, "Deliveries per time: 10/s, 100/1m; 10/1s:5 lets 5 go at once.", rate),
    ("max_size", WHOLE_OR_NONE, "At most this many unfinished messages.", _show.count),
    ("weight", WHOLE_OR_NONE, "Messages per turn. [default: 1]", _show.count),
)
"""Fields of a policy: each with the kind of its option, its help, and its format."""

SETTINGS: tuple[Row, ...] = (
    ("lease_seconds", DURATION, "How long a delivery is held.", _show.duration),
    ("max_attempts", WHOLE_OR_NONE, "Charged attempts until a message is dead.", _show.count),
    ("max_deliveries", WHOLE_OR_NONE, "Deliveries, charged or not, until then.", _show.count),
    ("backoff_seconds", DURATION, "Wait after a failure; it doubles each time.", _show.duration),
    ("backoff_max_seconds", DURATION, "Upper limit of that wait.", _show.duration),
    ("backoff_jitter", float, "Random share of the wait, from 0 to 1.", "{:g}".format),
    ("delay_seconds", DURATION, "Delay of messages that name none.", _show.duration),
    ("dead_letter", None, "Queue for dead messages; none: QUEUE-dead.", _show.clean),
    ("on_exhausted", ON_EXHAUSTED, "What happens to a message without attempts left.", str),
    ("ttl_seconds", DURATION_OR_NONE, "Messages that still wait then expire.", _show.duration),
    ("max_messages", WHOLE_OR_NONE, "Upper limit of unfinished messages.", _show.count),
    ("queue_max_concurrency", WHOLE_OR_NONE, "At most this many leased in all.", _show.count),
    ("queue_rate", RATE, "Deliveries per time from all channels together.", rate),
    ("dedup_mode", DEDUP_MODES, "How long a dedup key counts, unless a send says.", str),
    ("dedup_window_seconds", DURATION, "For the modes window and sliding.", _show.duration),
    ("dedup_scope", DEDUP_SCOPES, "Where a dedup key counts.", str),
    ("history_seconds", DURATION, "How long finished messages are kept; 0: not.", _show.duration),
    ("history_failed_seconds", DURATION_OR_NONE, "The same for those not done.", _show.duration),
    ("history_payload", ..., "Keep their payloads, too.", _show.yes),
    ("events", EVENT_LEVELS, "What is told of each message, for readers of events.", str),
    ("fifo_run", int, "Messages of a FIFO channel that one receive may take.", str),
    ("labels", LABELS, "Texts that are kept and shown, such as team=mail,env=prod.", labels),
)
"""Fields of a queue, in the same way."""


def _name(field: str) -> str:
    """`lease_seconds` as people write it: `lease`."""
    return field.removesuffix("_seconds").replace("_", "-")


def _option(row: Row) -> Any:
    field, kind, text, _ = row
    name = f"--{_name(field)}"
    if kind is ...:
        return click.option(f"{name}/--no-{_name(field)}", field, default=None, help=text)
    return option(f"{name} {field}", text, kind)


policy_options = options(*map(_option, LIMITS))
"""`--max-concurrency --rate --max-size --weight`; each takes `none`."""

settings_options = options(*map(_option, SETTINGS + LIMITS))
"""Settings that `queue create` and `queue update` can change."""


def values_of(options: Mapping[str, Any]) -> dict[str, Any]:
    """The options that were given; `none` becomes None."""
    values = {name: value for name, value in options.items() if value is not None}
    return {name: None if value == NONE else value for name, value in values.items()}


def split(options: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Given options as changes of a queue's settings, and of its default policy."""
    changes = values_of(options)
    policy = {field: changes.pop(field) for field, *_ in LIMITS if field in changes}
    return changes, policy


# --- how they show -------------------------------------------------------------------------------


def _paused(of: Any) -> str:
    """Whether it is paused, and why."""
    until = None if of.paused else getattr(of, "paused_until", None)  # of channels only
    if not of.paused and until is None:
        return "no"
    text = "yes" if until is None else f"until {_show.clock_time(until)}"
    return text if of.pause_reason is None else f"{text}: {_show.clean(of.pause_reason)}"


POLICY: _show.Columns = (
    *((_name(field), field, how) for field, _, _, how in LIMITS),
    ("paused", lambda policy: policy, _paused),
)
"""The columns of a policy."""

_QUEUE: _show.Columns = (
    *(
        # Where the settings leave it open, the queue still has one.
        (_name(field), field if field == "dead_letter" else f"settings.{field}", how)
        for field, _, _, how in SETTINGS
    ),
    ("fifo", "settings.fifo", _show.yes),
    ("paused", "settings", _paused),
    ("created", "created_at", _show.clock_time),
    ("modified", "modified_at", _show.clock_time),
)


def queue_facts(entry: QueueEntry) -> str:
    """A queue and its settings, named as the options are."""
    columns = [*_QUEUE]
    if entry.settings.policy != Policy():
        columns += [
            (f"each channel: {_name(field)}", f"settings.policy.{field}", how)
            for field, _, _, how in LIMITS
        ]
    return _show.facts(columns, entry)
