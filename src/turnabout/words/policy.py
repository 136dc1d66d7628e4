"""Settings of a queue and policies of a channel: frozen values, checked when they are made.

Durations are seconds here, at the face; `*_ms` properties give what stores keep. How a channel's
policy and its queue's default combine, and how long a retry waits, is decided here, once.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Literal, TypeVar, cast, get_args

from turnabout.words import limits
from turnabout.words.errors import UsageError
from turnabout.words.value import Value, force_setattr, replace
from turnabout.words.verb import QueueName

RATE_PERIOD_SECONDS_MAX = 86_400.0
WEIGHT_MAX = 1_000
HISTORY_SECONDS_MAX = 3660 * 86_400.0

DedupMode = Literal["window", "sliding", "until_started", "until_finished", "latest", "rerun"]
DedupScope = Literal["queue", "channel"]
OnExhausted = Literal["dead_letter", "drop", "block", "dead_letter_channel"]
EventLevel = Literal["off", "hints", "all"]
DEDUP_MODES: tuple[str, ...] = get_args(DedupMode)
DEDUP_SCOPES: tuple[str, ...] = get_args(DedupScope)
ON_EXHAUSTED: tuple[str, ...] = get_args(OnExhausted)
EVENT_LEVELS: tuple[str, ...] = get_args(EventLevel)

PAUSE_COLUMNS = ("paused", "paused_until", "pause_reason")

_T = TypeVar("_T")


class Rate(Value):
    """A token bucket: `count` deliveries per `per_seconds`, at most `burst` of them at once.

    `Rate(1, per_seconds=0.5)` is one delivery each half second: burst is 1 unless given, so
    deliveries are spaced evenly. In any span of t seconds at most burst + t * count / per_seconds
    deliveries begin.
    """

    count: int
    per_seconds: float = 1.0
    burst: int = 1

    def __post_init__(self) -> None:
        limits.whole(self.count, "rate count", 1, 1_000_000)
        limits.milliseconds(
            self.per_seconds, "rate per_seconds", RATE_PERIOD_SECONDS_MAX, least=0.001
        )
        limits.whole(self.burst, "rate burst", 1, 1_000_000)

    @property
    def interval_us(self) -> int:
        """Microseconds between two deliveries, rounded up so that the rate is never exceeded."""
        return max(1, -(-round(self.per_seconds * 1_000_000) // self.count))


class Policy(Value):
    """Limits of one channel, or the default of a queue's channels. None: not limited here.

    max_concurrency  live leases at once; exact, because a slot is a live lease
    rate             deliveries per time, redeliveries included
    max_size         unfinished messages; a send beyond it is refused with `ChannelFull`
    weight           messages a turn of the round robin; 1 unless given
    paused           nothing is handed out; sends are still taken
    paused_until     the same until then, in ms since 1970; past: no longer
    pause_reason     why; shown to people
    """

    max_concurrency: int | None = None
    rate: Rate | None = None
    max_size: int | None = None
    weight: int | None = None
    paused: bool = False
    paused_until: int | None = None
    pause_reason: str | None = None

    def __post_init__(self) -> None:
        limits.optional_whole(self.max_concurrency, "max_concurrency", 1, limits.INTEGER_MAX)
        limits.optional_whole(self.max_size, "max_size", 1, limits.INTEGER_MAX)
        limits.optional_whole(self.weight, "weight", 1, WEIGHT_MAX)
        limits.flag(self.paused, "paused")
        limits.optional_whole(self.paused_until, "paused_until", 0, limits.FOREVER_MS)
        limits.reason(self.pause_reason)
        if self.rate is not None:
            _is_a(Rate, "rate", self.rate)

    def changed(self, changes: Mapping[str, Any]) -> Policy:
        """Return the policy with some fields replaced; unknown fields are refused by name."""
        _known(changes, Policy)
        return replace(self, **changes)

    def over(self, default: Policy) -> Policy:
        """The limits of a channel with this policy in a queue with that default."""
        return Policy(
            max_concurrency=_first(self.max_concurrency, default.max_concurrency),
            rate=_first(self.rate, default.rate),
            max_size=_first(self.max_size, default.max_size),
            weight=_first(self.weight, default.weight),
            **pause_row(self),
        )


NO_POLICY = Policy()


class QueueSettings(Value):
    """A queue's settings. All but `fifo` may change on a live queue.

    lease_seconds        how long a delivery is held when `receive` names no time
    max_attempts         charged attempts (failures + crashes) until a message is dead; None: never
    max_deliveries       deliveries, charged or not, until a message that would come back is dead
    backoff_seconds      wait after the first failure; it doubles with each further charge
    backoff_max_seconds  the longest such wait
    backoff_jitter       0 to 1: that share of the wait is random, so that retries spread out
    delay_seconds        delay of messages that name none
    fifo                 one message of a channel at a time, a retried one first; set at creation
    fifo_run             with `fifo`: messages of a channel, next to each other, that one receive
                         may take; the channel then waits until all of them are settled
    paused               `receive` hands out nothing; sends are still taken
    pause_reason         why; shown to people
    on_exhausted         what to do with a message without attempts left: `dead_letter`, `drop`,
                         `block` (FIFO only: its channel waits for a person), `dead_letter_channel`
    dead_letter          queue that exhausted messages move to; None: `<queue>-dead`
    ttl_seconds          a message still waiting after that expires; None: never
    max_messages         unfinished messages; a send beyond it is refused with `QueueFull`
    queue_max_concurrency  live leases at once in the whole queue, beside the limits of its channels
    queue_rate           deliveries per time from the whole queue, beside the rates of its channels
    dedup_mode           of sends with a key that name none: `window`, `sliding`, `until_started`,
                         `until_finished`, `latest`, `rerun`
    dedup_window_seconds how long a key suppresses in the modes `window` and `sliding`
    dedup_scope          `queue` or `channel`: where a key counts
    history_seconds      how long the row of a message that is done stays; 0 keeps none
    history_failed_seconds  the same for messages that ended otherwise; None: the same time
    history_payload      whether these rows keep the payload and headers
    events               `off`, `hints` or `all`
    policy               the default policy of every channel in the queue
    labels               texts by name, kept and shown but not read, up to 16 KiB as JSON; a change
                         replaces all of them. None: there are none
    """

    lease_seconds: float = 30.0
    max_attempts: int | None = 5
    max_deliveries: int | None = None
    backoff_seconds: float = 1.0
    backoff_max_seconds: float = 3600.0
    backoff_jitter: float = 0.1
    delay_seconds: float = 0.0
    fifo: bool = False
    fifo_run: int = 1
    paused: bool = False
    pause_reason: str | None = None
    on_exhausted: OnExhausted = "dead_letter"
    dead_letter: QueueName | None = None
    ttl_seconds: float | None = None
    max_messages: int | None = None
    queue_max_concurrency: int | None = None
    queue_rate: Rate | None = None
    dedup_mode: DedupMode = "window"
    dedup_window_seconds: float = 300.0
    dedup_scope: DedupScope = "queue"
    history_seconds: float = 7 * 86_400.0
    history_failed_seconds: float | None = None
    history_payload: bool = False
    events: EventLevel = "off"
    policy: Policy = NO_POLICY
    labels: Mapping[str, str] | None = None

    def __post_init__(self) -> None:
        limits.lease_ms(self.lease_seconds)
        for name in ("max_attempts", "max_deliveries", "max_messages", "queue_max_concurrency"):
            limits.optional_whole(getattr(self, name), name, 1, limits.INTEGER_MAX)
        for name in ("backoff_seconds", "backoff_max_seconds", "delay_seconds"):
            limits.milliseconds(getattr(self, name), name, limits.DELAY_SECONDS_MAX)
        limits.milliseconds(self.history_seconds, "history_seconds", HISTORY_SECONDS_MAX)
        if self.history_failed_seconds is not None:
            limits.milliseconds(
                self.history_failed_seconds, "history_failed_seconds", HISTORY_SECONDS_MAX
            )
        if self.ttl_seconds is not None:
            limits.ttl_ms(self.ttl_seconds)
        limits.window_ms(self.dedup_window_seconds)
        limits.choice(self.dedup_mode, "dedup_mode", DEDUP_MODES)
        limits.choice(self.dedup_scope, "dedup_scope", DEDUP_SCOPES)
        limits.choice(self.on_exhausted, "on_exhausted", ON_EXHAUSTED)
        limits.choice(self.events, "events", EVENT_LEVELS)
        limits.flag(self.history_payload, "history_payload")
        limits.reason(self.pause_reason)
        limits.milliseconds(self.backoff_jitter, "backoff_jitter", 1.0)
        limits.flag(self.fifo, "fifo")
        limits.whole(self.fifo_run, "fifo_run", 1, limits.RECEIVE_MESSAGES_MAX)
        limits.flag(self.paused, "paused")
        if self.dead_letter is not None:
            limits.queue_name(self.dead_letter)
        _is_a(Policy, "policy", self.policy)
        if self.queue_rate is not None:
            _is_a(Rate, "queue_rate", self.queue_rate)
        if self.on_exhausted == "block" and not self.fifo:
            raise UsageError("on_exhausted='block' needs fifo=True: no other order is kept by it")
        if self.fifo_run > 1 and not self.fifo:
            raise UsageError("fifo_run above 1 needs fifo=True")
        if pause_row(self.policy) != pause_row(NO_POLICY):
            raise UsageError("a default policy cannot be paused: pause the queue (paused=True)")
        if self.labels is not None:
            any_ = limits.labels(self.labels) is not None
            force_setattr(self, "labels", MappingProxyType(dict(self.labels)) if any_ else None)

    def changed(self, changes: Mapping[str, Any]) -> QueueSettings:
        """Return the settings with some fields replaced; unknown fields are refused by name.

        `policy` is a whole Policy, or a mapping of those of its fields that change.
        """
        _known(changes, QueueSettings)
        policy = changes.get("policy")
        if isinstance(policy, Mapping):
            fields_of_it = cast("Mapping[str, Any]", policy)
            return replace(self, **{**changes, "policy": self.policy.changed(fields_of_it)})
        return replace(self, **changes)


def column_of(setting: str) -> str:
    """The column that a store keeps a setting in: durations in milliseconds, shares in percent."""
    if setting == "backoff_jitter":
        return "backoff_jitter_percent"
    return setting.replace("_seconds", "_ms")


def settings_row(settings: QueueSettings) -> dict[str, int | str | bool | None]:
    """The columns that a store keeps for a queue's settings, in order."""
    row = {column_of(name): _kept(name, getattr(settings, name)) for name in _PLAIN}
    rate = {f"queue_{column}": x for column, x in _rate_row(settings.queue_rate).items()}
    return {**row, **rate, **policy_row(settings.policy)}


