"""Payloads between Python values and bytes."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.each import each
from turnabout import UsageError
from turnabout.words.payload import decode_json, encode

VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=["Cs"])),
    lambda inner: (
        st.lists(inner) | st.dictionaries(st.text(st.characters(exclude_categories=["Cs"])), inner)
    ),
    max_leaves=20,
)


@given(VALUES.filter(lambda value: not isinstance(value, str)))
def test_json_comes_back_as_it_was(value):
    data, kind = encode(value)
    assert kind == "application/json"
    assert decode_json(data) == value


@given(st.binary())
def test_bytes_stay(data):
    assert encode(data) == encode(bytearray(data)) == encode(memoryview(data))
    assert encode(data) == (data, "application/octet-stream")


@given(st.text(st.characters(exclude_categories=["Cs"])))
def test_text_is_utf8(text):
    assert encode(text) == (text.encode(), "text/plain; charset=utf-8")


def nested(depth):
    value = "leaf"
    for n in range(depth):
        value = [value] if n % 2 else {"k": value}
    return value


def test_depth_at_and_over_the_limit():
    assert decode_json(encode(nested(64))[0]) == nested(64)
    with pytest.raises(UsageError, match="64"):
        encode(nested(65))


def test_breadth_and_brackets_in_text_are_not_depth():
    assert encode([[]] * 1000)
    assert encode(["[" * 1000, {"{": "[[["}])


@each(
    "value",
    [
        math.nan,
        [math.inf],
        {"a": -math.inf},
        "\ud800",
        ["\udfff"],
        {"\ud800": 1},
        {1, 2},
        object(),
        1j,
        {(1, 2): 3},
        [b"bytes"],
        range(3),
    ],
)
def test_what_json_cannot_say_is_refused(value):
    with pytest.raises(UsageError):
        encode(value)


def test_a_value_that_holds_itself_is_refused():
    loop: list = []
    loop.append(loop)
    with pytest.raises(UsageError):
        encode(loop)


@each("data", [b"", b"NaN", b"[Infinity]", b"-Infinity", b"{", b"\xff", b"[" * 100_000, b"'a'"])
def test_what_is_no_json_is_refused(data):
    with pytest.raises(UsageError):
        decode_json(data)


def test_json_of_others_is_read():
    assert decode_json(b' {"a": [1e2, -0.0, "\\u0000"]} ') == {"a": [100.0, 0.0, "\x00"]}
