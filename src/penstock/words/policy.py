"""Settings of a queue and policies of a channel: frozen values, checked when they are made.

Durations are seconds here, at the face; `*_ms` properties give what stores keep. How a channel's
policy and its queue's default combine, and how long a retry waits, is decided here, once.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from typing import Any, TypeVar

from penstock.words import limits
from penstock.words.errors import UsageError

RATE_PERIOD_SECONDS_MAX = 86_400.0
WEIGHT_MAX = 1_000

_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class Rate:
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


@dataclass(frozen=True, slots=True)
class Policy:
    """Limits of one channel, or the default of a queue's channels. None: not limited here.

    max_concurrency  live leases at once; exact, because a slot is a live lease
    rate             deliveries per time, redeliveries included
    max_size         unfinished messages; a send beyond it is refused with `ChannelFull`
    weight           messages a turn of the round robin; 1 unless given
    paused           nothing is handed out; sends are still taken
    """

    max_concurrency: int | None = None
    rate: Rate | None = None
    max_size: int | None = None
    weight: int | None = None
    paused: bool = False

    def __post_init__(self) -> None:
        limits.optional_whole(self.max_concurrency, "max_concurrency", 1, limits.INTEGER_MAX)
        limits.optional_whole(self.max_size, "max_size", 1, limits.INTEGER_MAX)
        limits.optional_whole(self.weight, "weight", 1, WEIGHT_MAX)
        limits.flag(self.paused, "paused")
        if self.rate is not None:
            _is_a(Rate, "rate", self.rate)

    def changed(self, changes: Mapping[str, Any]) -> Policy:
        """This policy with some fields replaced; unknown fields are refused by name."""
        _known(changes, Policy)
        return replace(self, **changes)

    def over(self, default: Policy) -> Policy:
        """What holds for a channel with this policy in a queue with that default."""
        return Policy(
            max_concurrency=_first(self.max_concurrency, default.max_concurrency),
            rate=_first(self.rate, default.rate),
            max_size=_first(self.max_size, default.max_size),
            weight=_first(self.weight, default.weight),
            paused=self.paused,
        )


NO_POLICY = Policy()


@dataclass(frozen=True, slots=True)
class QueueSettings:
    """How a queue treats its messages. All but `fifo` may change on a live queue.

    lease_seconds        how long a delivery is held when `receive` names no time
    max_attempts         charged attempts (failures + crashes) until a message is dead; None: never
    backoff_seconds      wait after the first failure; it doubles with each further charge
    backoff_max_seconds  the longest such wait
    backoff_jitter       0 to 1: that share of the wait is random, so that retries spread out
    delay_seconds        delay of messages that name none
    fifo                 one message of a channel at a time, a retried one first; set at creation
    paused               `receive` hands out nothing; sends are still taken
    dead_letter          queue that exhausted messages move to; None: `<queue>-dead`
    history_seconds      how long a finished message's row stays in the history; 0 keeps none
    policy               the default policy of every channel in the queue
    """

    lease_seconds: float = 30.0
    max_attempts: int | None = 5
    backoff_seconds: float = 1.0
    backoff_max_seconds: float = 3600.0
    backoff_jitter: float = 0.1
    delay_seconds: float = 0.0
    fifo: bool = False
    paused: bool = False
    dead_letter: str | None = None
    history_seconds: float = 7 * 86_400.0
    policy: Policy = field(default=NO_POLICY)

    def __post_init__(self) -> None:
        limits.lease_ms(self.lease_seconds)
        limits.optional_whole(self.max_attempts, "max_attempts", 1, limits.INTEGER_MAX)
        for name in ("backoff_seconds", "backoff_max_seconds", "delay_seconds"):
            limits.milliseconds(getattr(self, name), name, limits.DELAY_SECONDS_MAX)
        limits.milliseconds(self.history_seconds, "history_seconds", 3660 * 86_400)
        limits.milliseconds(self.backoff_jitter, "backoff_jitter", 1.0)
        limits.flag(self.fifo, "fifo")
        limits.flag(self.paused, "paused")
        if self.dead_letter is not None:
            limits.queue_name(self.dead_letter)
        _is_a(Policy, "policy", self.policy)
        if self.policy.paused:
            raise UsageError("a default policy cannot be paused: pause the queue (paused=True)")

    def changed(self, changes: Mapping[str, Any]) -> QueueSettings:
        """These settings with some fields replaced; unknown fields are refused by name."""
        _known(changes, QueueSettings)
        return replace(self, **changes)


def settings_row(settings: QueueSettings) -> dict[str, int | str | bool | None]:
    """The columns that a store keeps for a queue's settings, in order."""
    return {
        "lease_ms": limits.lease_ms(settings.lease_seconds),
        "max_attempts": settings.max_attempts,
        "backoff_ms": _ms(settings.backoff_seconds),
        "backoff_max_ms": _ms(settings.backoff_max_seconds),
        "backoff_jitter_percent": round(settings.backoff_jitter * 100),
        "delay_ms": _ms(settings.delay_seconds),
        "fifo": settings.fifo,
        "paused": settings.paused,
        "dead_letter": settings.dead_letter,
        "history_ms": _ms(settings.history_seconds),
        **policy_row(settings.policy),
    }