def policy_row(policy: Policy) -> dict[str, int | None]:
    """The columns that a store keeps for the limits of a policy."""
    return {
        "max_concurrency": policy.max_concurrency,
        **_rate_row(policy.rate),
        "max_size": policy.max_size,
        "weight": policy.weight,
    }


def settings_of(row: Mapping[str, Any]) -> QueueSettings:
    """The settings in a queue's row; the inverse of `settings_row`."""
    plain: dict[str, Any] = {name: _set(name, row[column_of(name)]) for name in _PLAIN}
    policy = policy_of(row)
    return QueueSettings(**plain, queue_rate=_rate_of(row, "queue_rate"), policy=policy)


def pause_row(policy: Policy) -> dict[str, Any]:
    """The columns that a store keeps for a channel's pause."""
    return {name: getattr(policy, name) for name in PAUSE_COLUMNS}


def own_policy_of(row: Mapping[str, Any]) -> Policy:
    """The policy in a channel's row; the inverse of `policy_row` and `pause_row`."""
    pause = {name: row[name] for name in PAUSE_COLUMNS}
    return replace(policy_of(row), **{**pause, "paused": bool(row["paused"])})


def policy_of(row: Mapping[str, Any]) -> Policy:
    """The limits in a channel's or queue's row; the inverse of `policy_row`."""
    return Policy(
        max_concurrency=row["max_concurrency"],
        rate=_rate_of(row, "rate"),
        max_size=row["max_size"],
        weight=row["weight"],
    )


