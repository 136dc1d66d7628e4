"""New values of a message's life: each limit at, below and above; wrong types refused."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.each import each
from turnabout import Outgoing, UsageError, message
from turnabout.words import limits
from turnabout.words.outcomes import Sent
from turnabout.words.policy import DEDUP_MODES, DEDUP_SCOPES, QueueSettings
from turnabout.words.prepare import all_of, result
from turnabout.words.records import RedriveFilter, Result

YEAR = limits.DELAY_SECONDS_MAX


@each("check", [limits.ttl_ms, limits.window_ms])
def test_times_at_their_ends(check):
    assert check(0.001) == 1
    assert check(0.0015) == 2
    assert check(YEAR) == YEAR * 1_000
    for wrong in (0, 0.0009, -1, YEAR + 0.001, math.nan, math.inf, True, "1", None):
        with pytest.raises(UsageError):
            check(wrong)


@given(st.text())
def test_a_dedup_key_is_any_text_that_databases_can_keep(key):
    surrogate = any("\ud800" <= c <= "\udfff" for c in key)
    if "\x00" not in key and not surrogate and 1 <= len(key.encode()) <= 255:
        assert limits.dedup_key(key) == key
    else:
        with pytest.raises(UsageError):
            limits.dedup_key(key)


@each("text", ["", "x" * 1_024, "ü" * 1_024, None])
def test_reasons_up_to_their_limit(text):
    assert limits.reason(text) == text


def test_ids_of_messages():
    assert limits.message_ids([1, 2**63 - 1]) == (1, 2**63 - 1)
    assert limits.message_ids(iter((3, 3))) == (3, 3)
    assert len(limits.message_ids(range(1, limits.IDS_MAX + 1))) == limits.IDS_MAX
    for wrong in (range(1, limits.IDS_MAX + 2), [0], [2**63], [True], ["1"], "1", b"1", 1, None):
        with pytest.raises(UsageError):
            limits.message_ids(wrong)


@each("mode", DEDUP_MODES)
@each("scope", DEDUP_SCOPES)
def test_a_message_carries_its_key_and_terms(mode, scope):
    made = message("x", dedup_key="k", dedup_mode=mode, dedup_scope=scope, dedup_window_seconds=1.5)
    terms = (made.dedup_key, made.dedup_mode, made.dedup_scope, made.dedup_window_ms)
    assert terms == ("k", mode, scope, 1_500)


@each(
    "wrong",
    [
        {"ttl_ms": 0},
        {"ttl_ms": 1.5},
        {"ttl_ms": YEAR * 1_000 + 1},
        {"dedup_key": ""},
        {"dedup_key": "k", "dedup_window_ms": 0},
        {"dedup_key": "k", "dedup_window_ms": YEAR * 1_000 + 1},
        {"dedup_key": "k", "dedup_mode": "WINDOW"},
        {"dedup_key": "k", "dedup_scope": ["queue"]},
        {"dedup_mode": "latest"},
    ],
)
def test_a_wrong_message_is_refused_where_it_is_made(wrong):
    with pytest.raises(UsageError):
        Outgoing(b"", **wrong)


def test_who_gives_text_for_bytes_is_told_of_message():
    for wrong in (lambda: Outgoing("text"), lambda: all_of(Outgoing, [{"to": "ada"}])):
        with pytest.raises(UsageError, match=r"turnabout\.message\(…\) makes"):
            wrong()


def test_a_result_is_bytes_text_or_json():
    assert result(None) is None
    assert result("ü").text() == "ü"
    assert result([1]).json() == [1]
    assert result(b"\xff") == Result(b"\xff", "application/octet-stream")
    with pytest.raises(UsageError):
        result(b"\xff").json()
    assert result(b"x" * limits.RESULT_BYTES_MAX)
    for wrong in (b"x" * (limits.RESULT_BYTES_MAX + 1), {1, 2}, math.nan):
        with pytest.raises(UsageError):
            result(wrong)


def test_the_filter_of_a_redrive():
    RedriveFilter("", 0, limits.FOREVER_MS, "")
    for wrong in (
        {"channel": "x" * 256},
        {"died_from": 1.5},
        {"died_until": limits.FOREVER_MS + 1},
    ):
        with pytest.raises(UsageError):
            RedriveFilter(**wrong)


def test_settings_that_need_one_another():
    QueueSettings(fifo=True, on_exhausted="block")
    with pytest.raises(UsageError, match="fifo=True"):
        QueueSettings(on_exhausted="block")
    assert QueueSettings(history_failed_seconds=0).history_failed_seconds == 0
    for wrong in (
        {"history_failed_seconds": -1},
        {"history_payload": None},
        {"ttl_seconds": 0},
        {"max_messages": 0},
        {"dedup_window_seconds": None},
        {"events": True},
        {"on_exhausted": None},
    ):
        with pytest.raises(UsageError):
            QueueSettings(**wrong)


def test_the_id_of_the_only_message_sent():
    assert Sent((7,), duplicates=(0,)).id == 7
    for many in ((), (1, 2)):
        with pytest.raises(UsageError, match="ids"):
            _ = Sent(many).id
