"""Every limit at, below and above; wrong types are refused, never converted."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.each import each
from turnabout import Receipt, UsageError
from turnabout.words import limits
from turnabout.words.entities import Shard


@each(
    ("seconds", "ms"),
    [
        (0, 0),
        (0.001, 1),
        (0.0001, 1),
        (0.0010000001, 1),
        (1.0005, 1001),
        (0.1 + 0.2, 300),
        (7, 7000),
    ],
)
def test_seconds_are_whole_milliseconds_rounded_up(seconds, ms):
    assert limits.delay_ms(seconds) == ms


@given(st.floats(0, limits.DELAY_SECONDS_MAX))
def test_nothing_comes_early(seconds):
    assert seconds * 1000 - 1e-4 <= limits.delay_ms(seconds) <= seconds * 1000 + 1


@each("seconds", [-0.001, math.nan, math.inf, -math.inf, True, "1", None, 1j])
def test_what_is_no_duration_is_refused(seconds):
    with pytest.raises(UsageError):
        limits.delay_ms(seconds)


def test_durations_at_their_ends():
    assert limits.delay_ms(limits.DELAY_SECONDS_MAX) == limits.DELAY_SECONDS_MAX * 1000
    assert limits.lease_ms(0.001) == 1
    assert limits.lease_ms(limits.LEASE_SECONDS_MAX) == limits.LEASE_SECONDS_MAX * 1000
    for wrong in (limits.DELAY_SECONDS_MAX + 0.001, 10**400):
        with pytest.raises(UsageError):
            limits.delay_ms(wrong)
    for wrong in (0, 0.0009, limits.LEASE_SECONDS_MAX + 0.001):
        with pytest.raises(UsageError):
            limits.lease_ms(wrong)


@each("value", [1, 5, 10])
def test_whole_numbers_in_their_range(value):
    assert limits.whole(value, "it", 1, 10) == value


@each("value", [0, 11, -1, True, False, 1.0, "5", None, math.nan])
def test_other_numbers_are_refused(value):
    with pytest.raises(UsageError, match="it "):
        limits.whole(value, "it", 1, 10)


@given(st.text())
def test_a_channel_is_any_text_that_databases_can_keep(name):
    fine = (
        "\x00" not in name
        and not any("\ud800" <= c <= "\udfff" for c in name)
        and len(name.encode()) <= 255
    )
    if fine:
        assert limits.channel_name(name) == name
    else:
        with pytest.raises(UsageError):
            limits.channel_name(name)


@given(st.text())
def test_an_error_s_text_is_always_kept_in_bounds(text):
    clean = limits.error_text(text)
    assert "\x00" not in clean
    clean.encode()


@each("length", [16_383, 16_384, 16_385, 20_000, 1_000_000])
def test_a_long_error_loses_its_middle(length):
    text = "a" * (length // 2) + "b" * (length - length // 2)
    clean = limits.error_text(text)
    assert len(clean) <= limits.ERROR_CHARS_MAX
    assert (clean == text) == (length <= limits.ERROR_CHARS_MAX)
    assert clean[0] == "a"
    assert clean[-1] == "b"


def test_an_error_never_carries_a_whole_payload():
    with pytest.raises(UsageError) as caught:
        limits.content_type("secret" * 1000)
    assert len(str(caught.value)) < 300


# --- receipts and shards ---


@given(
    st.integers(1, limits.ID_MAX),
    st.integers(1, limits.INTEGER_MAX),
    st.just(0) | st.integers(0, limits.ID_MAX),
)
def test_a_receipt_reads_as_it_writes(number, attempt, lease):
    receipt = Receipt(number, attempt, lease)
    assert Receipt.parse(str(receipt)) == receipt


def test_a_receipt_names_its_lease_where_that_has_a_number():
    assert str(Receipt(4711, 1)) == "4711.1"
    assert str(Receipt(4711, 1, 881)) == "4711.1.881"
    assert Receipt.parse("4711.1") == Receipt(4711, 1, 0) != Receipt(4711, 1, 881)


@each(
    "text",
    ["", "1", "1.", ".1", "1.1.", "1.1.x", "1.1.-1", "1.1.1.1", "a.1", "-1.1", "1.-1", " 1.1",
     "1.1\n", "0.1", "1.0", "٣.1", "9" * 20 + ".1", "9" * 19 + ".1", "1." + "9" * 10,
     "1.1." + "9" * 19, "1.1." + "9" * 20, None, 11, 1.1, b"1.1"],
)  # fmt: skip
def test_what_is_no_receipt_is_refused(text):
    with pytest.raises(UsageError):
        Receipt.parse(text)


@each(
    "args",
    [(0, 1), (1, 0), (True, 1), (1, 1.0), (2**63, 1), (1, 2**31),
     (1, 1, -1), (1, 1, True), (1, 1, 2**63)],
)  # fmt: skip
def test_a_receipt_out_of_range_is_refused(args):
    with pytest.raises(UsageError):
        Receipt(*args)


def test_shards():
    assert Shard(0, 1)
    assert Shard(1023, 1024)
    for wrong in ((1, 1), (-1, 1), (0, 0), (0, 1025), (0, True), (0.0, 1)):
        with pytest.raises(UsageError):
            Shard(*wrong)


def test_who_sends_too_many_at_once_is_told_to_send_in_parts():
    limits.messages_in_one_send(limits.SEND_MESSAGES_MAX)
    with pytest.raises(UsageError, match="at most 10,000 messages, not 10,001: send in parts"):
        limits.messages_in_one_send(limits.SEND_MESSAGES_MAX + 1)