def _rate_row(rate: Rate | None) -> dict[str, int | None]:
    """The columns of a rate; a queue's own has `queue_` before each."""
    return {
        "rate_count": None if rate is None else rate.count,
        "rate_period_ms": None if rate is None else _ms(rate.per_seconds),
        "rate_burst": None if rate is None else rate.burst,
        "rate_interval_us": None if rate is None else rate.interval_us,
    }


def _rate_of(row: Mapping[str, Any], columns: str) -> Rate | None:
    if row[f"{columns}_count"] is None:
        return None
    period = row[f"{columns}_period_ms"] / 1000
    return Rate(row[f"{columns}_count"], period, row[f"{columns}_burst"])


def _kept(name: str, value: Any) -> Any:
    """A setting as its column has it."""
    if name == "backoff_jitter":
        return round(value * 100)
    if name == "labels":
        return None if value is None else limits.labels(value)
    return _ms(value) if name.endswith("_seconds") and value is not None else value


def _set(name: str, kept: Any) -> Any:
    """The inverse of `_kept`; SQLite keeps what is true or false as a number."""
    if kept is None:
        return None
    if name == "backoff_jitter":
        return kept / 100
    if name == "labels":
        return json.loads(kept)
    if name.endswith("_seconds"):
        return kept / 1000
    return bool(kept) if name in _FLAGS else kept


def _ms(seconds: float) -> int:
    return limits.milliseconds(seconds, "seconds", 1e9)


def _known(changes: Mapping[str, Any], kind: type[Policy | QueueSettings]) -> None:
    for name in changes:
        if name not in kind.__struct_fields__:
            known = ", ".join(kind.__struct_fields__)
            raise UsageError(f"{kind.__name__} has no {name!r}; it has {known}")


def _is_a(kind: type[Rate | Policy], what: str, value: object) -> None:
    if not isinstance(value, kind):
        raise UsageError(f"{what} is a {kind.__name__}, not {type(value).__name__}")


def _first(value: _T | None, default: _T | None) -> _T | None:
    return default if value is None else value


_PLAIN = tuple(n for n in QueueSettings.__struct_fields__ if n not in ("queue_rate", "policy"))
_FLAGS = frozenset(n for n in _PLAIN if isinstance(getattr(QueueSettings(), n), bool))
QUEUE_RATE_COLUMNS = tuple(f"queue_{column}" for column in _rate_row(None))
POLICY_COLUMNS = tuple(policy_row(NO_POLICY))
SETTINGS_COLUMNS = tuple(settings_row(QueueSettings()))
