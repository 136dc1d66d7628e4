"""Policies and settings: what combines how, and that a store's row keeps all of it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.each import each
from turnabout import Policy, QueueSettings, Rate, UsageError
from turnabout.words.policy import (
    DEDUP_MODES,
    DEDUP_SCOPES,
    EVENT_LEVELS,
    NO_POLICY,
    ON_EXHAUSTED,
    POLICY_COLUMNS,
    SETTINGS_COLUMNS,
    own_policy_of,
    pause_row,
    policy_row,
    settings_of,
    settings_row,
)

MS = st.integers(1, 86_400_000).map(lambda ms: ms / 1000)
RATES = st.builds(Rate, st.integers(1, 1_000_000), MS, st.integers(1, 1_000_000))
COUNTS = st.none() | st.integers(1, 2**31 - 1)
POLICIES = st.builds(
    Policy,
    max_concurrency=COUNTS,
    rate=st.none() | RATES,
    max_size=COUNTS,
    weight=st.none() | st.integers(1, 1_000),
    paused=st.booleans(),
    pause_reason=st.none() | st.just("why"),
)
SETTINGS = st.builds(
    QueueSettings,
    lease_seconds=st.integers(1, 604_800_000).map(lambda ms: ms / 1000),
    max_attempts=COUNTS,
    backoff_seconds=MS,
    backoff_max_seconds=MS,
    backoff_jitter=st.integers(0, 100).map(lambda percent: percent / 100),
    delay_seconds=MS,
    fifo=st.booleans(),
    paused=st.booleans(),
    dead_letter=st.none() | st.just("grave"),
    pause_reason=st.none() | st.just("why"),
    on_exhausted=st.sampled_from([way for way in ON_EXHAUSTED if way != "block"]),
    ttl_seconds=st.none() | MS,
    max_messages=COUNTS,
    dedup_mode=st.sampled_from(DEDUP_MODES),
    dedup_window_seconds=MS,
    dedup_scope=st.sampled_from(DEDUP_SCOPES),
    history_seconds=MS,
    history_failed_seconds=st.none() | st.just(0.0) | MS,
    history_payload=st.booleans(),
    events=st.sampled_from(EVENT_LEVELS),
    policy=POLICIES.map(lambda policy: policy.changed({"paused": False, "pause_reason": None})),
)


@given(POLICIES)
def test_a_row_keeps_a_policy(policy):
    row = policy_row(policy)
    assert tuple(row) == POLICY_COLUMNS
    assert own_policy_of({**row, **pause_row(policy)}) == policy


@given(SETTINGS)
def test_a_row_keeps_settings(settings):
    row = settings_row(settings)
    assert tuple(row) == SETTINGS_COLUMNS
    assert settings_of(row) == settings
    assert settings_of(dict(reversed(row.items()))) == settings


@given(POLICIES, POLICIES)
def test_a_channel_s_policy_goes_over_its_queue_s(own, default):
    both = own.over(default)
    for name in ("max_concurrency", "rate", "max_size", "weight"):
        mine = getattr(own, name)
        assert getattr(both, name) == (getattr(default, name) if mine is None else mine)
    assert (both.paused, both.pause_reason) == (own.paused, own.pause_reason)
    assert own.over(NO_POLICY) == own


@given(RATES)
def test_an_interval_never_allows_more_than_the_rate(rate):
    assert rate.interval_us * rate.count >= round(rate.per_seconds * 1_000_000)
    assert rate.interval_us >= 1


@each(
    ("rate", "interval"),
    [
        (Rate(1), 1_000_000),
        (Rate(3), 333_334),
        (Rate(1, 0.001), 1_000),
        (Rate(1_000_000, 0.001), 1),
        (Rate(7, 60), 8_571_429),
    ],
)
def test_intervals(rate, interval):
    assert rate.interval_us == interval


def test_changes_name_their_fields():
    assert Policy().changed({"weight": 2}) == Policy(weight=2)
    with pytest.raises(UsageError, match="max_concurrency"):
        Policy().changed({"wieght": 2})
    with pytest.raises(UsageError, match="lease_seconds"):
        QueueSettings().changed({"lease": 2})


def test_a_default_policy_is_never_paused():
    for wrong in (Policy(paused=True), Policy(pause_reason="a row has no place for it")):
        with pytest.raises(UsageError, match="pause the queue"):
            QueueSettings(policy=wrong)