def policy_row(policy: Policy) -> dict[str, int | None]:
    """The columns that a store keeps for a policy; `paused` is a column of its own."""
    rate = policy.rate
    return {
        "max_concurrency": policy.max_concurrency,
        "rate_count": None if rate is None else rate.count,
        "rate_period_ms": None if rate is None else _ms(rate.per_seconds),
        "rate_burst": None if rate is None else rate.burst,
        "rate_interval_us": None if rate is None else rate.interval_us,
        "max_size": policy.max_size,
        "weight": policy.weight,
    }


def settings_of(row: Mapping[str, Any]) -> QueueSettings:
    """The settings in a queue's row; the inverse of `settings_row`."""
    return QueueSettings(
        lease_seconds=row["lease_ms"] / 1000,
        max_attempts=row["max_attempts"],
        backoff_seconds=row["backoff_ms"] / 1000,
        backoff_max_seconds=row["backoff_max_ms"] / 1000,
        backoff_jitter=row["backoff_jitter_percent"] / 100,
        delay_seconds=row["delay_ms"] / 1000,
        fifo=bool(row["fifo"]),
        paused=bool(row["paused"]),
        dead_letter=row["dead_letter"],
        history_seconds=row["history_ms"] / 1000,
        policy=policy_of(row, paused=False),
    )


def policy_of(row: Mapping[str, Any], *, paused: bool) -> Policy:
    """The policy in a channel's or queue's row; the inverse of `policy_row`."""
    rate = None
    if row["rate_count"] is not None:
        rate = Rate(row["rate_count"], row["rate_period_ms"] / 1000, row["rate_burst"])
    return Policy(
        max_concurrency=row["max_concurrency"],
        rate=rate,
        max_size=row["max_size"],
        weight=row["weight"],
        paused=paused,
    )


def as_dict(value: Policy | QueueSettings) -> dict[str, Any]:
    """A plain dictionary of a policy or of settings, for JSON and tables."""
    return asdict(value)


def _ms(seconds: float) -> int:
    return limits.milliseconds(seconds, "seconds", 1e9)


def _known(changes: Mapping[str, Any], kind: type[Policy | QueueSettings]) -> None:
    known = [f.name for f in fields(kind)]
    for name in changes:
        if name not in known:
            raise UsageError(f"{kind.__name__} has no {name!r}; it has {', '.join(known)}")


def _is_a(kind: type[Rate | Policy], what: str, value: object) -> None:
    if not isinstance(value, kind):
        raise UsageError(f"{what} is a {kind.__name__}, not {type(value).__name__}")


def _first(value: _T | None, default: _T | None) -> _T | None:
    return default if value is None else value


POLICY_COLUMNS = tuple(policy_row(NO_POLICY))
SETTINGS_COLUMNS = tuple(settings_row(QueueSettings()))
